#include "engine/trainer/measure_rank.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "engine/comm/endpoint.h"
#include "engine/trainer/measure_fit.h"

namespace plait {
namespace {

constexpr int64_t kMostAgreed = 1024;
constexpr double kLeastRepetitions = 3, kMostRepetitions = 10'000;

std::vector<int64_t> all_ranks(int64_t world) {
  std::vector<int64_t> ranks(static_cast<size_t>(world));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

}  // namespace

MeasureRank::MeasureRank(Fabric& fabric, const Place& place, const DeviceOptions& device,
                         Clock& clock, const Flags& flags)
    : clock_(clock),
      flags_(flags),
      endpoint_(fabric.endpoint(place.rank)),
      rank_(place.rank),
      device_(make_device(device)),
      agreed_(device_->allocate(4 * (kMostAgreed + 1), MemoryCategory::kCommunication)),
      everyone_(std::make_unique<Communicator>(
          endpoint_, "measure", place.group, all_ranks(fabric.options().world), &device_->pool())) {
}

void MeasureRank::agree(std::span<double> values) {
  const auto count = static_cast<int64_t>(values.size());
  check(count <= kMostAgreed, "ranks agree on few values at a time");
  auto* const sums = reinterpret_cast<float*>(agreed_.data());
  sums[0] = flags_.is_stop_wanted->load() ? 1.0f : 0.0f;
  for (size_t i = 0; i < values.size(); ++i) sums[i + 1] = static_cast<float>(values[i]);
  everyone_->all_reduce(agreed_.view(DType::kFloat32, {count + 1}));
  if (sums[0] > 0) throw MeasureStopped{};
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<double>(sums[i + 1]) / static_cast<double>(world());
  }
}

Communicator& MeasureRank::join(const char* name, uint32_t group, std::vector<int64_t> ranks) {
  groups_.push_back(
      std::make_unique<Communicator>(endpoint_, name, group, std::move(ranks), &device_->pool()));
  return *groups_.back();
}

TensorView MeasureRank::message(int64_t bytes) {
  if (message_.bytes() < bytes) {
    message_ = Buffer();
    message_ = device_->allocate(bytes, MemoryCategory::kCommunication);
  }
  // Memory that was never written is one page that all share.
  std::memset(message_.data(), 0, static_cast<size_t>(bytes));
  return message_.view(DType::kFloat32, {bytes / 4});
}

int64_t MeasureRank::repetitions(const MeasureEffort& effort, double first) const {
  const double wanted = std::max(static_cast<double>(effort.least), effort.seconds / first);
  const double most = std::min(effort.longest / first, kMostRepetitions);
  return static_cast<int64_t>(std::max(std::min(wanted, most), kLeastRepetitions));
}

double MeasureRank::time(const MeasureEffort& effort, FunctionRef<void()> body) {
  return time_parts(effort, 1, [&](size_t) { body(); }).at(0);
}

std::vector<double> MeasureRank::time_parts(const MeasureEffort& effort, size_t parts,
                                            FunctionRef<void(size_t part)> body) {
  const auto run = [&] {
    for (size_t part = 0; part < parts; ++part) body(part);
  };
  barrier();
  run();
  barrier();
  // The first pass touches memory for the first time: the second tells how long one takes.
  double first = now();
  run();
  first = now() - first;
  agree({&first, 1});
  first = std::max(first, 1e-7);
  if (parts > 1 && first > effort.longest) return {};
  const double warm_ups = std::min(static_cast<double>(effort.warm_ups), effort.longest / first);
  for (int64_t i = 2; i < static_cast<int64_t>(warm_ups); ++i) run();
  const int64_t count = repetitions(effort, first);
  std::vector<std::vector<double>> samples(parts);
  barrier();
  for (int64_t i = 0; i < count; ++i) {
    double begin = now();
    for (size_t part = 0; part < parts; ++part) {
      body(part);
      const double end = now();
      samples[part].push_back(end - begin);
      begin = end;
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& part : samples) medians.push_back(median(std::move(part)));
  agree(medians);
  for (double& seconds : medians) seconds = std::max(seconds, 1e-9);
  return medians;
}

}  // namespace plait

#include "op_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/base/random.h"
#include "kernels/reference/reference_kernels.h"

namespace plait {
namespace {

constexpr int64_t kGuard = 128;
constexpr char kGuardByte = 0x5A;

}  // namespace

HostTensor::HostTensor(DType dtype, const Shape& shape, bool is_misaligned)
    : dtype_(dtype), shape_(shape) {
  const int64_t bytes = shape.elements() * dtype_size(dtype);
  bytes_ =
      std::make_shared<std::vector<char>>(static_cast<size_t>(bytes + 2 * kGuard + 64), kGuardByte);
  auto address = reinterpret_cast<uintptr_t>(bytes_->data()) + kGuard;
  address = (address + 63) / 64 * 64;
  if (is_misaligned) address += static_cast<uintptr_t>(dtype_size(dtype));
  data_ = reinterpret_cast<char*>(address);
  std::memset(data_, 0xFF, static_cast<size_t>(bytes));
}

HostTensor::HostTensor(DType dtype, const Shape& shape, const std::vector<double>& values)
    : HostTensor(dtype, shape) {
  for (int64_t i = 0; i < elements(); ++i) set(i, values[static_cast<size_t>(i)]);
}

double HostTensor::at(int64_t i) const {
  switch (dtype_) {
    case DType::kBFloat16:
      return to_float(reinterpret_cast<const BFloat16*>(data_)[i]);
    case DType::kFloat16:
      return to_float(reinterpret_cast<const Float16*>(data_)[i]);
    default:
      return reinterpret_cast<const float*>(data_)[i];
  }
}

void HostTensor::set(int64_t i, double value) {
  const auto narrow = static_cast<float>(value);
  switch (dtype_) {
    case DType::kBFloat16:
      reinterpret_cast<BFloat16*>(data_)[i] = to_bfloat16(narrow);
      break;
    case DType::kFloat16:
      reinterpret_cast<Float16*>(data_)[i] = to_float16(narrow);
      break;
    default:
      reinterpret_cast<float*>(data_)[i] = narrow;
      break;
  }
}

void HostTensor::fill(double value) {
  for (int64_t i = 0; i < elements(); ++i) set(i, value);
}

std::vector<double> HostTensor::values() const {
  std::vector<double> out(static_cast<size_t>(elements()));
  for (int64_t i = 0; i < elements(); ++i) out[static_cast<size_t>(i)] = at(i);
  return out;
}

HostTensor HostTensor::copy() const {
  HostTensor other(dtype_, shape_);
  std::memcpy(other.data_, data_, static_cast<size_t>(view().bytes()));
  return other;
}

bool HostTensor::same_bits(const HostTensor& other) const {
  return view().bytes() == other.view().bytes() &&
         std::memcmp(data_, other.data_, static_cast<size_t>(view().bytes())) == 0;
}

bool HostTensor::is_guarded() const {
  if (bytes_ == nullptr) return true;
  const auto is_guard = [](char byte) { return byte == kGuardByte; };
  const char* end = bytes_->data() + bytes_->size();
  return std::all_of(static_cast<const char*>(bytes_->data()), static_cast<const char*>(data_),
                     is_guard) &&
         std::all_of(static_cast<const char*>(data_) + view().bytes(), end, is_guard);
}

HostTensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double scale,
                         bool is_misaligned) {
  std::vector<float> values(static_cast<size_t>(shape.elements()));
  fill_normal(stream_key("test", seed), scale, 0, shape.elements(), values.data());
  HostTensor tensor(dtype, shape, is_misaligned);
  for (int64_t i = 0; i < shape.elements(); ++i) tensor.set(i, values[static_cast<size_t>(i)]);
  return tensor;
}

std::vector<int32_t> random_ids(int64_t count, int64_t end, uint64_t seed) {
  std::vector<int32_t> ids(static_cast<size_t>(count));
  const PhiloxKey key = stream_key("ids", seed);
  for (size_t i = 0; i < ids.size(); ++i) {
    const uint64_t word = philox(key, {static_cast<uint32_t>(i), 0, 0, 0})[0];
    ids[i] = static_cast<int32_t>(word % static_cast<uint64_t>(end));
  }
  return ids;
}

OpRunner::OpRunner(Kernels kernels, IsaLevel isa, int threads) : kernels_(std::move(kernels)) {
  DeviceOptions options;
  options.isa = isa_name(isa);
  options.threads = threads;
  device_ = make_device(options);
}

void OpRunner::run(FunctionRef<void(OpContext&)> call) {
  Workspace workspace;
  OpContext context{*device_, kernels_, workspace};
  call(context);
  workspace.allocate(nullptr);
  {
    Workspace::Frame frame(workspace);
    if (workspace.needed() > 0) {
      std::memset(frame.take(workspace.needed()), 0xFF, static_cast<size_t>(workspace.needed()));
    }
  }
  call(context);
}

OpRunner& reference_runner() {
  static OpRunner runner(reference_kernels());
  return runner;
}

std::vector<double> numeric_gradient(const Model& model, std::vector<double> x,
                                     const std::vector<double>& seed, double step) {
  const auto objective = [&] {
    const std::vector<double> y = model(x);
    double sum = 0.0;
    for (size_t i = 0; i < seed.size(); ++i) sum += seed[i] * y.at(i);
    return sum;
  };
  std::vector<double> gradient(x.size());
  for (size_t i = 0; i < x.size(); ++i) {
    const double before = x[i];
    x[i] = before + step;
    const double high = objective();
    x[i] = before - step;
    const double low = objective();
    x[i] = before;
    gradient[i] = (high - low) / (2 * step);
  }
  return gradient;
}

std::vector<double> join(const std::vector<const HostTensor*>& tensors) {
  std::vector<double> all;
  for (const HostTensor* tensor : tensors) {
    const std::vector<double> values = tensor->values();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::string difference(const std::vector<double>& got, const std::vector<double>& want,
                       double absolute, double relative) {
  if (got.size() != want.size()) {
    return std::to_string(got.size()) + " elements, not " + std::to_string(want.size());
  }
  for (size_t i = 0; i < got.size(); ++i) {
    const double error = std::fabs(got[i] - want[i]);
    if (got[i] == want[i] || error <= absolute + relative * std::fabs(want[i])) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(got[i]) + ", not " +
           std::to_string(want[i]) + ": off by " + std::to_string(error / absolute) +
           " absolute tolerances";
  }
  return "";
}

double spacing(DType dtype) {
  if (dtype == DType::kBFloat16) return 0x1p-7;
  return dtype == DType::kFloat16 ? 0x1p-10 : 0x1p-23;
}

}  // namespace plait

#include "tests/engine/tensor_parallel/parallel_rig.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "kernels/base/random.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/kernels.h"
#include "tests/engine/comm/rig.h"

namespace plait::test {
namespace {

/// Calls visit(element of the logical tensor, element of the box) for each element of a box.
template <class Visit>
void walk(const Shape& shape, const Box& box, Visit visit) {
  const bool is_matrix = box.dims == 2;
  const int64_t rows = is_matrix ? box.size[0] : 1, columns = box.size[is_matrix ? 1 : 0];
  const int64_t stride = shape[is_matrix ? 1 : 0], top = is_matrix ? box.first[0] : 0;
  const int64_t left = box.first[is_matrix ? 1 : 0];
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      visit(static_cast<size_t>((top + row) * stride + left + column),
            static_cast<size_t>(row * columns + column));
    }
  }
}

bool is_same(float a, float b) { return std::memcmp(&a, &b, sizeof(float)) == 0; }

/// Puts one held segment of `rank` into the whole. Empty text, or what is wrong.
std::string put(const HeldSegment& held, int64_t rank, std::vector<float>* whole) {
  const Segment& segment = held.segment;
  if (rank < segment.first_holder || rank >= segment.first_holder + segment.holders) {
    return segment.name + " is held by a rank outside its holders";
  }
  std::string problem;
  walk(segment.shape, segment.box, [&](size_t logical, size_t local) {
    float& to = (*whole)[logical];
    const float value = held.values[local];
    if (rank == segment.first_holder) {
      if (!std::isnan(to)) problem = segment.name + " is held twice";
      to = value;
    } else if (segment.is_partial) {
      to += value;
    } else if (!is_same(to, value)) {
      problem = segment.name + ": copies differ";
    }
  });
  return problem;
}

}  // namespace

std::string GroupLayout::text() const {
  return std::to_string(size) + " ranks" + (is_sequence_parallel ? ", sequence parallel" : "") +
         (is_overlapping ? "" : ", no overlap");
}

void run_group(const GroupLayout& layout,
               const std::function<void(const TensorGroup&, Device&)>& body) {
  const std::unique_ptr<Fabric> fabric = thread_fabric(layout.size);
  run_world(*fabric, [&](Communicator& communicator) {
    DeviceOptions options;
    options.threads = 1;
    const std::unique_ptr<Device> device = make_device(options);
    TensorGroup group;
    group.communicator = layout.size > 1 ? &communicator : nullptr;
    group.size = layout.size;
    group.index = communicator.index();
    group.is_sequence_parallel = layout.is_sequence_parallel;
    group.is_overlapping = layout.is_overlapping;
    group.lanes = layout.lanes;
    body(group, *device);
  });
}

void run_measured(Device& device, const std::function<void(OpContext&)>& body) {
  Workspace workspace;
  const Kernels kernels = cpu_kernels();
  OpContext context{device, kernels, workspace};
  body(context);
  workspace.allocate(&device.ledger());
  body(context);
}

std::string assemble(const std::vector<std::vector<HeldSegment>>& ranks, LogicalValues* out) {
  std::string problem;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const HeldSegment& held : ranks[rank]) {
      std::vector<float>& whole = (*out)[held.segment.name];
      whole.resize(static_cast<size_t>(held.segment.shape.elements()), NAN);
      const std::string wrong = put(held, static_cast<int64_t>(rank), &whole);
      if (problem.empty()) problem = wrong;
    }
  }
  for (const auto& [name, values] : *out) {
    const bool is_whole =
        std::none_of(values.begin(), values.end(), [](float value) { return std::isnan(value); });
    if (problem.empty() && !is_whole) problem = name + " has elements that no rank holds";
  }
  return problem;
}

std::vector<float> cut(const std::vector<float>& values, const Shape& shape, const Box& box) {
  std::vector<float> out(static_cast<size_t>(box.elements()));
  walk(shape, box, [&](size_t logical, size_t local) { out[local] = values[logical]; });
  return out;
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b, double floor) {
  if (a.size() != b.size()) return INFINITY;
  double distance = 0, norm = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double difference = static_cast<double>(a[i]) - b[i];
    distance += difference * difference;
    norm += static_cast<double>(b[i]) * b[i];
  }
  if (distance == 0) return 0;
  return std::sqrt(distance) / std::max(floor, std::sqrt(norm));
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

std::vector<float> random_values(int64_t count, uint64_t seed, double scale) {
  std::vector<float> values(static_cast<size_t>(count));
  fill_normal(stream_key("test/values", seed), scale, 0, count, values.data());
  return values;
}

std::vector<int32_t> random_ids(int64_t count, int64_t first, int64_t end, uint64_t seed) {
  std::vector<int32_t> ids;
  const PhiloxKey key = stream_key("test/ids", seed);
  for (int64_t i = 0; i < count; ++i) {
    const uint32_t word = philox(key, {static_cast<uint32_t>(i), 0, 0, 0})[0];
    ids.push_back(static_cast<int32_t>(first + word % static_cast<uint64_t>(end - first)));
  }
  return ids;
}

}  // namespace plait::test

// Ranks of a tensor group as threads, and logical tensors cut over them and put together again.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "engine/layers/parameter.h"
#include "engine/tensor_parallel/tensor_group.h"
#include "kernels/ops/context.h"

namespace plait::test {

struct GroupLayout {
  int64_t size = 1;
  bool is_sequence_parallel = false;
  bool is_overlapping = true;
  int64_t lanes = 1;
  std::string text() const;
};

/// Runs body(group, device) in a thread for each rank, each with a device of one thread; fails the
/// test when one throws. Catch2's macros stay out of `body`.
void run_group(const GroupLayout& layout,
               const std::function<void(const TensorGroup&, Device&)>& body);

/// Calls `body` in a measuring pass, then for real in a workspace just as large as was measured.
void run_measured(Device& device, const std::function<void(OpContext&)>& body);

/// Values of logical tensors.
using LogicalValues = std::map<std::string, std::vector<float>>;

/// One segment as a rank holds it.
struct HeldSegment {
  Segment segment;
  std::vector<float> values;  ///< of its box, row by row
};

/// What the ranks of a group hold, by rank. Partial segments are added; copies must have equal
/// bits; every element must be held. Empty text, or what is wrong.
std::string assemble(const std::vector<std::vector<HeldSegment>>& ranks, LogicalValues* out);

/// `values` of a whole tensor of this shape, cut to a box.
std::vector<float> cut(const std::vector<float>& values, const Shape& shape, const Box& box);

/// 2-norm of a − b over the larger of `floor` and the 2-norm of b.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b,
                           double floor = 0);
bool same_bits(const std::vector<float>& a, const std::vector<float>& b);

/// Normal values, the same for the same seed.
std::vector<float> random_values(int64_t count, uint64_t seed, double scale = 1.0);
/// Ids in [first, end).
std::vector<int32_t> random_ids(int64_t count, int64_t first, int64_t end, uint64_t seed);

}  // namespace plait::test

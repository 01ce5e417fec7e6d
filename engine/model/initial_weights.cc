#include "engine/model/initial_weights.h"

#include <algorithm>

#include "kernels/base/mutation.h"
#include "kernels/base/random.h"

namespace plait {
namespace {

/// Elements [first, end) of a segment, counted in its box row by row, to out.
struct SegmentSpan {
  int64_t first = 0, end = 0;
  float* out = nullptr;
};

/// A row of a box is a contiguous run of the logical tensor; a vector is one row.
void fill_segment(const Segment& segment, uint64_t seed, ThreadPool& pool,
                  const SegmentSpan& span) {
  if (segment.initial.kind == InitialValue::Kind::kConstant) {
    std::fill(span.out, span.out + (span.end - span.first),
              static_cast<float>(segment.initial.value));
    return;
  }
  const PhiloxKey key = stream_key("init/" + segment.name, seed);
  const bool is_matrix = segment.box.dims == 2;
  const int64_t columns = segment.box.size[is_matrix ? 1 : 0];
  const int64_t stride = segment.shape[is_matrix ? 1 : 0];
  const bool has_first_row = is_matrix && !is_mutated(Mutation::kWeightsDrawnLocally);
  const int64_t first_row = has_first_row ? segment.box.first[0] : 0;
  const int64_t first_column = segment.box.first[is_matrix ? 1 : 0];
  const int64_t top = span.first / columns, bottom = (span.end + columns - 1) / columns;
  pool.run_range(bottom - top, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = top + begin; row < top + end; ++row) {
      const int64_t from = std::max(span.first, row * columns);
      const int64_t to = std::min(span.end, (row + 1) * columns);
      const int64_t element = (first_row + row) * stride + first_column + from - row * columns;
      fill_normal(key, segment.initial.value, element, to - from, span.out + (from - span.first));
    }
  });
}

}  // namespace

void fill_initial_weights(const Unit& unit, uint64_t seed, ThreadPool& pool, int64_t first,
                          int64_t count, float* out) {
  std::fill_n(out, count, 0.0f);
  for (const auto& parameter : unit.parameters()) {
    for (const Segment& segment : parameter->segments) {
      const auto [offset, size] = parameter->range(segment);
      const int64_t start = parameter->offset + offset;
      const int64_t from = std::max(first, start), to = std::min(first + count, start + size);
      if (from >= to) continue;
      fill_segment(segment, seed, pool, {from - start, to - start, out + (from - first)});
    }
  }
}

void fill_initial_weights(const Unit& unit, uint64_t seed, ThreadPool& pool, float* master) {
  fill_initial_weights(unit, seed, pool, 0, unit.elements(), master);
}

}  // namespace plait

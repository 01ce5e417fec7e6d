#include "engine/layers/initial_weights.h"

#include <algorithm>

#include "kernels/base/mutation.h"
#include "kernels/ops/normal.h"

namespace plait {
namespace {

/// Elements [first, end) of a segment, counted in its box row by row, to out.
struct SegmentSpan {
  int64_t first = 0, end = 0;
  float* out = nullptr;
};

/// A row of a box is a contiguous run of the logical tensor; a vector is one row.
void fill_segment(OpContext& context, const Segment& segment, uint64_t seed,
                  const SegmentSpan& span) {
  if (segment.initial.kind == InitialValue::Kind::kConstant) {
    std::fill(span.out, span.out + (span.end - span.first),
              static_cast<float>(segment.initial.value));
    return;
  }
  const bool is_matrix = segment.box.dims == 2;
  const int64_t columns = segment.box.size[is_matrix ? 1 : 0];
  const bool has_first_row = is_matrix && !is_mutated(Mutation::kWeightsDrawnLocally);
  const int64_t first_row = has_first_row ? segment.box.first[0] : 0;
  NormalStream stream;
  stream.key = stream_key("init/" + segment.name, seed);
  stream.std = segment.initial.value;
  stream.stride = segment.shape[is_matrix ? 1 : 0];
  for (int64_t at = span.first; at < span.end;) {
    const int64_t row = at / columns, column = at % columns;
    const int64_t rows = column == 0 ? (span.end - at) / columns : 0;  // whole ones
    const Shape shape =
        rows > 0 ? Shape{rows, columns} : Shape{1, std::min(columns - column, span.end - at)};
    stream.first =
        (first_row + row) * stream.stride + segment.box.first[is_matrix ? 1 : 0] + column;
    draw_normal(context, stream, {span.out + (at - span.first), DType::kFloat32, shape});
    at += shape.elements();
  }
}

}  // namespace

void fill_initial_weights(OpContext& context, const Unit& unit, uint64_t seed, int64_t first,
                          int64_t count, float* out) {
  context.pool().run_range(count, 1 << 16, [&](int64_t begin, int64_t end, int) {
    std::fill(out + begin, out + end, 0.0f);
  });
  for (const auto& parameter : unit.parameters()) {
    for (const Segment& segment : parameter->segments) {
      const auto [offset, size] = parameter->range(segment);
      const int64_t start = parameter->offset + offset;
      const int64_t from = std::max(first, start), to = std::min(first + count, start + size);
      if (from >= to) continue;
      fill_segment(context, segment, seed, {from - start, to - start, out + (from - first)});
    }
  }
}

}  // namespace plait

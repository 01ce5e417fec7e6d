#include "engine/model/initial_weights.h"

#include <algorithm>

#include "kernels/base/random.h"

namespace plait {
namespace {

/// Draws one segment: rows of its box are contiguous runs of the logical tensor.
void fill_segment(const Parameter& parameter, const Segment& segment, uint64_t seed,
                  ThreadPool& pool, float* unit_master) {
  const auto [first, count] = parameter.range(segment);
  float* out = unit_master + parameter.offset + first;
  if (segment.initial.kind == InitialValue::Kind::kConstant) {
    std::fill_n(out, count, static_cast<float>(segment.initial.value));
    return;
  }
  const PhiloxKey key = stream_key("init/" + segment.name, seed);
  const int64_t columns = segment.box.dims == 2 ? segment.box.size[1] : segment.box.size[0];
  const int64_t stride = segment.box.dims == 2 ? segment.shape[1] : segment.shape[0];
  const int64_t rows = count / columns;
  const int64_t first_row = segment.box.dims == 2 ? segment.box.first[0] : 0;
  const int64_t first_column = segment.box.first[segment.box.dims == 2 ? 1 : 0];
  pool.run_range(rows, 16, [&](int64_t begin, int64_t end, int) {
    for (int64_t row = begin; row < end; ++row) {
      fill_normal(key, segment.initial.value, (first_row + row) * stride + first_column, columns,
                  out + row * columns);
    }
  });
}

}  // namespace

void fill_initial_weights(const Unit& unit, uint64_t seed, ThreadPool& pool, float* master) {
  std::fill_n(master, unit.elements(), 0.0f);
  for (const auto& parameter : unit.parameters()) {
    for (const Segment& segment : parameter->segments) {
      fill_segment(*parameter, segment, seed, pool, master);
    }
  }
}

}  // namespace plait

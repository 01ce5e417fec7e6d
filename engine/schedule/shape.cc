#include "engine/schedule/shape.h"

#include <algorithm>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

void check_sizes(const ScheduleShape& shape) {
  struct Row {
    const char* name;
    int64_t value, least, most;
  };
  for (const Row& row :
       {Row{"pipeline", shape.pipeline, 1, kMostPairs}, Row{"chunks", shape.chunks, 1, kMostPairs},
        Row{"micro_batches", shape.micro_batches, 1, kMostPairs}, Row{"zero", shape.zero, 0, 3}}) {
    if (row.value >= row.least && row.value <= row.most) continue;
    throw Error("argument", "a number of the schedule's shape is out of range")
        .with(row.name, row.value)
        .with("minimum", row.least)
        .with("maximum", row.most);
  }
  if (shape.chunks <= kMostPairs / shape.pipeline &&
      shape.micro_batches <= kMostPairs / (shape.pipeline * shape.chunks)) {
    return;
  }
  throw Error("argument", "a schedule has too many instructions")
      .with("pipeline", shape.pipeline)
      .with("chunks", shape.chunks)
      .with("micro_batches", shape.micro_batches)
      .with("limit", kMostPairs);
}

void check_chunks(const ScheduleShape& shape) {
  const bool is_interleaved = shape.kind == ScheduleKind::kInterleaved;
  if (is_interleaved && shape.chunks == 1) {
    throw Error("argument", "the interleaved schedule needs two or more chunks")
        .with("key", "layout.interleave")
        .with("chunks", shape.chunks);
  }
  if (shape.chunks == 1) return;
  if (!is_interleaved && shape.kind != ScheduleKind::kForwardOnly) {
    throw Error("argument", "only the interleaved schedule takes several chunks")
        .with("key", "layout.schedule")
        .with("value", schedule_kind_name(shape.kind))
        .with("chunks", shape.chunks);
  }
  if (shape.pipeline > 1) return;
  throw Error("argument", "several chunks need several pipeline coordinates")
      .with("key", "layout.interleave")
      .with("chunks", shape.chunks)
      .with("pipeline", shape.pipeline);
}

void check_groups(const ScheduleShape& shape) {
  const int64_t below = shape.micro_batches / shape.pipeline * shape.pipeline;
  if (below == shape.micro_batches) return;
  Error error = Error("argument", "the interleaved schedule needs whole groups of micro-batches")
                    .with("micro_batches", shape.micro_batches)
                    .with("pipeline", shape.pipeline)
                    .with("above", below + shape.pipeline);
  if (below == 0) throw error;
  throw std::move(error).with("below", below);
}

/// Of the first `count` passes of an interleaved list in one direction, those of the chunk that is
/// the `place`-th of that direction.
int64_t passes_of_chunk(const ScheduleShape& shape, int64_t count, int64_t place) {
  const int64_t p = shape.pipeline, period = p * shape.chunks;
  return count / period * p + std::clamp<int64_t>(count % period - place * p, 0, p);
}

/// Between two changes of chunk, forward or backward, the number alive rises or falls evenly, so it
/// is largest right before or at such a change of the first period.
int64_t peak_of_chunk(const ScheduleShape& shape, int64_t coordinate, int64_t chunk) {
  const int64_t p = shape.pipeline, v = shape.chunks, all = shape.micro_batches * v;
  const int64_t warm_up = std::min(all, 2 * (p - 1 - coordinate) + (v - 1) * p);
  const int64_t period = p * v, turns = std::min(all - warm_up, period);
  int64_t peak = passes_of_chunk(shape, warm_up, chunk);
  const auto look = [&](int64_t turn) {  // after its forward, before its backward
    if (turn < 0 || turn >= turns) return;
    peak = std::max(peak, passes_of_chunk(shape, warm_up + turn + 1, chunk) -
                              passes_of_chunk(shape, turn, v - 1 - chunk));
  };
  const auto look_around = [&](int64_t turn) {
    for (int64_t near = turn - 1; near <= turn + 1; ++near) look((near % period + period) % period);
  };
  look(0);
  look(turns - 1);
  for (const int64_t side : {0, 1}) {
    look_around((chunk + side) * p - warm_up - 1);
    look_around((v - 1 - chunk + side) * p);
  }
  return peak;
}

}  // namespace

void check_shape(const ScheduleShape& shape) {
  check_sizes(shape);
  check_chunks(shape);
  if (shape.kind == ScheduleKind::kInterleaved) check_groups(shape);
  if (shape.kind == ScheduleKind::kZeroBubble && shape.zero >= 2) {
    throw Error("argument", "the zero_bubble schedule works with ZeRO stages 0 and 1 only")
        .with("key", "layout.zero")
        .with("zero", shape.zero);
  }
}

int64_t peak_of_table(const ScheduleShape& shape, int64_t coordinate) {
  const int64_t p = shape.pipeline, v = shape.chunks, m = shape.micro_batches;
  switch (shape.kind) {
    case ScheduleKind::kGpipe:
      return m;
    case ScheduleKind::kOneForwardOneBackward:
      return std::min(m, p - coordinate);
    case ScheduleKind::kInterleaved:
      return std::min(m * v, 2 * (p - 1 - coordinate) + (v - 1) * p + 1);
    case ScheduleKind::kZeroBubble:
      return std::min(m, p);
    case ScheduleKind::kForwardOnly:
      return 0;
  }
  return 0;
}

int64_t peak_of_table(const ScheduleShape& shape, int64_t coordinate, int64_t chunk) {
  if (shape.kind != ScheduleKind::kInterleaved) return peak_of_table(shape, coordinate);
  return peak_of_chunk(shape, coordinate, chunk);
}

}  // namespace plait

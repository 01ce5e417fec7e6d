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

}  // namespace plait

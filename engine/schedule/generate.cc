// The compute lists of each kind.
#include <algorithm>

#include "engine/schedule/passes.h"
#include "engine/schedule/schedule.h"
#include "engine/schedule/shape.h"

namespace plait {
namespace {

using List = InstructionList;

List gpipe(const ScheduleShape& shape, int64_t coordinate) {
  List list;
  for (int64_t i = 0; i < shape.micro_batches; ++i) {
    list.push_back({Operation::kForward, i, coordinate});
  }
  for (int64_t i = 0; i < shape.micro_batches; ++i) {
    list.push_back({Operation::kBackward, i, coordinate});
  }
  return list;
}

List one_forward_one_backward(const ScheduleShape& shape, int64_t coordinate) {
  const int64_t m = shape.micro_batches;
  const int64_t warm_up = std::min(m, shape.pipeline - 1 - coordinate);
  List list;
  for (int64_t i = 0; i < warm_up; ++i) list.push_back({Operation::kForward, i, coordinate});
  for (int64_t i = 0; i < m - warm_up; ++i) {
    list.push_back({Operation::kForward, warm_up + i, coordinate});
    list.push_back({Operation::kBackward, i, coordinate});
  }
  for (int64_t i = m - warm_up; i < m; ++i) list.push_back({Operation::kBackward, i, coordinate});
  return list;
}

/// One forward, one backward with the backward pass cut in two: the weight part of micro-batch
/// i − π follows the input part of i, the rest comes at the end.
List zero_bubble(const ScheduleShape& shape, int64_t coordinate) {
  List list;
  for (const Instruction& instruction : one_forward_one_backward(shape, coordinate)) {
    if (instruction.operation == Operation::kForward) {
      list.push_back(instruction);
      continue;
    }
    list.push_back({Operation::kBackwardInput, instruction.micro, coordinate});
    if (instruction.micro >= coordinate) {
      list.push_back({Operation::kBackwardWeight, instruction.micro - coordinate, coordinate});
    }
  }
  const int64_t m = shape.micro_batches;
  for (int64_t i = std::max<int64_t>(m - coordinate, 0); i < m; ++i) {
    list.push_back({Operation::kBackwardWeight, i, coordinate});
  }
  return list;
}

/// Micro-batch and stage of the i-th forward (or, mirrored, backward) of an interleaved list.
Instruction interleaved_at(const ScheduleShape& shape, int64_t coordinate, int64_t i,
                           Operation operation) {
  const int64_t p = shape.pipeline, v = shape.chunks;
  const int64_t chunk = i % (p * v) / p;
  const int64_t micro = p * (i / (p * v)) + i % p;
  const int64_t which = operation == Operation::kForward ? chunk : v - 1 - chunk;
  return {operation, micro, which * p + coordinate};
}

List interleaved(const ScheduleShape& shape, int64_t coordinate) {
  const int64_t p = shape.pipeline, v = shape.chunks, total = shape.micro_batches * v;
  const int64_t warm_up = std::min(total, 2 * (p - 1 - coordinate) + (v - 1) * p);
  List list;
  for (int64_t i = 0; i < warm_up; ++i) {
    list.push_back(interleaved_at(shape, coordinate, i, Operation::kForward));
  }
  for (int64_t i = 0; i < total - warm_up; ++i) {
    list.push_back(interleaved_at(shape, coordinate, warm_up + i, Operation::kForward));
    list.push_back(interleaved_at(shape, coordinate, i, Operation::kBackward));
  }
  for (int64_t i = total - warm_up; i < total; ++i) {
    list.push_back(interleaved_at(shape, coordinate, i, Operation::kBackward));
  }
  return list;
}

/// Forwards in the order table, the last group of micro-batches as short as it comes.
List forward_only(const ScheduleShape& shape, int64_t coordinate) {
  const int64_t p = shape.pipeline, m = shape.micro_batches;
  List list;
  for (int64_t first = 0; first < m; first += p) {
    for (int64_t chunk = 0; chunk < shape.chunks; ++chunk) {
      for (int64_t micro = first; micro < std::min(m, first + p); ++micro) {
        list.push_back({Operation::kForward, micro, chunk * p + coordinate});
      }
    }
  }
  return list;
}

List compute_list(const ScheduleShape& shape, int64_t coordinate) {
  switch (shape.kind) {
    case ScheduleKind::kGpipe:
      return gpipe(shape, coordinate);
    case ScheduleKind::kOneForwardOneBackward:
      return one_forward_one_backward(shape, coordinate);
    case ScheduleKind::kInterleaved:
      return interleaved(shape, coordinate);
    case ScheduleKind::kZeroBubble:
      return zero_bubble(shape, coordinate);
    case ScheduleKind::kForwardOnly:
      return forward_only(shape, coordinate);
  }
  return {};
}

}  // namespace

Schedule make_schedule(const ScheduleShape& shape) {
  check_shape(shape);
  Schedule schedule{shape, {}};
  for (int64_t coordinate = 0; coordinate < shape.pipeline; ++coordinate) {
    List list = add_reductions(compute_list(shape, coordinate), shape);
    list = add_messages(add_weight_windows(list, shape), shape);
    const bool has_step = shape.kind != ScheduleKind::kForwardOnly;
    schedule.lists.push_back(has_step ? add_step(list, shape, coordinate) : list);
  }
  validate(schedule);
  return schedule;
}

Schedule make_forward_schedule(const ScheduleShape& shape) {
  ScheduleShape forward = shape;
  forward.kind = ScheduleKind::kForwardOnly;
  return make_schedule(forward);
}

}  // namespace plait

#include "engine/planner/rank_share.h"

#include <algorithm>

namespace plait {
namespace {

constexpr int64_t kUnitAlignment = 64;

ScheduleKind kind_of(ScheduleChoice choice) {
  switch (choice) {
    case ScheduleChoice::kOneForwardOneBackward:
      return ScheduleKind::kOneForwardOneBackward;
    case ScheduleChoice::kInterleaved:
      return ScheduleKind::kInterleaved;
    case ScheduleChoice::kGpipe:
      return ScheduleKind::kGpipe;
    case ScheduleChoice::kZeroBubble:
      return ScheduleKind::kZeroBubble;
  }
  return ScheduleKind::kOneForwardOneBackward;
}

/// Rows of logits that the head computes at a time, of `width` columns in each lane.
int64_t rows_at_once(int64_t width) {
  constexpr int64_t kElements = int64_t{1} << 25;
  return std::clamp<int64_t>(kElements / width / 64 * 64, 64, 4096);
}

}  // namespace

ScheduleShape schedule_shape(const Job& job, const LayoutConfig& layout) {
  return {kind_of(layout.schedule), layout.pipeline, layout.interleave, micro_batches(job, layout),
          layout.zero};
}

RankShare::RankShare(const Job& given, const LayoutConfig& of, int64_t coordinate)
    : job(given),
      model(given.model),
      layout(of),
      pipeline(coordinate),
      tensor(of.tensor),
      lanes(std::max<int64_t>(given.precision.canonical_tensor / of.tensor, 1)),
      data(of.data),
      batch_parts(std::max<int64_t>(given.precision.canonical_data / of.data, 1)),
      micro_batches(plait::micro_batches(given, of)),
      compute(compute_bytes(given)),
      residual(residual_bytes(given)),
      rows(of.micro_batch * given.train.sequence_length),
      stream_rows(rows),
      hidden(model.hidden),
      head_size(model.head_size),
      heads(model.heads / (tensor * lanes)),
      groups(std::max<int64_t>(model.key_value_heads / (tensor * lanes), 1)),
      feed_forward(model.feed_forward / (tensor * lanes)),
      vocabulary(padded_vocabulary(model, tensor * lanes) / tensor),
      is_first(pipeline == 0),
      is_last(pipeline + 1 == of.pipeline),
      is_cut(of.sequence_parallel && of.tensor > 1),
      is_split(of.schedule == ScheduleChoice::kZeroBubble),
      is_replaying(of.recompute == RecomputeChoice::kFull && !is_split),
      is_gated(model.family == FamilyChoice::kLlama) {
  if (is_cut) stream_rows /= tensor;
  for (int64_t chunk = 0; chunk < layout.interleave; ++chunk) {
    layers += layers_of(chunk * layout.pipeline + pipeline);
  }
  const bool holds_token = is_first || (is_last && model.tied);
  const int64_t token_uses = model.tied && layout.pipeline == 1 ? 2 : 1;
  const auto unit = [&](UnitKind kind, bool is_held, int64_t uses = 1) {
    return UnitShare{kind, is_held ? 1 : 0, uses, is_held ? unit_elements(kind) : 0};
  };
  units = {unit(UnitKind::kToken, holds_token, token_uses),
           unit(UnitKind::kPosition, is_first && !is_gated),
           UnitShare{UnitKind::kLayer, layers, 1, unit_elements(UnitKind::kLayer)},
           unit(UnitKind::kFinalNorm, is_last), unit(UnitKind::kHead, is_last && !model.tied)};
}

int64_t RankShare::layers_of(int64_t stage) const {
  if (!layout.stage_layers.empty()) return layout.stage_layers[static_cast<size_t>(stage)];
  const int64_t stages = layout.pipeline * layout.interleave;
  return (stage + 1) * model.layers / stages - stage * model.layers / stages;
}

StageShare RankShare::stage(int64_t chunk) const {
  StageShare result;
  result.stage = chunk * layout.pipeline + pipeline;
  result.layers = layers_of(result.stage);
  result.alive = peak_of_table(schedule_shape(job, layout), pipeline, chunk);
  result.is_first = result.stage == 0;
  result.is_last = result.stage + 1 == layout.pipeline * layout.interleave;
  return result;
}

int64_t RankShare::unit_elements(UnitKind kind) const {
  int64_t sum = 0;
  visit_parameters(kind, [&](const ParameterShare& parameter) {
    sum += round_up_to(parameter.elements, kUnitAlignment);
  });
  return round_up_to(sum, kUnitAlignment * data);
}

int64_t RankShare::elements() const {
  int64_t sum = 0;
  for (const UnitShare& unit : units) sum += unit.count * unit.elements;
  return sum;
}

int64_t RankShare::elements_of_uses() const {
  int64_t sum = 0;
  for (const UnitShare& unit : units) sum += unit.count * unit.uses * unit.elements;
  return sum;
}

int64_t RankShare::partial_elements(int64_t coordinate) const {
  int64_t sum = 0;
  for (const UnitShare& unit : units) {
    if (unit.count == 0) continue;
    const int64_t slice = unit.elements / data;
    visit_segments(unit.kind, [&](const SegmentShare& segment, int64_t first) {
      if (!segment.is_partial) return;
      sum += unit.count * shared_elements(first, segment.elements, coordinate * slice, slice);
    });
  }
  return sum;
}

bool RankShare::is_scattering() const { return layout.scatter_gather && tensor > 1 && !is_cut; }

int64_t RankShare::boundary_elements() const {
  const int64_t whole = stream_rows * hidden;
  return is_scattering() ? (whole + tensor - 1) / tensor : whole;
}

int64_t RankShare::logit_rows() const { return std::min(rows, rows_at_once(vocabulary / lanes)); }

int64_t RankShare::tensors() const {
  const int64_t per_layer = is_gated ? 9 : 16, ends = is_gated ? 2 : 4;
  return model.layers * per_layer + ends + (model.tied ? 0 : 1);
}

}  // namespace plait

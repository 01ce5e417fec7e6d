// What one rank of this engine holds, by sizes alone: virtual stages, units of parameters, rows.
//
// τ, π, δ are a rank's coordinates on the axes tensor, pipeline and data. Sizes are the same for
// all τ and δ; where slices of units are meant, δ says which.
#pragma once

#include <array>
#include <cstdint>

#include "engine/planner/job.h"
#include "engine/schedule/schedule.h"

namespace plait {

/// Of the schedule that runs a layout.
ScheduleShape schedule_shape(const Job& job, const LayoutConfig& layout);

/// One virtual stage of the rank.
struct StageShare {
  int64_t stage = 0;  ///< σ
  int64_t layers = 0;
  int64_t alive = 0;      ///< most micro-batches that are alive in it at once
  bool is_first = false;  ///< holds the embeddings
  bool is_last = false;   ///< holds final norm, head and loss
};

/// A part of a parameter that belongs to one logical tensor.
struct SegmentShare {
  int64_t elements = 0;     ///< without the padding of the vocabulary
  bool is_partial = false;  ///< its gradient is one of several terms over the tensor axis
};

struct ParameterShare {
  int64_t elements = 0;
  int64_t segment_count = 1;
  std::array<SegmentShare, 3> segments;
};

/// Units are gathered, reduced and updated together.
enum class UnitKind { kToken, kPosition, kLayer, kFinalNorm, kHead };

struct UnitShare {
  UnitKind kind = UnitKind::kToken;
  int64_t count = 0;     ///< how many alike the rank holds
  int64_t uses = 1;      ///< accumulators of gradients: two of a tied table that is held once
  int64_t elements = 0;  ///< of one: parameters start at multiples of 64, the end at one of 64·d
};

/// Outputs and inputs of a matrix product of a layer, on this rank, in each of its lanes.
struct LinearShare {
  int64_t outputs = 0, inputs = 0;
};

class RankShare {
 public:
  /// Of the ranks at coordinate `pipeline`, in a layout that keeps the rules of layouts. Borrows
  /// both.
  RankShare(const Job& job, const LayoutConfig& layout, int64_t pipeline);

  StageShare stage(int64_t chunk) const;

  /// Parameters of a unit in canonical order.
  template <class Visit>
  void visit_parameters(UnitKind kind, Visit visit) const;
  /// visit(segment, its first element in the unit).
  template <class Visit>
  void visit_segments(UnitKind kind, Visit visit) const;

  int64_t elements() const;          ///< of all units
  int64_t elements_of_uses() const;  ///< units as often as they have accumulators
  /// Tensor-partial elements in slice δ of all units.
  int64_t partial_elements(int64_t data) const;

  LinearShare projection() const { return {(heads + 2 * groups) * head_size, hidden}; }
  LinearShare output() const { return {hidden, heads * head_size}; }
  LinearShare up() const { return {is_gated ? 2 * feed_forward : feed_forward, hidden}; }
  LinearShare down() const { return {hidden, feed_forward}; }
  LinearShare head() const { return {vocabulary / lanes, hidden}; }

  bool is_tied_end() const { return model.tied && layout.pipeline > 1 && (is_first || is_last); }
  /// Elements of a boundary tensor that a rank sends: its slice, where the tensor axis shares it.
  int64_t boundary_elements() const;
  /// Whether a boundary tensor travels in slices that the receivers gather.
  bool is_scattering() const;
  /// Rows of the largest run of logits that exist at once.
  int64_t logit_rows() const;
  /// Logical tensors of the model.
  int64_t tensors() const;

  const Job& job;
  const ModelConfig& model;
  const LayoutConfig& layout;
  int64_t pipeline;             ///< π
  int64_t tensor, lanes, data;  ///< t, parts of a layer's sums that a rank computes, d
  int64_t batch_parts;          ///< of canonical sums over the batch that a rank adds up
  int64_t micro_batches;        ///< m
  int64_t compute, residual;    ///< bytes of an element
  int64_t rows;                 ///< b·s
  int64_t stream_rows;          ///< of them those that pass here outside of linear pairs
  int64_t hidden, head_size;
  int64_t heads, groups, feed_forward;  ///< of a lane; groups are key/value heads
  int64_t vocabulary;                   ///< V_p/t
  int64_t layers = 0;                   ///< of all chunks
  bool is_first, is_last;               ///< whether a chunk is
  bool is_cut;                          ///< sequence parallel
  bool is_split;                        ///< backward passes come in two parts
  bool is_replaying;                    ///< layers are run again before their backward pass
  bool is_gated;                        ///< SwiGLU, and no biases
  std::array<UnitShare, 5> units;       ///< canonical order

 private:
  int64_t unit_elements(UnitKind kind) const;
  int64_t layers_of(int64_t stage) const;
};

inline constexpr int64_t kFloatBytes = 4;

constexpr int64_t round_up_to(int64_t value, int64_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// Elements that [first, first + count) shares with [begin, begin + length).
constexpr int64_t shared_elements(int64_t first, int64_t count, int64_t begin, int64_t length) {
  const int64_t low = first > begin ? first : begin;
  const int64_t high = first + count < begin + length ? first + count : begin + length;
  return high > low ? high - low : 0;
}

template <class Visit>
void RankShare::visit_parameters(UnitKind kind, Visit visit) const {
  const auto one = [&](int64_t elements, bool is_partial) {
    visit(ParameterShare{elements, 1, {SegmentShare{elements, is_partial}}});
  };
  const auto bias = [&](int64_t elements, bool is_partial) {
    if (!is_gated) one(elements, is_partial);
  };
  const auto norm = [&] {
    one(hidden, is_cut);
    bias(hidden, is_cut);
  };
  const auto projections = [&](int64_t width) {
    const int64_t query = heads * head_size * width, key = groups * head_size * width;
    const bool is_shared = tensor > model.key_value_heads;
    visit(
        ParameterShare{query + 2 * key, 3, {{{query, false}, {key, is_shared}, {key, is_shared}}}});
  };
  switch (kind) {
    case UnitKind::kToken:
    case UnitKind::kHead: {
      const int64_t ids = vocabulary < model.vocab_size ? vocabulary : model.vocab_size;
      visit(ParameterShare{vocabulary * hidden, 1, {SegmentShare{ids * hidden, false}}});
      break;
    }
    case UnitKind::kPosition:
      one(model.sequence_length * hidden, is_cut);
      break;
    case UnitKind::kFinalNorm:
      norm();
      break;
    case UnitKind::kLayer:
      norm();
      for (int64_t lane = 0; lane < lanes; ++lane) {
        projections(hidden);
        if (!is_gated) projections(1);
        one(hidden * heads * head_size, false);
      }
      bias(hidden, is_cut);
      norm();
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const int64_t part = feed_forward * hidden;
        const SegmentShare segment{part, false};
        visit(ParameterShare{is_gated ? 2 * part : part, is_gated ? 2 : 1, {segment, segment}});
        bias(feed_forward, false);
        one(part, false);
      }
      bias(hidden, is_cut);
      break;
  }
}

template <class Visit>
void RankShare::visit_segments(UnitKind kind, Visit visit) const {
  int64_t offset = 0;
  visit_parameters(kind, [&](const ParameterShare& parameter) {
    int64_t first = offset;
    for (int64_t i = 0; i < parameter.segment_count; ++i) {
      const SegmentShare& segment = parameter.segments[static_cast<size_t>(i)];
      visit(segment, first);
      first += segment.elements;
    }
    offset = round_up_to(offset + parameter.elements, 64);
  });
}

}  // namespace plait

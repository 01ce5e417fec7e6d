#include "engine/trainer/state_map.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <numeric>
#include <tuple>

#include "checkpoint/store/boxes.h"
#include "engine/optimizer/sharding/sharded_unit.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kCheckedAtOnce = int64_t{1} << 18;  // elements

/// Elements of its unit that a place covers, of those in `range`.
UnitRange covered_part(const TensorPlace& place, UnitRange range) {
  const auto [first, count] = place.parameter->range(*place.segment);
  return intersect({place.parameter->offset + first, count}, range);
}

const Unit& unit_of_place(const Rank& rank, const TensorPlace& place) {
  const auto& units = rank.stages()[static_cast<size_t>(place.chunk)]->units();
  return *units[static_cast<size_t>(place.unit)];
}

float* state_of(Rank& rank, const TensorPlace& place, StateKind kind) {
  const Optimizer& optimizer = rank.optimizer();
  switch (kind) {
    case StateKind::kMoment1:
      return optimizer.moment1(place.chunk, place.unit).as<float>();
    case StateKind::kMoment2:
      return optimizer.moment2(place.chunk, place.unit).as<float>();
    default:
      return optimizer.master(place.chunk, place.unit).as<float>();
  }
}

/// Appends the boxes of one place, of all kinds.
void cut_place(Rank& rank, const TensorPlace& place, int64_t tensor,
               const std::vector<StateKind>& kinds, std::vector<StatePiece>* pieces) {
  const UnitRange range = rank.optimizer().state_range(place.chunk, place.unit);
  const UnitRange part = covered_part(place, range);
  if (part.count <= 0) return;
  const int64_t start = covered_part(place, {0, unit_of_place(rank, place).elements()}).first;
  const std::vector<Box> boxes = cut_range(place.segment->box, part.first - start, part.count);
  for (const StateKind kind : kinds) {
    float* data = state_of(rank, place, kind) + (part.first - range.first);
    for (const Box& box : boxes) {
      pieces->push_back({tensor, kind, box, data, place.is_first_holder && !place.is_tied_copy});
      data += box.elements();
    }
  }
}

/// Weights of one logical tensor beside the masters that they are rounded from.
struct RoundedSpan {
  int64_t tensor = 0;  // canonical
  TensorView weights;
  const float* masters = nullptr;
};

template <class T>
bool is_rounded(const T* weights, const float* masters, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    const T want = from_float<T>(masters[i]);
    const bool is_nan = std::isnan(masters[i]) && std::isnan(to_float(weights[i]));
    if (want.bits != weights[i].bits && !is_nan) return false;
  }
  return true;
}

bool is_rounded(const RoundedSpan& span) {
  const int64_t count = span.weights.elements();
  return span.weights.dtype == DType::kBFloat16
             ? is_rounded(span.weights.as<BFloat16>(), span.masters, count)
             : is_rounded(span.weights.as<Float16>(), span.masters, count);
}

std::vector<RoundedSpan> rounded_spans(const Rank& rank) {
  std::vector<RoundedSpan> spans;
  const Optimizer& optimizer = rank.optimizer();
  for (size_t tensor = 0; tensor < rank.tensors().size(); ++tensor) {
    for (const TensorPlace& place : rank.places(static_cast<int64_t>(tensor))) {
      if (unit_of_place(rank, place).dtype() == DType::kFloat32) continue;  // one and the same
      const UnitRange kept = optimizer.weight_range(place.chunk, place.unit);
      const UnitRange state = optimizer.state_range(place.chunk, place.unit);
      const UnitRange part = covered_part(place, intersect(kept, state));
      const TensorView weights = optimizer.weights(place.chunk, place.unit);
      const auto* masters = optimizer.master(place.chunk, place.unit).as<float>();
      for (int64_t done = 0; done < part.count; done += kCheckedAtOnce) {
        const int64_t count = std::min(kCheckedAtOnce, part.count - done);
        const int64_t first = part.first + done;
        spans.push_back({static_cast<int64_t>(tensor),
                         weights.slice_rows(first - kept.first, count),
                         masters + (first - state.first)});
      }
    }
  }
  return spans;
}

}  // namespace

SortedTensors sorted_tensors(const std::vector<LogicalTensor>& tensors) {
  SortedTensors sorted;
  sorted.canonical.resize(tensors.size());
  std::iota(sorted.canonical.begin(), sorted.canonical.end(), int64_t{0});
  std::sort(sorted.canonical.begin(), sorted.canonical.end(), [&](int64_t a, int64_t b) {
    return tensors[static_cast<size_t>(a)].name < tensors[static_cast<size_t>(b)].name;
  });
  for (const int64_t index : sorted.canonical) {
    SavedTensor tensor;
    tensor.name = tensors[static_cast<size_t>(index)].name;
    tensor.shape = tensors[static_cast<size_t>(index)].shape;
    sorted.tensors.push_back(std::move(tensor));
  }
  return sorted;
}

StateKind weight_kind(DType compute) {
  return compute == DType::kFloat32 ? StateKind::kParam : StateKind::kMaster;
}

void settle_owners(std::vector<StatePiece>* pieces, bool is_whole, int64_t coordinates,
                   int64_t own) {
  std::sort(pieces->begin(), pieces->end(), [](const StatePiece& a, const StatePiece& b) {
    return std::tie(a.tensor, a.kind, a.box.first) < std::tie(b.tensor, b.kind, b.box.first);
  });
  if (!is_whole || coordinates == 1) return;
  std::vector<int64_t> bytes;
  for (const StatePiece& piece : *pieces) {
    if (piece.is_owned) bytes.push_back(piece.box.elements() * dtype_size(DType::kFloat32));
  }
  std::vector<int64_t> loads(static_cast<size_t>(coordinates), 0);
  const std::vector<int64_t> writers = assign_replicas(bytes, &loads);
  size_t next = 0;
  for (StatePiece& piece : *pieces) {
    if (piece.is_owned) piece.is_owned = writers[next++] == own;
  }
}

std::vector<StatePiece> state_pieces(Rank& rank, const SortedTensors& sorted, bool weights_only) {
  std::vector<StatePiece> pieces;
  bool is_whole = true;  // the ZeRO stage is one for all units
  for (size_t i = 0; i < sorted.canonical.size(); ++i) {
    for (const TensorPlace& place : rank.places(sorted.canonical[i])) {
      const Unit& unit = unit_of_place(rank, place);
      std::vector<StateKind> kinds = {weight_kind(unit.dtype())};
      if (!weights_only) kinds.insert(kinds.end(), {StateKind::kMoment1, StateKind::kMoment2});
      cut_place(rank, place, static_cast<int64_t>(i), kinds, &pieces);
      is_whole = is_whole &&
                 rank.optimizer().state_range(place.chunk, place.unit).count == unit.elements();
    }
  }
  settle_owners(&pieces, is_whole, rank.mesh().size(Axis::kData), rank.at().data);
  return pieces;
}

void check_rounding(Rank& rank) {
  const std::vector<RoundedSpan> spans = rounded_spans(rank);
  const auto count = static_cast<int64_t>(spans.size());
  std::atomic<int64_t> first{count};
  rank.device().pool().run(count, [&](int64_t i, int) {
    if (is_rounded(spans[static_cast<size_t>(i)])) return;
    int64_t best = first.load();
    while (i < best && !first.compare_exchange_weak(best, i)) {
    }
  });
  if (first.load() == count) return;
  const auto tensor = static_cast<size_t>(spans[static_cast<size_t>(first.load())].tensor);
  throw Error("invariant", "weights are not the rounded masters")
      .with("tensor", rank.tensors()[tensor].name)
      .rank(static_cast<int32_t>(rank.rank()))
      .subsystem("engine/trainer");
}

}  // namespace plait

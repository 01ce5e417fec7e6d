#include "engine/trainer/tensor_access.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/error.h"

namespace plait {
namespace {

float load(const TensorView& view, int64_t index) {
  switch (view.dtype) {
    case DType::kBFloat16:
      return to_float(view.as<BFloat16>()[index]);
    case DType::kFloat16:
      return to_float(view.as<Float16>()[index]);
    default:
      return view.as<float>()[index];
  }
}

template <class T>
void store_all(const float* values, int64_t count, void* data) {
  for (int64_t i = 0; i < count; ++i) {
    const T stored = from_float<T>(values[i]);
    std::memcpy(static_cast<char*>(data) + i * static_cast<int64_t>(sizeof stored), &stored,
                sizeof stored);
  }
}

template <class T>
void fetch_all(const void* data, int64_t count, float* values) {
  for (int64_t i = 0; i < count; ++i) {
    T stored;
    std::memcpy(&stored, static_cast<const char*>(data) + i * static_cast<int64_t>(sizeof stored),
                sizeof stored);
    values[i] = to_float(stored);
  }
}

/// Calls visit(element of the unit, element of the logical tensor) for each element of the segment
/// that lies in `range` of the unit.
template <class Visit>
void each_element(const TensorPlace& place, UnitRange range, Visit&& visit) {
  const Segment& segment = *place.segment;
  const auto [local, count] = place.parameter->range(segment);
  const int64_t start = place.parameter->offset + local;
  const bool is_matrix = segment.box.dims == 2;
  const int64_t columns = is_matrix ? segment.box.size[1] : 1;
  const int64_t stride = is_matrix ? segment.shape[1] : 1;
  const int64_t first_column = is_matrix ? segment.box.first[1] : 0;
  const int64_t begin = std::max(range.first - start, int64_t{0});
  const int64_t end = std::min(range.first + range.count - start, count);
  for (int64_t i = begin; i < end; ++i) {
    visit(start + i, (segment.box.first[0] + i / columns) * stride + first_column + i % columns);
  }
}

/// The flat values of a place and the elements of its unit that they are.
struct Values {
  TensorView view;
  UnitRange range;
};

Values state_values(const Rank& rank, const TensorPlace& place, TensorKind kind) {
  const Optimizer& optimizer = rank.optimizer();
  const UnitRange range = optimizer.state_range(place.chunk, place.unit);
  switch (kind) {
    case TensorKind::kMoment1:
      return {optimizer.moment1(place.chunk, place.unit), range};
    case TensorKind::kMoment2:
      return {optimizer.moment2(place.chunk, place.unit), range};
    default:
      return {optimizer.master(place.chunk, place.unit), range};
  }
}

/// The flat elements of the unit that a place's segment covers.
UnitRange unit_range(const TensorPlace& place) {
  const auto [first, count] = place.parameter->range(*place.segment);
  return {place.parameter->offset + first, count};
}

const Unit& unit_of(const Rank& rank, const TensorPlace& place) {
  const auto& units = rank.stages()[static_cast<size_t>(place.chunk)]->units();
  return *units[static_cast<size_t>(place.unit)];
}

ReplicaPart make_replica(const Rank& rank, const TensorPlace& place, const Values& values) {
  ReplicaPart part;
  const UnitRange all = unit_range(place);
  const int64_t first = std::max(all.first, values.range.first);
  const int64_t end = std::min(all.first + all.count, values.range.first + values.range.count);
  const bool is_empty = end <= first;
  part.values =
      values.view.slice_rows(is_empty ? 0 : first - values.range.first, is_empty ? 0 : end - first);
  part.first_holder = place.segment->first_holder;
  part.holders = place.segment->holders;
  part.is_tied_end = place.is_tied_end;
  part.is_on_all_data = values.range.count == unit_of(rank, place).elements();
  return part;
}

/// Replicas of a state over the data axis: stage 0 keeps it whole everywhere, and the first counts.
bool is_state_owner(const Rank& rank, const TensorPlace& place) {
  if (!place.is_first_holder || place.is_tied_copy) return false;
  const UnitRange range = rank.optimizer().state_range(place.chunk, place.unit);
  const auto& units = rank.stages()[static_cast<size_t>(place.chunk)]->units();
  const bool is_whole = range.count == units[static_cast<size_t>(place.unit)]->elements();
  return !is_whole || rank.at().data == 0;
}

void read_gradient(const Rank& rank, const TensorPlace& place, const TensorTerm& part, float* out) {
  const bool is_second = place.parameter->second_gradient.is_present() ||
                         rank.stages()[static_cast<size_t>(place.chunk)]
                             ->units()[static_cast<size_t>(place.unit)]
                             ->has_second_gradient();
  if (part.is_head && !is_second && !place.is_tied_copy) return;
  if (!part.is_head && place.is_tied_copy) return;
  const int64_t holder = rank.at().tensor - place.segment->first_holder;
  const bool is_term =
      place.segment->is_partial ? holder == part.holder : part.holder == 0 && place.is_first_holder;
  if (rank.at().data != part.data || !is_term) return;
  const GradientUse use = part.is_head && is_second ? GradientUse::kSecond : GradientUse::kFirst;
  const TensorView view = rank.optimizer().gradient(place.chunk, place.unit, use);
  const UnitRange range = rank.optimizer().gradient_range(place.chunk, place.unit);
  each_element(place, range, [&](int64_t element, int64_t logical) {
    out[logical] += view.as<float>()[element - range.first];
  });
}

}  // namespace

std::vector<TensorEntry> list_tensors(const Rank& rank, DType compute) {
  std::vector<TensorEntry> entries;
  for (const LogicalTensor& tensor : rank.tensors()) {
    entries.push_back({tensor.name, TensorKind::kParam, compute, tensor.shape});
    if (compute != DType::kFloat32) {
      entries.push_back({tensor.name, TensorKind::kMaster, DType::kFloat32, tensor.shape});
    }
    for (TensorKind kind : {TensorKind::kMoment1, TensorKind::kMoment2, TensorKind::kGradient}) {
      entries.push_back({tensor.name, kind, DType::kFloat32, tensor.shape});
    }
  }
  std::stable_sort(entries.begin(), entries.end(),
                   [](const TensorEntry& a, const TensorEntry& b) { return a.name < b.name; });
  return entries;
}

int64_t find_tensor(const Rank& rank, std::string_view name) {
  for (size_t i = 0; i < rank.tensors().size(); ++i) {
    if (rank.tensors()[i].name == name) return static_cast<int64_t>(i);
  }
  throw Error("argument", "the model has no such tensor").with("tensor", name);
}

void read_part(const Rank& rank, const TensorTerm& part, float* out) {
  for (const TensorPlace& place : rank.places(part.tensor)) {
    if (part.kind == TensorKind::kGradient) {
      read_gradient(rank, place, part, out);
      continue;
    }
    if (!is_state_owner(rank, place)) continue;
    const Values values = state_values(rank, place, part.kind);
    // A weight is the rounded master: read as what passes compute with.
    const DType compute = rank.stages()[static_cast<size_t>(place.chunk)]
                              ->units()[static_cast<size_t>(place.unit)]
                              ->dtype();
    const bool is_rounded = part.kind == TensorKind::kParam && compute != DType::kFloat32;
    each_element(place, values.range, [&](int64_t element, int64_t logical) {
      float value = load(values.view, element - values.range.first);
      if (is_rounded && compute == DType::kBFloat16) value = to_float(from_float<BFloat16>(value));
      if (is_rounded && compute == DType::kFloat16) value = to_float(from_float<Float16>(value));
      out[logical] += value;
    });
  }
}

void write_tensor(Rank& rank, int64_t tensor, TensorKind kind, const float* values) {
  for (const TensorPlace& place : rank.places(tensor)) {
    const Values state = state_values(rank, place, kind);
    float* flat = state.view.as<float>();
    each_element(place, state.range, [&](int64_t element, int64_t logical) {
      flat[element - state.range.first] = values[logical];
    });
  }
}

std::vector<ReplicaPart> list_replicas(const Rank& rank) {
  std::vector<ReplicaPart> parts;
  for (size_t i = 0; i < rank.tensors().size(); ++i) {
    const auto tensor = static_cast<int64_t>(i);
    for (const TensorPlace& place : rank.places(tensor)) {
      const auto add = [&](TensorKind kind, const Values& values) {
        parts.push_back(make_replica(rank, place, values));
        parts.back().tensor = tensor;
        parts.back().kind = kind;
      };
      const Optimizer& optimizer = rank.optimizer();
      add(TensorKind::kParam, {optimizer.weights(place.chunk, place.unit),
                               optimizer.weight_range(place.chunk, place.unit)});
      for (TensorKind kind : {TensorKind::kMaster, TensorKind::kMoment1, TensorKind::kMoment2}) {
        const bool is_weight =
            kind == TensorKind::kMaster && unit_of(rank, place).dtype() == DType::kFloat32;
        if (!is_weight) add(kind, state_values(rank, place, kind));
      }
    }
  }
  return parts;
}

void store_values(const float* values, int64_t count, DType dtype, void* data) {
  switch (dtype) {
    case DType::kBFloat16:
      return store_all<BFloat16>(values, count, data);
    case DType::kFloat16:
      return store_all<Float16>(values, count, data);
    default:
      return store_all<float>(values, count, data);
  }
}

void fetch_values(const void* data, int64_t count, DType dtype, float* values) {
  switch (dtype) {
    case DType::kBFloat16:
      return fetch_all<BFloat16>(data, count, values);
    case DType::kFloat16:
      return fetch_all<Float16>(data, count, values);
    default:
      return fetch_all<float>(data, count, values);
  }
}

}  // namespace plait

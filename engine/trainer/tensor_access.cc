#include "engine/trainer/tensor_access.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/error.h"

namespace plait {
namespace {

/// A box of a logical tensor as rows: consecutive elements both here and there.
struct BoxRows {
  int64_t rows, columns;  // of the box
  int64_t stride;         // columns of the logical tensor
  int64_t first;          // element of the logical tensor where the box starts
};

BoxRows box_rows(const Segment& segment) {
  if (segment.box.dims == 2) {
    const int64_t stride = segment.shape[1];
    return {segment.box.size[0], segment.box.size[1], stride,
            segment.box.first[0] * stride + segment.box.first[1]};
  }
  return {1, segment.box.size[0], segment.shape[0], segment.box.first[0]};
}

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
void store_as(float value, char* out) {
  const T stored = from_float<T>(value);
  std::memcpy(out, &stored, sizeof stored);
}

void store(float value, DType dtype, char* out) {
  switch (dtype) {
    case DType::kBFloat16:
      store_as<BFloat16>(value, out);
      break;
    case DType::kFloat16:
      store_as<Float16>(value, out);
      break;
    default:
      store_as<float>(value, out);
      break;
  }
}

template <class T>
float fetch_as(const char* in) {
  T stored;
  std::memcpy(&stored, in, sizeof stored);
  return to_float(stored);
}

float fetch(DType dtype, const char* in) {
  switch (dtype) {
    case DType::kBFloat16:
      return fetch_as<BFloat16>(in);
    case DType::kFloat16:
      return fetch_as<Float16>(in);
    default:
      return fetch_as<float>(in);
  }
}

/// The flat buffer of a place that holds `kind`.
TensorView buffer_of(const Rank& rank, const TensorPlace& place, TensorKind kind) {
  switch (kind) {
    case TensorKind::kParam:
      return rank.stage().units()[static_cast<size_t>(place.unit)]->weights();
    case TensorKind::kMaster:
      return rank.optimizer().master(place.unit);
    case TensorKind::kMoment1:
      return rank.optimizer().moment1(place.unit);
    case TensorKind::kMoment2:
      return rank.optimizer().moment2(place.unit);
    case TensorKind::kGradient:
      break;
  }
  return rank.stage().units()[static_cast<size_t>(place.unit)]->gradients();
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

void read_logical(const Rank& rank, int64_t tensor, TensorKind kind, DType dtype, double factor,
                  void* data) {
  const int64_t size = dtype_size(dtype);
  for (const TensorPlace& place : rank.places(tensor)) {
    const TensorView flat = buffer_of(rank, place, kind);
    const BoxRows box = box_rows(*place.segment);
    const int64_t local = place.parameter->range(*place.segment).first;
    const TensorView& second = place.parameter->second_gradient;
    const bool has_second = kind == TensorKind::kGradient && second.is_present();
    for (int64_t row = 0; row < box.rows; ++row) {
      for (int64_t column = 0; column < box.columns; ++column) {
        const int64_t element = local + row * box.columns + column;
        float value = load(flat, place.parameter->offset + element);
        if (has_second) value += second.as<float>()[element];
        if (factor != 1.0) value = static_cast<float>(factor * static_cast<double>(value));
        store(value, dtype,
              static_cast<char*>(data) + (box.first + row * box.stride + column) * size);
      }
    }
  }
}

void write_logical(Rank& rank, int64_t tensor, TensorKind kind, DType dtype, const void* data) {
  const int64_t size = dtype_size(dtype);
  const TensorKind stored = kind == TensorKind::kParam ? TensorKind::kMaster : kind;
  for (const TensorPlace& place : rank.places(tensor)) {
    float* flat = buffer_of(rank, place, stored).as<float>();
    const BoxRows box = box_rows(*place.segment);
    const int64_t local = place.parameter->offset + place.parameter->range(*place.segment).first;
    for (int64_t row = 0; row < box.rows; ++row) {
      for (int64_t column = 0; column < box.columns; ++column) {
        flat[local + row * box.columns + column] = fetch(
            dtype, static_cast<const char*>(data) + (box.first + row * box.stride + column) * size);
      }
    }
  }
}

}  // namespace plait

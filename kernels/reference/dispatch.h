// Choosing the element types of a reference loop at run time.
#pragma once

#include <type_traits>

#include "kernels/base/dtype.h"
#include "kernels/base/error.h"

namespace plait {

/// Calls f(std::type_identity<T>()) with the storage type of a floating dtype.
template <class Function>
void visit_dtype(DType dtype, Function&& f) {
  switch (dtype) {
    case DType::kFloat32:
      return f(std::type_identity<float>());
    case DType::kBFloat16:
      return f(std::type_identity<BFloat16>());
    case DType::kFloat16:
      return f(std::type_identity<Float16>());
    default:
      check(false, "reference kernels compute on floating dtypes");
  }
}

/// The same for two dtypes at once.
template <class Function>
void visit_dtypes(DType first, DType second, Function&& f) {
  visit_dtype(first, [&](auto a) { visit_dtype(second, [&](auto b) { f(a, b); }); });
}

constexpr bool is_floating(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

/// Element `i` of an array of T, widened.
template <class T>
double load(const T* data, int64_t i) {
  return static_cast<double>(to_float(data[i]));
}

/// Rounds to fp32, then to T.
template <class T>
void store(T* data, int64_t i, double value) {
  data[i] = from_float<T>(static_cast<float>(value));
}

}  // namespace plait

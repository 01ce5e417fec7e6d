// Rows of the fused residual add and norm. A row is walked a few times while it lies in the L1
// cache; memory is crossed once.
//
// Included once per Highway target, hence no #pragma once.
#if defined(PLAIT_KERNELS_CPU_RESIDUAL_NORM_ROWS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_RESIDUAL_NORM_ROWS_INL_H_
#undef PLAIT_KERNELS_CPU_RESIDUAL_NORM_ROWS_INL_H_
#else
#define PLAIT_KERNELS_CPU_RESIDUAL_NORM_ROWS_INL_H_
#endif

#include <cmath>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/cpu/philox-inl.h"
#include "kernels/cpu/vector-inl.h"
#include "kernels/ops/residual_norm.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

using FloatVector = hn::Vec<FloatTag>;

/// Columns whose dropout factors are drawn at once.
inline constexpr int64_t kDropoutColumns = 1024;

/// Dropout factors of columns [first, first + count) of one row of a micro-batch; `buffer` as
/// dropout_factors wants it. Null when nothing drops.
HWY_INLINE const float* row_factors(const Dropout& dropout, int64_t sequence, int64_t hidden,
                                    int64_t row, int64_t first, int64_t count, float* buffer) {
  if (!dropout.is_active()) return nullptr;
  const auto sample = static_cast<uint64_t>(dropout.first_sample + row / sequence);
  const auto element = static_cast<uint64_t>((row % sequence) * hidden + first);
  return dropout_factors(FloatTag(), dropout, sample, element, count, buffer);
}

/// Longest row whose sum is kept in float beside the stored, rounded one.
inline constexpr int64_t kKeptColumns = 4096;

/// sum = x + dropout(delta + bias) of one row. `kept` (or null) receives the sum as stored,
/// widened. Returns the total of the sum as stored.
template <class C, class R>
float add_row(const ResidualNormForward& a, int64_t row, float* kept) {
  const FloatTag d;
  alignas(64) float buffer[kDropoutColumns + kDropoutSlack];
  const int64_t hidden = a.x.columns();
  FloatVector total = hn::Zero(d);
  for (int64_t first = 0; first < hidden; first += kDropoutColumns) {
    const int64_t rest = hidden - first, count = rest < kDropoutColumns ? rest : kDropoutColumns;
    const float* factors =
        row_factors(a.dropout, a.sequence, hidden, a.first_row + row, first, count, buffer);
    const int64_t at = row * hidden + first;
    const R* x = a.x.as<R>() + at;
    const C* delta = a.delta.as<C>() + at;
    const C* bias = a.bias.is_present() ? a.bias.as<C>() + first : nullptr;
    R* sum = a.sum.as<R>() + at;
    float* wide = kept != nullptr ? kept + first : nullptr;
    for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
      FloatVector v = load(d, delta + i, lanes);
      if (bias != nullptr) v = hn::Add(v, load(d, bias + i, lanes));
      if (factors != nullptr) v = hn::Mul(v, load(d, factors + i, lanes));
      v = store_rounded(d, hn::Add(load(d, x + i, lanes), v), sum + i, lanes);
      if (wide != nullptr) store(d, v, wide + i, lanes);
      total = hn::Add(total, zero_others(d, v, lanes));
    });
  }
  return hn::GetLane(hn::SumOfLanes(d, total));
}

template <class S>
HWY_INLINE float row_total(const S* x, int64_t hidden) {
  const FloatTag d;
  FloatVector sum = hn::Zero(d);
  for_vectors(d, hidden, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    sum = hn::Add(sum, load(d, x + i, lanes));
  });
  return hn::GetLane(hn::SumOfLanes(d, sum));
}

/// Mean of (x − mean)².
template <class S>
HWY_INLINE float row_spread(const S* x, int64_t hidden, float mean) {
  const FloatTag d;
  const FloatVector center = hn::Set(d, mean);
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  FloatVector sum = hn::Zero(d), other = hn::Zero(d);
  int64_t first = 0;
  for (; first + 2 * step <= hidden; first += 2 * step) {
    const FloatVector v = hn::Sub(load(d, x + first), center);
    const FloatVector w = hn::Sub(load(d, x + first + step), center);
    sum = hn::MulAdd(v, v, sum);
    other = hn::MulAdd(w, w, other);
  }
  for_vectors(d, hidden - first, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const FloatVector v = hn::Sub(load(d, x + first + i, lanes), center);
    const FloatVector used = zero_others(d, v, lanes);
    sum = hn::MulAdd(used, used, sum);
  });
  return hn::GetLane(hn::SumOfLanes(d, hn::Add(sum, other))) / static_cast<float>(hidden);
}

/// y and statistics of one row from its sum as stored, `x`, whose elements add up to `total`.
template <class C, class S>
void norm_row(const ResidualNormForward& a, int64_t row, const S* x, float total) {
  const FloatTag d;
  const int64_t hidden = a.x.columns();
  const bool is_centered = a.kind == NormKind::kLayer;
  const float mean = is_centered ? total / static_cast<float>(hidden) : 0.0f;
  const float root = 1.0f / std::sqrt(row_spread(x, hidden, mean) + a.epsilon);
  a.statistics.as<float>()[2 * row] = mean;
  a.statistics.as<float>()[2 * row + 1] = root;
  const FloatVector center = hn::Set(d, mean), factor = hn::Set(d, root);
  const C* weight = a.weight.as<C>();
  const C* bias = a.norm_bias.is_present() ? a.norm_bias.as<C>() : nullptr;
  C* y = a.y.as<C>() + row * hidden;
  for_vectors(d, hidden, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const FloatVector unit = hn::Mul(hn::Sub(load(d, x + i, lanes), center), factor);
    FloatVector v = hn::Mul(unit, load(d, weight + i, lanes));
    if (bias != nullptr) v = hn::Add(v, load(d, bias + i, lanes));
    store(d, v, y + i, lanes);
  });
}

template <class C, class R>
void forward_row(const ResidualNormForward& a, int64_t row) {
  alignas(64) float kept[kKeptColumns];
  const int64_t hidden = a.x.columns();
  const bool has_norm = a.weight.is_present();
  if (!a.delta.is_present()) {
    const R* x = a.x.as<R>() + row * hidden;
    norm_row<C>(a, row, x, a.kind == NormKind::kLayer ? row_total(x, hidden) : 0.0f);
    return;
  }
  const bool is_keeping = has_norm && sizeof(R) < sizeof(float) && hidden <= kKeptColumns;
  const float total = add_row<C, R>(a, row, is_keeping ? kept : nullptr);
  if (!has_norm) return;
  if (is_keeping) {
    norm_row<C>(a, row, static_cast<const float*>(kept), total);
  } else {
    norm_row<C>(a, row, static_cast<const R*>(a.sum.as<R>() + row * hidden), total);
  }
}

/// Sums over columns of one block of rows; each [H] float32 or null.
struct ColumnSums {
  float* weight = nullptr;
  float* norm_bias = nullptr;
  float* bias = nullptr;
};

/// What grad_x of a row needs of its norm.
struct NormRow {
  FloatVector center, root, mean_grad, mean_product;
};

template <class V, class Lanes>
HWY_INLINE void add_to(float* sums, V v, Lanes lanes) {
  const FloatTag d;
  store(d, hn::Add(load(d, sums, lanes), v), sums, lanes);
}

/// The means of grad_y·weight and of its product with the normalized row; adds to column sums.
template <class C, class R>
NormRow measure_norm(const ResidualNormBackward& a, const ColumnSums& sums, int64_t row) {
  const FloatTag d;
  const int64_t hidden = a.grad_x.columns();
  const R* x = a.sum.as<R>() + row * hidden;
  const C* grad_y = a.grad_y.as<C>() + row * hidden;
  const C* weight = a.weight.as<C>();
  NormRow norm;
  norm.center = hn::Set(d, a.statistics.as<float>()[2 * row]);
  norm.root = hn::Set(d, a.statistics.as<float>()[2 * row + 1]);
  FloatVector grads = hn::Zero(d), products = hn::Zero(d);
  for_vectors(d, hidden, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
    const FloatVector unit = hn::Mul(hn::Sub(load(d, x + i, lanes), norm.center), norm.root);
    const FloatVector raw = load(d, grad_y + i, lanes);
    const FloatVector grad = hn::Mul(raw, load(d, weight + i, lanes));
    grads = hn::Add(grads, grad);
    products = hn::MulAdd(grad, unit, products);
    if (sums.weight != nullptr) add_to(sums.weight + i, hn::Mul(raw, unit), lanes);
    if (sums.norm_bias != nullptr) add_to(sums.norm_bias + i, raw, lanes);
  });
  const FloatVector count = hn::Set(d, static_cast<float>(hidden));
  norm.mean_grad =
      a.kind == NormKind::kLayer ? hn::Div(hn::SumOfLanes(d, grads), count) : hn::Zero(d);
  norm.mean_product = hn::Div(hn::SumOfLanes(d, products), count);
  return norm;
}

/// grad_x of one row and, where wanted, grad_delta and its column sums, each from what the one
/// before stored. `norm` is null where the norm half is absent.
template <class C, class R>
void grad_row(const ResidualNormBackward& a, const NormRow* norm, const ColumnSums& sums,
              int64_t row) {
  const FloatTag d;
  alignas(64) float buffer[kDropoutColumns + kDropoutSlack];
  const int64_t hidden = a.grad_x.columns();
  for (int64_t first = 0; first < hidden; first += kDropoutColumns) {
    const int64_t rest = hidden - first, count = rest < kDropoutColumns ? rest : kDropoutColumns;
    const int64_t at = row * hidden + first;
    const R* later = a.grad_sum.is_present() ? a.grad_sum.as<R>() + at : nullptr;
    R* grad_x = a.grad_x.as<R>() + at;
    C* grad_delta = a.grad_delta.is_present() ? a.grad_delta.as<C>() + at : nullptr;
    float* bias = sums.bias != nullptr ? sums.bias + first : nullptr;
    const float* factors =
        grad_delta != nullptr
            ? row_factors(a.dropout, a.sequence, hidden, a.first_row + row, first, count, buffer)
            : nullptr;
    const auto finish = [&](int64_t i, FloatVector total, auto lanes) PLAIT_VECTOR_LAMBDA {
      FloatVector v = store_rounded(d, total, grad_x + i, lanes);
      if (grad_delta == nullptr) return;
      if (factors != nullptr) v = hn::Mul(v, load(d, factors + i, lanes));
      v = store_rounded(d, v, grad_delta + i, lanes);
      if (bias != nullptr) add_to(bias + i, v, lanes);
    };
    if (norm == nullptr) {
      for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
        finish(i, load(d, later + i, lanes), lanes);
      });
      continue;
    }
    const NormRow n = *norm;
    const R* x = a.sum.as<R>() + at;
    const C* grad_y = a.grad_y.as<C>() + at;
    const C* weight = a.weight.as<C>() + first;
    for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
      const FloatVector unit = hn::Mul(hn::Sub(load(d, x + i, lanes), n.center), n.root);
      const FloatVector grad = hn::Mul(load(d, grad_y + i, lanes), load(d, weight + i, lanes));
      const FloatVector inner = hn::NegMulAdd(unit, n.mean_product, hn::Sub(grad, n.mean_grad));
      FloatVector total = hn::Mul(n.root, inner);
      if (later != nullptr) total = hn::Add(total, load(d, later + i, lanes));
      finish(i, total, lanes);
    });
  }
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_RESIDUAL_NORM_ROWS_INL_H_

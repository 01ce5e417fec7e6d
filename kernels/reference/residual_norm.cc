#include "kernels/ops/residual_norm.h"

#include <cmath>

#include "kernels/math/norm.h"
#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

/// Dropout's factor of element (row, column) of a [rows, H] micro-batch whose rows are positions.
double factor(const Dropout& dropout, int64_t row, int64_t sequence, int64_t column,
              int64_t hidden) {
  if (!dropout.is_active()) return 1.0;
  const int64_t sample = dropout.first_sample + row / sequence;
  const int64_t element = (row % sequence) * hidden + column;
  return dropout_factor(dropout, static_cast<uint64_t>(sample), static_cast<uint64_t>(element));
}

/// sum = x + dropout(delta + bias) of one row.
template <class C, class R>
void add_row(const ResidualNormForward& a, int64_t row) {
  const int64_t hidden = a.x.columns();
  for (int64_t i = 0; i < hidden; ++i) {
    const int64_t at = row * hidden + i;
    double delta = load(a.delta.as<C>(), at);
    if (a.bias.is_present()) delta += load(a.bias.as<C>(), i);
    delta *= factor(a.dropout, a.first_row + row, a.sequence, i, hidden);
    store(a.sum.as<R>(), at, load(a.x.as<R>(), at) + delta);
  }
}

template <class C, class R>
void norm_row(const ResidualNormForward& a, int64_t row) {
  const int64_t hidden = a.x.columns();
  const R* x = (a.sum.is_present() ? a.sum : a.x).as<R>() + row * hidden;
  double mean = 0.0, spread = 0.0;
  if (a.kind == NormKind::kLayer) {
    for (int64_t i = 0; i < hidden; ++i) mean += load(x, i);
    mean /= static_cast<double>(hidden);
  }
  for (int64_t i = 0; i < hidden; ++i) spread += (load(x, i) - mean) * (load(x, i) - mean);
  const double root =
      norm_root(spread / static_cast<double>(hidden), static_cast<double>(a.epsilon));
  store(a.statistics.as<float>(), 2 * row, mean);
  store(a.statistics.as<float>(), 2 * row + 1, root);
  for (int64_t i = 0; i < hidden; ++i) {
    double y = normalized(load(x, i), mean, root) * load(a.weight.as<C>(), i);
    if (a.norm_bias.is_present()) y += load(a.norm_bias.as<C>(), i);
    store(a.y.as<C>(), row * hidden + i, y);
  }
}

/// grad_x of one row: what comes through the norm, and what comes past it.
template <class C, class R>
void grad_row(const ResidualNormBackward& a, int64_t row) {
  const int64_t hidden = a.grad_x.columns(), first = row * hidden;
  double mean = 0.0, root = 0.0, mean_grad = 0.0, mean_product = 0.0;
  if (a.grad_y.is_present()) {
    mean = load(a.statistics.as<float>(), 2 * row);
    root = load(a.statistics.as<float>(), 2 * row + 1);
    for (int64_t i = 0; i < hidden; ++i) {
      const double grad = load(a.grad_y.as<C>(), first + i) * load(a.weight.as<C>(), i);
      mean_grad += grad;
      mean_product += grad * normalized(load(a.sum.as<R>(), first + i), mean, root);
    }
    mean_grad = a.kind == NormKind::kLayer ? mean_grad / static_cast<double>(hidden) : 0.0;
    mean_product /= static_cast<double>(hidden);
  }
  for (int64_t i = 0; i < hidden; ++i) {
    double total = a.grad_sum.is_present() ? load(a.grad_sum.as<R>(), first + i) : 0.0;
    if (a.grad_y.is_present()) {
      const double grad = load(a.grad_y.as<C>(), first + i) * load(a.weight.as<C>(), i);
      const double unit = normalized(load(a.sum.as<R>(), first + i), mean, root);
      total += norm_grad(grad, unit, root, mean_grad, mean_product);
    }
    store(a.grad_x.as<R>(), first + i, total);
    if (!a.grad_delta.is_present()) continue;
    const double kept = factor(a.dropout, a.first_row + row, a.sequence, i, hidden);
    store(a.grad_delta.as<C>(), first + i, load(a.grad_x.as<R>(), first + i) * kept);
  }
}

void write_vector(const TensorView& grad, int64_t i, double value, GradientMode mode) {
  if (!grad.is_present()) return;
  float* out = grad.as<float>();
  store(out, i, mode == GradientMode::kAccumulate ? out[i] + value : value);
}

/// One element of the three vector gradients: sums down column `i`.
template <class C, class R>
void grad_column(const ResidualNormBackward& a, int64_t i) {
  const int64_t rows = a.grad_x.rows(), hidden = a.grad_x.columns();
  double weight = 0.0, norm_bias = 0.0, bias = 0.0;
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t at = row * hidden + i;
    if (a.grad_y.is_present()) {
      const double grad = load(a.grad_y.as<C>(), at);
      const double mean = load(a.statistics.as<float>(), 2 * row);
      const double root = load(a.statistics.as<float>(), 2 * row + 1);
      weight += grad * normalized(load(a.sum.as<R>(), at), mean, root);
      norm_bias += grad;
    }
    if (a.grad_delta.is_present()) bias += load(a.grad_delta.as<C>(), at);
  }
  write_vector(a.grad_weight, i, weight, a.mode);
  write_vector(a.grad_norm_bias, i, norm_bias, a.mode);
  write_vector(a.grad_bias, i, bias, a.mode);
}

class ReferenceResidualNorm : public ResidualNormKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(DType compute, DType residual, IsaLevel) const override {
    return is_floating(compute) && is_floating(residual);
  }
  int64_t workspace_bytes(int64_t, int64_t) const override { return 0; }

  void forward(OpContext&, const ResidualNormForward& a) const override {
    const DType compute = a.delta.is_present() ? a.delta.dtype : a.weight.dtype;
    visit_dtypes(compute, a.x.dtype, [&](auto c, auto r) {
      using C = typename decltype(c)::type;
      using R = typename decltype(r)::type;
      for (int64_t row = 0; row < a.x.rows(); ++row) {
        if (a.delta.is_present()) add_row<C, R>(a, row);
        if (a.weight.is_present()) norm_row<C, R>(a, row);
      }
    });
  }

  void backward(OpContext&, const ResidualNormBackward& a, void*) const override {
    DType compute = a.grad_x.dtype;
    if (a.grad_delta.is_present()) compute = a.grad_delta.dtype;
    if (a.grad_y.is_present()) compute = a.grad_y.dtype;
    visit_dtypes(compute, a.grad_x.dtype, [&](auto c, auto r) {
      using C = typename decltype(c)::type;
      using R = typename decltype(r)::type;
      for (int64_t row = 0; row < a.grad_x.rows(); ++row) grad_row<C, R>(a, row);
      for (int64_t i = 0; i < a.grad_x.columns(); ++i) grad_column<C, R>(a, i);
    });
  }
};

}  // namespace

const ResidualNormKernel& reference_residual_norm() {
  static const ReferenceResidualNorm kernel;
  return kernel;
}

}  // namespace plait

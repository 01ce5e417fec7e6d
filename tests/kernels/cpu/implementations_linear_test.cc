#include <cmath>

#include "implementations.h"
#include "kernels/ops/linear.h"

using namespace plait;

namespace {

/// Sum of products of two vectors of these norms, in fp32.
constexpr double kSumBound = 3e-7;

struct Problem {
  int64_t m, n, k;
  DType dtype;
  bool is_misaligned;
  HostTensor x, w, bias, grad_y, grad_w, grad_bias;

  Problem(const std::vector<int64_t>& shape, DType dtype_, bool is_misaligned_)
      : m(shape[0]),
        n(shape[1]),
        k(shape[2]),
        dtype(dtype_),
        is_misaligned(is_misaligned_),
        x(random_tensor(dtype, {m, k}, 1, 1.0, is_misaligned)),
        w(random_tensor(dtype, {n, k}, 2, 0.1)),
        bias(random_tensor(dtype, {n}, 3, 1.0, is_misaligned)),
        grad_y(random_tensor(dtype, {m, n}, 4, 1.0, is_misaligned)),
        grad_w(random_tensor(DType::kFloat32, {n, k}, 5)),
        grad_bias(random_tensor(DType::kFloat32, {n}, 6)) {}

  std::string name() const {
    return "linear " + std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k) + " " +
           dtype_name(dtype) + (is_misaligned ? " misaligned" : "");
  }
};

/// The packed form, full of NaN until it is packed, and the weight in memory of its own.
struct Prepared {
  HostTensor weight, packed;
  LinearWeight linear;

  Prepared(OpContext& context, const Problem& p) : weight(p.w.copy()) {
    // Some plans are made for more rows than come.
    linear.shape = {p.n, p.k, p.dtype, p.m + (p.m % 2) * 37};
    linear.plan = make_linear_plan(context, linear.shape);
    linear.weight = weight.view();
    packed = HostTensor(DType::kUInt8, {linear.plan->packed_bytes()});
    if (linear.plan->packed_bytes() > 0) linear.packed = packed.view().data;
  }
};

std::vector<HostTensor> run_all(OpRunner& runner, const Problem& p) {
  const HostTensor y(p.dtype, {p.m, p.n}, p.is_misaligned), wide_y(DType::kFloat32, {p.m, p.n});
  const HostTensor grad_x(p.dtype, {p.m, p.k}, p.is_misaligned),
      wide_grad_x(DType::kFloat32, {p.m, p.k});
  const HostTensor grad_w(DType::kFloat32, {p.n, p.k}), grad_bias(DType::kFloat32, {p.n});
  const HostTensor more_w = p.grad_w.copy(), more_bias = p.grad_bias.copy();
  bool is_guarded = false;
  runner.run([&](OpContext& context) {
    Prepared prepared(context, p);
    const LinearWeight& w = prepared.linear;
    prepared.weight.fill(1.0);  // a later pack replaces an earlier one
    linear_pack(context, w);
    for (int64_t i = 0; i < p.w.elements(); ++i) prepared.weight.set(i, p.w.at(i));
    linear_pack(context, w);
    linear_forward(context, w, {p.x.view(), p.bias.view(), y.view()});
    linear_forward(context, w, {p.x.view(), {}, wide_y.view()});
    linear_backward_input(context, w, {p.grad_y.view(), grad_x.view()});
    linear_backward_input(context, w, {p.grad_y.view(), wide_grad_x.view()});
    linear_backward_weight(context, w,
                           {p.grad_y.view(), p.x.view(), grad_w.view(), grad_bias.view()});
    linear_backward_weight(
        context, w,
        {p.grad_y.view(), p.x.view(), more_w.view(), more_bias.view(), GradientMode::kAccumulate});
    is_guarded = prepared.packed.is_guarded();
  });
  if (!is_guarded) FAIL_CHECK(p.name() << ": wrote beside the packed form");
  return {y, wide_y, grad_x, wide_grad_x, grad_w, grad_bias, more_w, more_bias};
}

std::vector<Bound> bounds_of(const Problem& p) {
  const double forward = kSumBound * (largest_norm(p.x) * largest_norm(p.w) + largest(p.bias));
  const double input = kSumBound * largest_norm(p.grad_y) * largest_norm(p.w, true);
  const double down = largest_norm(p.grad_y, true);
  const double weight = kSumBound * down * largest_norm(p.x, true);
  const double bias = kSumBound * down * std::sqrt(static_cast<double>(p.m));
  const double narrow = rounding(p.dtype), wide = rounding(DType::kFloat32);
  return {{"y", forward, narrow},
          {"y in float32", forward, wide},
          {"grad_x", input, narrow},
          {"grad_x in float32", input, wide},
          {"grad_weight", weight, wide},
          {"grad_bias", bias, wide},
          {"accumulated grad_weight", weight, wide},
          {"accumulated grad_bias", bias, wide}};
}

}  // namespace

TEST_CASE("every linear equals the reference", "[linear]") {
  bool is_misaligned = false;
  for (const std::vector<int64_t>& shape : shapes("linear")) {
    for (const DType dtype : kDTypes) {
      const Problem p(shape, dtype, is_misaligned);
      const LinearShape asked{p.n, p.k, dtype, p.m + (p.m % 2) * 37};
      check_all(
          p.name(), &Kernels::linear,
          [&](const LinearKernel& kernel, IsaLevel level) { return kernel.supports(asked, level); },
          [&](OpRunner& runner) { return run_all(runner, p); }, bounds_of(p));
      is_misaligned = !is_misaligned;
    }
  }
}

TEST_CASE("a NaN in one row of a linear stays in that row", "[linear]") {
  for (const std::vector<int64_t>& shape : shapes("linear")) {
    if (shape[0] < 3) continue;
    for (const DType dtype : kDTypes) {
      Problem p(shape, dtype, false);
      for (int64_t i = 0; i < p.k; ++i) p.x.set(p.k + i, std::nan(""));
      for (int64_t i = 0; i < p.n; ++i) p.grad_y.set(p.n + i, std::nan(""));
      const LinearShape asked{p.n, p.k, dtype, p.m + (p.m % 2) * 37};
      for (const LinearKernel* kernel : cpu_kernels().linear) {
        for (const IsaLevel level : levels()) {
          if (!kernel->supports(asked, level)) continue;
          Kernels only;
          only.linear = {kernel};
          OpRunner runner(only, level, 2);
          const std::vector<HostTensor> got = run_all(runner, p);
          for (size_t which = 0; which < 4; ++which) {
            const int64_t width = got[which].view().columns();
            for (int64_t i = 0; i < got[which].elements(); ++i) {
              if (std::isnan(got[which].at(i)) == (i / width == 1)) continue;
              FAIL_CHECK(p.name() << " by " << kernel->name() << " at " << isa_name(level)
                                  << ": result " << which << " element " << i << " is "
                                  << got[which].at(i));
              break;
            }
          }
        }
      }
    }
  }
}

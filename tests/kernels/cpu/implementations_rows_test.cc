// Norms, activations, rotary and embeddings: what works on rows.
#include <cmath>

#include "implementations.h"
#include "kernels/ops/activation.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/residual_norm.h"
#include "kernels/ops/rotary.h"

using namespace plait;

namespace {

std::string text(const char* op, const Shape& shape, DType compute, DType residual) {
  return std::string(op) + " " + shape.text() + " " + dtype_name(compute) + " on " +
         dtype_name(residual);
}

struct NormProblem {
  Shape shape;
  Shape vector;
  DType compute, residual;
  NormKind kind;
  double rate;
  bool has_delta, has_norm;
  HostTensor x, delta, bias, weight, norm_bias, grad_y, grad_sum;
  HostTensor sum, y, statistics;

  NormProblem(const Shape& shape_, std::pair<DType, DType> dtypes, NormKind kind_, double rate_,
              bool has_delta_, bool has_norm_)
      : shape(shape_),
        vector{shape[1]},
        compute(dtypes.first),
        residual(dtypes.second),
        kind(kind_),
        rate(rate_),
        has_delta(has_delta_),
        has_norm(has_norm_),
        x(random_tensor(residual, shape, 1, 1.0, rate > 0)),
        delta(random_tensor(compute, shape, 2, 1.0, rate > 0)),
        bias(random_tensor(compute, vector, 3)),
        weight(random_tensor(compute, vector, 4)),
        norm_bias(random_tensor(compute, vector, 5)),
        grad_y(random_tensor(compute, shape, 6, 1.0, rate > 0)),
        grad_sum(random_tensor(residual, shape, 7)),
        sum(residual, shape),
        y(compute, shape),
        statistics(DType::kFloat32, {shape[0], 2}) {
    for (int64_t i = 0; i < x.elements(); ++i) x.set(i, x.at(i) + 4.0);  // far from mean 0
    reference_runner().run([&](OpContext& context) { forward(context, sum, y, statistics); });
    if (!has_delta) sum = x;
  }

  int64_t sequence() const { return shape[0] > 2 ? shape[0] / 2 : 1; }
  Dropout dropout() const {
    return Dropout::make(stream_key("dropout/layers.0.attention.output", 2), rate, 11);
  }

  void forward(OpContext& context, const HostTensor& to_sum, const HostTensor& to_y,
               const HostTensor& to_statistics) const {
    ResidualNormForward a;
    a.kind = kind;
    a.x = x.view();
    a.sequence = sequence();
    if (has_delta) {
      a.delta = delta.view();
      a.bias = bias.view();
      a.dropout = dropout();
      a.sum = to_sum.view();
    }
    if (has_norm) {
      a.weight = weight.view();
      if (kind == NormKind::kLayer) a.norm_bias = norm_bias.view();
      a.y = to_y.view();
      a.statistics = to_statistics.view();
    }
    residual_norm_forward(context, a);
  }

  /// The second half of the results belongs to the backward pass.
  std::vector<HostTensor> run(OpRunner& runner) const {
    std::vector<HostTensor> out = {HostTensor(residual, shape), HostTensor(compute, shape),
                                   HostTensor(DType::kFloat32, {shape[0], 2}), grad_sum.copy(),
                                   HostTensor(compute, shape)};
    const bool is_adding = rate > 0;  // both modes have their turn
    for (uint64_t i = 0; i < 3; ++i) {
      out.push_back(is_adding ? random_tensor(DType::kFloat32, vector, 20 + i)
                              : HostTensor(DType::kFloat32, vector));
    }
    ResidualNormBackward b;
    b.kind = kind;
    b.sequence = sequence();
    b.dropout = has_delta ? dropout() : Dropout{};
    b.grad_sum = out[3].view();
    b.grad_x = out[3].view();
    b.mode = is_adding ? GradientMode::kAccumulate : GradientMode::kOverwrite;
    if (has_norm) {
      b.grad_y = grad_y.view();
      b.sum = sum.view();
      b.weight = weight.view();
      b.statistics = statistics.view();
      b.grad_weight = out[5].view();
      if (kind == NormKind::kLayer) b.grad_norm_bias = out[6].view();
    }
    if (has_delta) {
      b.grad_delta = out[4].view();
      b.grad_bias = out[7].view();
    }
    runner.run([&](OpContext& context) {
      forward(context, out[0], out[1], out[2]);
      residual_norm_backward(context, b);
    });
    for (HostTensor& tensor : out) {  // what was not asked for stays as it was: NaN
      if (std::isnan(tensor.at(0))) tensor.fill(0.0);
    }
    return out;
  }

  std::vector<Bound> bounds() const {
    const double root = has_norm ? largest(statistics) : 0.0;
    const double grow = root * largest(weight);
    // A neighbour of a 16-bit sum moves y; an fp32 sum moves it by its own rounding.
    const double moved =
        has_delta || residual == DType::kFloat32 ? rounding(residual) * largest(sum) * grow : 0.0;
    const double depth = std::sqrt(static_cast<double>(shape[0]));
    const double gradient = largest(grad_y) * grow + largest(grad_sum);
    const double narrow = compute == DType::kFloat32 && residual == DType::kFloat32
                              ? 1e-6
                              : std::max(rounding(compute), rounding(residual));
    return {{"sum", 2e-6, rounding(residual)},
            {"y", 4e-6 * (1 + grow * largest(sum)) + 2 * moved, rounding(compute)},
            {"statistics", 4e-6, 2e-5 + (has_delta ? rounding(residual) * largest(sum) * root : 0)},
            {"grad_x", 4e-6 * gradient, rounding(residual)},
            {"grad_delta", 8e-6 * gradient, 2 * narrow},
            {"grad_weight", 2e-6 * depth * largest(grad_y) * (1 + largest(sum) * root), 1e-6},
            {"grad_norm_bias", 2e-6 * depth * largest(grad_y), 1e-6},
            {"grad_bias", 2 * narrow * depth * gradient, 1e-6}};
  }
};

}  // namespace

TEST_CASE("every residual norm equals the reference", "[residual_norm]") {
  for (const std::vector<int64_t>& sizes : shapes("rows")) {
    const Shape shape{sizes[0], sizes[1]};
    for (const auto& dtypes : dtype_pairs()) {
      for (const NormKind kind : {NormKind::kLayer, NormKind::kRms}) {
        for (const int parts : {1, 2, 3}) {
          if (parts == 2 && kind == NormKind::kRms) continue;  // an add alone has no kind
          const double rate = parts == 3 || (parts == 2 && shape[0] % 2 == 1) ? 0.2 : 0.0;
          const NormProblem p(shape, dtypes, kind, rate, (parts & 2) != 0, (parts & 1) != 0);
          check_all(
              text("residual norm", shape, p.compute, p.residual) + " parts " +
                  std::to_string(parts) + (kind == NormKind::kRms ? " rms" : ""),
              &Kernels::residual_norm,
              [&](const ResidualNormKernel& kernel, IsaLevel level) {
                return kernel.supports(p.compute, p.residual, level);
              },
              [&](OpRunner& runner) { return p.run(runner); }, p.bounds());
        }
      }
    }
  }
}

TEST_CASE("every activation equals the reference", "[activation]") {
  for (const std::vector<int64_t>& sizes : shapes("rows")) {
    for (const DType dtype : kDTypes) {
      for (const ActivationKind kind : {ActivationKind::kGelu, ActivationKind::kSwiglu}) {
        const bool is_gelu = kind == ActivationKind::kGelu;
        const Shape narrow{sizes[0], sizes[1]}, wide{sizes[0], sizes[1] * (is_gelu ? 1 : 2)};
        HostTensor u = random_tensor(dtype, wide, 1, 3.0, sizes[0] % 2 == 1);
        const double far[] = {0.0, -0.0, 1e4, -1e4, 88.0, -88.0, 9.0, -9.0, 1e-30};
        for (int64_t i = 0; i < 9 && i < u.elements(); ++i) u.set(u.elements() - 1 - i, far[i]);
        const HostTensor grad_y = random_tensor(dtype, narrow, 2, 1.0, sizes[0] % 2 == 1);
        const double slope = is_gelu ? 1.0 : largest(u);
        check_all(
            text(is_gelu ? "gelu" : "swiglu", narrow, dtype, dtype), &Kernels::activation,
            [&](const ActivationKernel& kernel, IsaLevel level) {
              return kernel.supports(dtype, level);
            },
            [&](OpRunner& runner) {
              const HostTensor y(dtype, narrow), grad_u(dtype, wide), in_place = grad_y.copy();
              runner.run([&](OpContext& context) {
                activation_forward(context, {kind, u.view(), y.view()});
                activation_backward(context, {kind, u.view(), grad_y.view(), grad_u.view()});
              });
              if (is_gelu) {
                Workspace workspace;
                workspace.allocate(nullptr);
                OpContext context{runner.device(), runner.kernels(), workspace};
                activation_backward(context, {kind, u.view(), in_place.view(), in_place.view()});
                if (!in_place.same_bits(grad_u)) FAIL_CHECK("in place gives other bits");
              }
              return std::vector<HostTensor>{y, grad_u};
            },
            {{"y", 3e-6 * (is_gelu ? 1.0 : 9.0), 4e-6 + rounding(dtype)},
             {"grad_u", 1e-5 * std::min(slope, 20.0), 4e-6 + rounding(dtype)}});
      }
    }
  }
}

TEST_CASE("every rotary equals the reference", "[rotary]") {
  for (const std::vector<int64_t>& sizes : shapes("attention")) {
    const int64_t heads = sizes[2], shared = sizes[3], size = (sizes[4] + 1) / 2 * 2;
    const int64_t rows = sizes[0] * sizes[1], longest = sizes[1] + 3;
    const HostTensor table(DType::kFloat32, {longest, size});
    make_rotary_table(10000.0, table.view());
    const std::vector<int32_t> positions = random_ids(rows, longest, 9);
    for (const DType dtype : kDTypes) {
      const Shape shape{rows, (heads + 2 * shared) * size};
      const HostTensor qkv = random_tensor(dtype, shape, 1);
      check_all(
          text("rotary", shape, dtype, dtype), &Kernels::rotary,
          [&](const RotaryKernel& kernel, IsaLevel level) { return kernel.supports(dtype, level); },
          [&](OpRunner& runner) {
            std::vector<HostTensor> out;
            for (const int variant : {0, 1, 2}) {
              HostTensor x(dtype, shape, variant == 1);
              runner.run([&](OpContext& context) {
                for (int64_t i = 0; i < x.elements(); ++i) x.set(i, qkv.at(i));
                const int32_t* given = variant == 0 ? nullptr : positions.data();
                rotary(context, {x.view(), heads, shared, size, table.view(), given, sizes[1],
                                 variant == 2});
              });
              out.push_back(x);
            }
            return out;
          },
          {{"by place", 2e-6, rounding(dtype)},
           {"by position", 2e-6, rounding(dtype)},
           {"inverse", 2e-6, rounding(dtype)}});
    }
  }
}

TEST_CASE("every embedding equals the reference", "[embedding]") {
  for (const std::vector<int64_t>& sizes : shapes("rows")) {
    const int64_t rows = sizes[0], hidden = sizes[1], sequence = rows > 3 ? rows / 2 : rows;
    const int64_t vocabulary = rows / 3 + 2, longest = sequence + 2;
    const std::vector<int32_t> tokens = random_ids(rows, vocabulary, 1);
    const std::vector<int32_t> positions = random_ids(rows, longest, 2);
    for (const auto& pair : dtype_pairs()) {
      const DType compute = pair.first, residual = pair.second;
      const HostTensor token = random_tensor(compute, {vocabulary, hidden}, 3);
      const HostTensor place = random_tensor(compute, {longest, hidden}, 4);
      const HostTensor grad_y = random_tensor(residual, {rows, hidden}, 5, 1.0, true);
      const Dropout dropout = Dropout::make(stream_key("dropout/embedding", 2), 0.1, 9);
      check_all(
          text("embedding", {rows, hidden}, compute, residual), &Kernels::embedding,
          [&, c = compute, r = residual](const EmbeddingKernel& kernel, IsaLevel level) {
            return kernel.supports(c, r, level) && kernel.supports(r, r, level);
          },
          [&, r = residual](OpRunner& runner) {
            const HostTensor y(r, {rows, hidden}), plain(r, {rows, hidden}, true);
            std::vector<HostTensor> grads;
            runner.run([&](OpContext& context) {
              embedding_forward(context, {tokens.data(), positions.data(), token.view(),
                                          place.view(), dropout, sequence, y.view()});
              embedding_forward(
                  context, {tokens.data(), nullptr, token.view(), {}, {}, sequence, plain.view()});
              grads = {HostTensor(DType::kFloat32, {vocabulary, hidden}),
                       HostTensor(DType::kFloat32, {longest, hidden}),
                       random_tensor(DType::kFloat32, {vocabulary, hidden}, 7),
                       random_tensor(DType::kFloat32, {longest, hidden}, 8)};
              embedding_backward(context, {tokens.data(), nullptr, grad_y.view(), dropout, sequence,
                                           grads[0].view(), grads[1].view()});
              embedding_backward(context, {tokens.data(),
                                           positions.data(),
                                           grad_y.view(),
                                           {},
                                           sequence,
                                           grads[2].view(),
                                           grads[3].view(),
                                           GradientMode::kAccumulate});
            });
            return std::vector<HostTensor>{y, plain, grads[0], grads[1], grads[2], grads[3]};
          },
          {{"y", 1e-6, rounding(residual)},
           {"y without positions", 0.0, 0.0},
           {"grad_token", 2e-5, 1e-6},
           {"grad_position", 2e-5, 1e-6},
           {"accumulated grad_token", 2e-5, 1e-6},
           {"accumulated grad_position", 2e-5, 1e-6}});
    }
  }
}

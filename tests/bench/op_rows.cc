// Ops on rows: residual and norm, activations, rotary, embedding, cross entropy.
#include <algorithm>

#include "kernels/ops/activation.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/residual_norm.h"
#include "kernels/ops/rotary.h"
#include "tests/bench/op_bench.h"

namespace plait::bench {
namespace {

struct Model {
  const char* name;
  bool is_gpt2;
  int64_t rows, sequence, hidden, feed_forward, vocabulary;
  int64_t heads, key_value_heads;
};

constexpr Model kModels[] = {
    {"b4", true, 4096, 1024, 768, 3072, 50257, 12, 12},
    {"c", true, 2048, 512, 1024, 4096, 50304, 16, 16},
    {"d", false, 2048, 1024, 768, 2048, 32000, 12, 4},
};
constexpr int64_t kHeadSize = 64;
constexpr int64_t kLogitRows = 640;

/// Relative to a value or to 1: the rounding of a dtype, and sums of many terms.
float tolerance(DType dtype) { return dtype == DType::kFloat32 ? 2e-4f : 2e-2f; }

TensorSpec input(DType dtype, const Shape& shape, float scale = 1.0f) {
  return {dtype, shape, scale, 0, false, 0};
}
TensorSpec constant(DType dtype, const Shape& shape, float value) {
  return {dtype, shape, 0, value, false, 0};
}
TensorSpec output(DType dtype, const Shape& shape, float tolerance) {
  return {dtype, shape, 0, 0, true, tolerance};
}

template <class Kernel, class Supports>
std::string kernel_name(const std::vector<const Kernel*>& list, Supports supports) {
  for (const Kernel* kernel : list) {
    if (supports(*kernel)) return kernel->name();
  }
  return "";
}

class RowBench {
 public:
  RowBench(OpBench& bench, const Model& model, DType dtype)
      : bench_(bench), m_(model), dtype_(dtype), isa_(bench.device().isa()) {}

  void run() {
    norm();
    activation();
    if (!m_.is_gpt2) rotate();
    embedding();
    cross_entropy();
  }

 private:
  OpCase start(const char* op, const char* what, const char* pass,
               const std::string& kernel) const {
    OpCase c;
    c.shape = m_.name;
    c.op = op;
    c.what = what;
    c.pass = pass;
    c.dtype = dtype_;
    c.kernel = kernel;
    return c;
  }

  void norm() {
    const Shape rows{m_.rows, m_.hidden}, vector{m_.hidden}, pairs{m_.rows, 2};
    const NormKind kind = m_.is_gpt2 ? NormKind::kLayer : NormKind::kRms;
    const char* what = m_.is_gpt2 ? "add, layer norm" : "add, RMS norm";
    const std::string kernel =
        kernel_name(bench_.kernels().residual_norm,
                    [&](const ResidualNormKernel& k) { return k.supports(dtype_, dtype_, isa_); });
    const bool is_gpt2 = m_.is_gpt2;
    const int64_t sequence = m_.sequence;

    OpCase forward = start("residual_norm", what, "forward", kernel);
    forward.tensors = {input(dtype_, rows),
                       input(dtype_, rows),
                       input(dtype_, vector, 0.1f),
                       constant(dtype_, vector, 1.0f),
                       input(dtype_, vector, 0.1f),
                       output(dtype_, rows, tolerance(dtype_)),
                       output(dtype_, rows, tolerance(dtype_)),
                       output(DType::kFloat32, pairs, 1e-4f)};
    forward.call = [=](OpContext& context, const Views& v) {
      ResidualNormForward a;
      a.kind = kind;
      a.x = v[0];
      a.delta = v[1];
      if (is_gpt2) a.bias = v[2];
      a.sequence = sequence;
      a.weight = v[3];
      if (is_gpt2) a.norm_bias = v[4];
      a.sum = v[5];
      a.y = v[6];
      a.statistics = v[7];
      residual_norm_forward(context, a);
    };
    bench_.run(forward);

    OpCase backward = start("residual_norm", what, "backward", kernel);
    // Sums over all rows: the rounding of their terms adds up.
    const float sums = 20 * tolerance(dtype_);
    backward.tensors = {input(dtype_, rows),
                        output(dtype_, rows, tolerance(dtype_)),
                        input(dtype_, rows),
                        constant(dtype_, vector, 1.0f),
                        constant(DType::kFloat32, pairs, 0.5f),
                        output(dtype_, rows, tolerance(dtype_)),
                        output(DType::kFloat32, vector, sums),
                        output(DType::kFloat32, vector, sums),
                        output(DType::kFloat32, vector, sums)};
    backward.tensors[1].scale = 1.0f;
    backward.call = [=](OpContext& context, const Views& v) {
      ResidualNormBackward a;
      a.kind = kind;
      a.grad_y = v[0];
      a.grad_sum = v[1];
      a.sum = v[2];
      a.weight = v[3];
      a.statistics = v[4];
      a.sequence = sequence;
      a.grad_x = v[1];
      a.grad_delta = v[5];
      a.grad_weight = v[6];
      if (is_gpt2) a.grad_norm_bias = v[7];
      if (is_gpt2) a.grad_bias = v[8];
      residual_norm_backward(context, a);
    };
    bench_.run(backward);
  }

  void activation() {
    const ActivationKind kind = m_.is_gpt2 ? ActivationKind::kGelu : ActivationKind::kSwiglu;
    const int64_t parts = m_.is_gpt2 ? 1 : 2;
    const Shape wide{m_.rows, parts * m_.feed_forward}, narrow{m_.rows, m_.feed_forward};
    const char* what = m_.is_gpt2 ? "GELU" : "SwiGLU";
    const std::string kernel =
        kernel_name(bench_.kernels().activation,
                    [&](const ActivationKernel& k) { return k.supports(dtype_, isa_); });
    OpCase forward = start("activation", what, "forward", kernel);
    forward.tensors = {input(dtype_, wide), output(dtype_, narrow, tolerance(dtype_))};
    forward.call = [=](OpContext& context, const Views& v) {
      activation_forward(context, {kind, v[0], v[1]});
    };
    bench_.run(forward);
    OpCase backward = start("activation", what, "backward", kernel);
    backward.tensors = {input(dtype_, wide), input(dtype_, narrow),
                        output(dtype_, wide, tolerance(dtype_))};
    backward.call = [=](OpContext& context, const Views& v) {
      activation_backward(context, {kind, v[0], v[1], v[2]});
    };
    bench_.run(backward);
  }

  void rotate() {
    const int64_t turned = (m_.heads + m_.key_value_heads) * kHeadSize;
    const int64_t width = turned + m_.key_value_heads * kHeadSize;
    const Shape table{m_.sequence, kHeadSize};
    const int64_t heads = m_.heads, groups = m_.key_value_heads, sequence = m_.sequence;
    const std::string kernel = kernel_name(
        bench_.kernels().rotary, [&](const RotaryKernel& k) { return k.supports(dtype_, isa_); });
    for (const bool is_inverse : {false, true}) {
      OpCase c = start("rotary", "queries and keys", is_inverse ? "backward" : "forward", kernel);
      c.tensors = {input(dtype_, {m_.rows, width}), input(DType::kFloat32, table)};
      c.tensors[0].is_output = true;
      c.tensors[0].tolerance = tolerance(dtype_);
      c.prepare = [](OpContext& context, const Views& v) {
        if (!context.is_measuring()) make_rotary_table(10000.0, v[1]);
      };
      c.call = [=](OpContext& context, const Views& v) {
        Rotary a;
        a.qkv = v[0];
        a.heads = heads;
        a.key_value_heads = groups;
        a.head_size = kHeadSize;
        a.table = v[1];
        a.sequence = sequence;
        a.is_inverse = is_inverse;
        rotary(context, a);
      };
      bench_.run(c);
    }
  }

  void embedding() {
    tokens_.resize(static_cast<size_t>(m_.rows));
    for (size_t i = 0; i < tokens_.size(); ++i) {
      tokens_[i] = static_cast<int32_t>(static_cast<int64_t>(i) * 7919 % m_.vocabulary);
    }
    const Shape rows{m_.rows, m_.hidden}, table{m_.vocabulary, m_.hidden};
    const Shape positions{m_.sequence, m_.hidden};
    const std::string kernel =
        kernel_name(bench_.kernels().embedding,
                    [&](const EmbeddingKernel& k) { return k.supports(dtype_, dtype_, isa_); });
    const bool is_gpt2 = m_.is_gpt2;
    const int64_t sequence = m_.sequence;
    const int32_t* tokens = tokens_.data();
    const char* what = is_gpt2 ? "token, position" : "token";
    OpCase forward = start("embedding", what, "forward", kernel);
    forward.tensors = {input(dtype_, table, 0.02f), input(dtype_, positions, 0.02f),
                       output(dtype_, rows, tolerance(dtype_))};
    forward.call = [=](OpContext& context, const Views& v) {
      EmbeddingForward a;
      a.tokens = tokens;
      a.token_weight = v[0];
      if (is_gpt2) a.position_weight = v[1];
      a.sequence = sequence;
      a.y = v[2];
      embedding_forward(context, a);
    };
    bench_.run(forward);
    // No token comes twice here: every row of the gradient is read and written.
    OpCase backward = start("embedding", what, "backward", kernel);
    backward.tensors = {input(dtype_, rows), output(DType::kFloat32, table, 1e-4f),
                        output(DType::kFloat32, positions, 1e-4f)};
    backward.call = [=](OpContext& context, const Views& v) {
      EmbeddingBackward a;
      a.tokens = tokens;
      a.grad_y = v[0];
      a.sequence = sequence;
      a.grad_token = v[1];
      if (is_gpt2) a.grad_position = v[2];
      a.mode = GradientMode::kAccumulate;
      embedding_backward(context, a);
    };
    bench_.run(backward);
  }

  void cross_entropy() {
    const int64_t padded = (m_.vocabulary + 127) / 128 * 128;
    targets_.resize(kLogitRows);
    for (size_t i = 0; i < targets_.size(); ++i) {
      targets_[i] = static_cast<int32_t>(static_cast<int64_t>(i) * 104729 % m_.vocabulary);
    }
    const Shape logits{kLogitRows, padded}, rows{kLogitRows};
    const int64_t vocabulary = m_.vocabulary;
    const int32_t* targets = targets_.data();
    const std::string kernel =
        kernel_name(bench_.kernels().cross_entropy,
                    [&](const CrossEntropyKernel& k) { return k.supports(dtype_, isa_); });
    const auto statistics_call = [=](OpContext& context, const Views& v) {
      cross_entropy_statistics(context, {v[0], vocabulary, 0, targets, v[1], v[2], v[3]});
    };
    const TensorSpec statistic{DType::kFloat32, rows, 0, 0, true, 1e-3f};
    if (dtype_ == DType::kFloat32) {
      OpCase c = start("cross_entropy", "statistics of 640 rows", "forward", kernel);
      c.tensors = {input(DType::kFloat32, logits), statistic, statistic, statistic};
      c.call = statistics_call;
      bench_.run(c);
    }
    OpCase c = start("cross_entropy", "gradient of 640 rows", "backward", kernel);
    TensorSpec given = statistic;
    given.is_output = false;
    c.tensors = {input(DType::kFloat32, logits), given, given, given,
                 output(dtype_, logits, 1e-2f * tolerance(dtype_))};
    c.prepare = statistics_call;
    c.call = [=](OpContext& context, const Views& v) {
      cross_entropy_gradient(context, {v[0], vocabulary, 0, targets, v[1], v[2], 1.0f, v[4]});
    };
    bench_.run(c);
  }

  OpBench& bench_;
  const Model& m_;
  DType dtype_;
  IsaLevel isa_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> targets_;
};

}  // namespace

void run_row_cases(OpBench& bench) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const Model& model : kModels) RowBench(bench, model, dtype).run();
  }
}

}  // namespace plait::bench

// Products of the body and of the logits: forward, gradient of the input, gradient of the weight.
#include <cmath>

#include "kernels/ops/linear.h"
#include "tests/bench/op_bench.h"

namespace plait::bench {
namespace {

constexpr int64_t kChecked = 64;  // elements of each result that are computed anew

struct LinearCase {
  const char* shape;
  const char* what;
  int64_t rows, n, k;
  bool has_bias;
  bool is_logits;
};

// Logits come in the chunks of rows in which the loss makes them.
constexpr LinearCase kCases[] = {
    {"b4", "attention in", 4096, 2304, 768, true, false},
    {"b4", "attention out", 4096, 768, 768, false, false},
    {"b4", "feed-forward up", 4096, 3072, 768, true, false},
    {"b4", "feed-forward down", 4096, 768, 3072, false, false},
    {"b4", "logits", 640, 50304, 768, false, true},
    {"c", "attention in", 2048, 3072, 1024, true, false},
    {"c", "attention out", 2048, 1024, 1024, false, false},
    {"c", "feed-forward up", 2048, 4096, 1024, true, false},
    {"c", "feed-forward down", 2048, 1024, 4096, false, false},
    {"c", "logits", 640, 50304, 1024, false, true},
};

/// Σ over `count` of a[i] · b[i] and of its absolute values.
struct Dot {
  double sum = 0, size = 0;
  void add(double a, double b) {
    sum += a * b;
    size += std::abs(a * b);
  }
};

/// "" when `got` is the sum up to fp32 accumulation and the rounding of its dtype.
std::string near(const TensorView& got, int64_t i, const Dot& want) {
  const double rounding = got.dtype == DType::kFloat32 ? 0.0 : std::ldexp(1.0, -8);
  const double value = element(got, i);
  if (std::abs(value - want.sum) <= rounding * std::abs(want.sum) + 1e-5 * want.size) return "";
  return "element " + std::to_string(i) + " is " + std::to_string(value) + ", not " +
         std::to_string(want.sum);
}

/// Rows and columns spread over a whole [rows, columns] result, its last element among them.
template <class Want>
std::string check_elements(const TensorView& got, Want want) {
  const int64_t rows = got.shape[0], columns = got.shape[1];
  for (int64_t i = 0; i < kChecked; ++i) {
    const int64_t row = rows - 1 - i * 7919 % rows, column = columns - 1 - i * 104729 % columns;
    const std::string problem = near(got, row * columns + column, want(row, column));
    if (!problem.empty()) return problem;
  }
  return "";
}

class LinearBench {
 public:
  LinearBench(OpBench& bench, const LinearCase& c, DType dtype)
      : bench_(bench), case_(c), dtype_(dtype) {
    weight_.shape = {c.n, c.k, dtype, c.rows};
    Workspace workspace;
    const OpContext context = bench.context(workspace);
    weight_.plan = make_linear_plan(context, weight_.shape);
    if (weight_.plan->packed_bytes() == 0) return;
    packed_ = bench.device().allocate(weight_.plan->packed_bytes(), MemoryCategory::kWeights);
    weight_.packed = packed_.data();
  }

  void run() {
    forward();
    backward_input();
    backward_weight();
  }

 private:
  OpCase start(const char* pass) const {
    OpCase out;
    out.shape = case_.shape;
    out.op = case_.is_logits ? "logits" : "linear";
    out.what = std::string(case_.what) + " " + std::to_string(case_.rows) + "x" +
               std::to_string(case_.n) + "x" + std::to_string(case_.k);
    out.pass = pass;
    out.dtype = dtype_;
    out.kernel = weight_.plan->name();
    out.copies = case_.is_logits ? 1 : 4;
    return out;
  }
  TensorSpec x() const { return {dtype_, {case_.rows, case_.k}, 1.0f, 0, false, 0}; }
  TensorSpec w() const { return {dtype_, {case_.n, case_.k}, 0.02f, 0, false, 0}; }
  TensorSpec y(DType dtype, float scale) const {
    return {dtype, {case_.rows, case_.n}, scale, 0, false, 0};
  }
  /// W as the plan wants it. Every copy of the case has the same weight.
  OpCall pack(size_t index) {
    return [this, index](OpContext& context, const Views& v) {
      weight_.weight = v[index];
      linear_pack(context, weight_);
    };
  }

  void forward() {
    OpCase c = start("forward");
    const DType out = case_.is_logits ? DType::kFloat32 : dtype_;
    c.tensors = {x(), w(), {dtype_, {case_.n}, 0.5f, 0, false, 0}, y(out, 0)};
    c.prepare = pack(1);
    c.call = [this](OpContext& context, const Views& v) {
      LinearForward a;
      a.x = v[0];
      if (case_.has_bias) a.bias = v[2];
      a.y = v[3];
      linear_forward(context, weight_, a);
    };
    c.check = [this](const Views& v) {
      return check_elements(v[3], [&](int64_t row, int64_t column) {
        Dot dot;
        for (int64_t i = 0; i < case_.k; ++i)
          dot.add(element(v[0], row * case_.k + i), element(v[1], column * case_.k + i));
        if (case_.has_bias) dot.add(element(v[2], column), 1.0);
        return dot;
      });
    };
    bench_.run(c);
  }

  void backward_input() {
    OpCase c = start("backward input");
    c.tensors = {y(dtype_, 1.0f), w(), {dtype_, {case_.rows, case_.k}, 0, 0, false, 0}};
    c.prepare = pack(1);
    c.call = [this](OpContext& context, const Views& v) {
      linear_backward_input(context, weight_, {v[0], v[2]});
    };
    c.check = [this](const Views& v) {
      return check_elements(v[2], [&](int64_t row, int64_t column) {
        Dot dot;
        for (int64_t i = 0; i < case_.n; ++i)
          dot.add(element(v[0], row * case_.n + i), element(v[1], i * case_.k + column));
        return dot;
      });
    };
    bench_.run(c);
  }

  /// The logits' gradient is added chunk by chunk; the body's replaces what was there.
  void backward_weight() {
    OpCase c = start("backward weight");
    const TensorSpec grad{DType::kFloat32, {case_.n, case_.k}, 0, 0, false, 0};
    c.tensors = {y(dtype_, 1.0f), x(), grad, {DType::kFloat32, {case_.n}, 0, 0, false, 0}, w()};
    c.prepare = pack(4);
    c.call = [this](OpContext& context, const Views& v) {
      LinearBackwardWeight a;
      a.grad_y = v[0];
      a.x = v[1];
      a.grad_weight = v[2];
      if (case_.has_bias) a.grad_bias = v[3];
      a.mode = case_.is_logits ? GradientMode::kAccumulate : GradientMode::kOverwrite;
      linear_backward_weight(context, weight_, a);
    };
    c.check = [this](const Views& v) {
      return check_elements(v[2], [&](int64_t row, int64_t column) {
        Dot dot;
        for (int64_t i = 0; i < case_.rows; ++i)
          dot.add(element(v[0], i * case_.n + row), element(v[1], i * case_.k + column));
        return dot;
      });
    };
    bench_.run(c);
  }

  OpBench& bench_;
  const LinearCase& case_;
  DType dtype_;
  LinearWeight weight_;
  Buffer packed_;
};

}  // namespace

void run_linear_cases(OpBench& bench) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const LinearCase& c : kCases) LinearBench(bench, c, dtype).run();
  }
}

}  // namespace plait::bench

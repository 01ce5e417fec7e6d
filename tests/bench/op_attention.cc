// Causal attention at the sizes of the shapes.
#include <cmath>
#include <cstring>

#include "kernels/ops/attention.h"
#include "kernels/reference/reference_kernels.h"
#include "tests/bench/op_bench.h"

namespace plait::bench {
namespace {

struct AttentionCase {
  const char* shape;
  AttentionShape sizes;
};

const AttentionCase kCases[] = {
    {"b4", {4, 1024, 12, 12, 64, 0}},
    {"c", {4, 512, 16, 16, 64, 0}},
    {"d", {2, 1024, 12, 4, 64, 0}},
};

enum Tensor { kQkv, kY, kLogSum, kGradY, kGradQkv };

int64_t width(const AttentionShape& s) { return (s.heads + 2 * s.key_value_heads) * s.head_size; }

std::string sizes_text(const AttentionShape& s) {
  return std::to_string(s.batch) + "x" + std::to_string(s.sequence) + ", " +
         std::to_string(s.heads) + "/" + std::to_string(s.key_value_heads) + " heads of " +
         std::to_string(s.head_size);
}

/// A tensor of its own memory.
struct Owned {
  std::vector<float> memory;  // float for its alignment
  TensorView view;
  Owned(DType dtype, const Shape& shape)
      : memory(static_cast<size_t>(shape.elements())), view{memory.data(), dtype, shape} {}
};

/// The last key/value head of the last sample, with its query heads, as a model of its own.
class OneGroup {
 public:
  OneGroup(const AttentionShape& sizes, DType dtype)
      : sizes_(sizes),
        group_(sizes.heads / sizes.key_value_heads),
        shape_{1, sizes.sequence, group_, 1, sizes.head_size, 0},
        qkv_(dtype, {sizes.sequence, width(shape_)}),
        y_(dtype, {sizes.sequence, group_ * sizes.head_size}),
        log_sum_(DType::kFloat32, {1, group_, sizes.sequence}),
        grad_y_(dtype, {sizes.sequence, group_ * sizes.head_size}),
        grad_qkv_(dtype, {sizes.sequence, width(shape_)}) {}

  std::string check(OpBench& bench, const Views& v, bool is_backward) {
    copy_qkv(v[kQkv], qkv_.view);
    const Kernels reference = reference_kernels();
    bench.run_once(reference, [&](OpContext& context) {
      AttentionForward a;
      a.shape = shape_;
      a.qkv = qkv_.view;
      a.y = y_.view;
      a.log_sum = log_sum_.view;
      attention_forward(context, a);
    });
    if (!is_backward) {
      copy_y(v[kY], grad_y_.view);
      return difference("y", grad_y_.view, y_.view);
    }
    copy_y(v[kGradY], grad_y_.view);
    bench.run_once(reference, [&](OpContext& context) {
      AttentionBackward a;
      a.shape = shape_;
      a.qkv = qkv_.view;
      a.y = y_.view;
      a.log_sum = log_sum_.view;
      a.grad_y = grad_y_.view;
      a.grad_qkv = grad_qkv_.view;
      attention_backward(context, a);
    });
    copy_qkv(v[kGradQkv], qkv_.view);
    return difference("grad_qkv", qkv_.view, grad_qkv_.view);
  }

 private:
  void copy_columns(const TensorView& from, int64_t column, const TensorView& to, int64_t to_column,
                    int64_t count) {
    const int64_t size = dtype_size(from.dtype);
    const int64_t first = (sizes_.batch - 1) * sizes_.sequence;
    for (int64_t i = 0; i < sizes_.sequence; ++i) {
      std::memcpy(to.as<char>() + (i * to.columns() + to_column) * size,
                  from.as<char>() + ((first + i) * from.columns() + column) * size,
                  static_cast<size_t>(count * size));
    }
  }
  void copy_qkv(const TensorView& from, const TensorView& to) {
    const int64_t d = sizes_.head_size, heads = sizes_.heads, groups = sizes_.key_value_heads;
    copy_columns(from, (heads - group_) * d, to, 0, group_ * d);
    copy_columns(from, (heads + groups - 1) * d, to, group_ * d, d);
    copy_columns(from, (heads + 2 * groups - 1) * d, to, (group_ + 1) * d, d);
  }
  void copy_y(const TensorView& from, const TensorView& to) {
    copy_columns(from, (sizes_.heads - group_) * sizes_.head_size, to, 0,
                 group_ * sizes_.head_size);
  }
  std::string difference(const char* name, const TensorView& got, const TensorView& want) const {
    double largest = 0;
    for (int64_t i = 0; i < want.elements(); ++i) {
      largest = std::max(largest, std::abs(element(want, i)));
    }
    const double bound = largest * (want.dtype == DType::kFloat32 ? 1e-4 : 3e-2);
    for (int64_t i = 0; i < want.elements(); ++i) {
      const double a = element(got, i), b = element(want, i);
      if (std::abs(a - b) <= bound) continue;
      return std::string(name) + " of the last head, element " + std::to_string(i) + ", is " +
             std::to_string(a) + ", the reference has " + std::to_string(b);
    }
    return "";
  }

  AttentionShape sizes_;
  int64_t group_;
  AttentionShape shape_;
  Owned qkv_, y_, log_sum_, grad_y_, grad_qkv_;
};

void forward_call(const AttentionShape& sizes, OpContext& context, const Views& v) {
  AttentionForward a;
  a.shape = sizes;
  a.qkv = v[kQkv];
  a.y = v[kY];
  a.log_sum = v[kLogSum];
  attention_forward(context, a);
}

void backward_call(const AttentionShape& sizes, OpContext& context, const Views& v) {
  AttentionBackward a;
  a.shape = sizes;
  a.qkv = v[kQkv];
  a.y = v[kY];
  a.log_sum = v[kLogSum];
  a.grad_y = v[kGradY];
  a.grad_qkv = v[kGradQkv];
  attention_backward(context, a);
}

void run_case(OpBench& bench, const AttentionCase& c, DType dtype) {
  const AttentionShape& s = c.sizes;
  const int64_t rows = s.batch * s.sequence;
  OpCase out;
  out.shape = c.shape;
  out.op = "attention";
  out.what = sizes_text(s);
  out.dtype = dtype;
  for (const AttentionKernel* kernel : bench.kernels().attention) {
    if (!kernel->supports(s, dtype, bench.device().isa())) continue;
    out.kernel = kernel->name();
    break;
  }
  out.copies = 2;
  const Shape fused{rows, width(s)}, heads{rows, s.heads * s.head_size};
  out.tensors = {{dtype, fused, 1.0f, 0, false, 0},
                 {dtype, heads, 0, 0, false, 0},
                 {DType::kFloat32, {s.batch, s.heads, s.sequence}, 0, 0, false, 0},
                 {dtype, heads, 1.0f, 0, false, 0},
                 {dtype, fused, 0, 0, false, 0}};
  OneGroup group(s, dtype);
  for (const bool is_backward : {false, true}) {
    out.pass = is_backward ? "backward" : "forward";
    if (is_backward) {
      out.prepare = [&](OpContext& context, const Views& v) { forward_call(s, context, v); };
    }
    out.call = [&s, is_backward](OpContext& context, const Views& v) {
      if (is_backward) {
        backward_call(s, context, v);
      } else {
        forward_call(s, context, v);
      }
    };
    out.check = [&, is_backward](const Views& v) { return group.check(bench, v, is_backward); };
    bench.run(out);
  }
}

}  // namespace

void run_attention_cases(OpBench& bench) {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat32}) {
    for (const AttentionCase& c : kCases) run_case(bench, c, dtype);
  }
}

}  // namespace plait::bench

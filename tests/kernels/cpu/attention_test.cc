// The vector attention against the reference, on every level that this machine has.
#include "kernels/cpu/attention.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "kernels/ops/kernels.h"
#include "kernels/reference/reference_kernels.h"

namespace plait {
namespace {

struct Case {
  AttentionShape shape;
  DType dtype = DType::kFloat32;
  double dropout = 0.0;
  int64_t document = 0;  ///< mean length of a document; 0: one a sample
};

/// Memory of one call of each pass, filled with draws that depend on the case alone.
struct Tensors {
  explicit Tensors(const Case& a) : test(a) {
    const AttentionShape& s = a.shape;
    const int64_t rows = s.batch * s.sequence;
    fused = {rows, (s.heads + 2 * s.key_value_heads) * s.head_size};
    output = {rows, s.heads * s.head_size};
    fill(qkv, fused, "qkv");
    fill(grad_y, output, "grad_y");
    y.resize(grad_y.size());
    grad_qkv.assign(qkv.size(), 0x7F);
    log_sum.resize(static_cast<size_t>(s.batch * s.heads * s.sequence));
    if (a.document == 0) return;
    first_visible.resize(static_cast<size_t>(rows));
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t at = row % s.sequence;
      const auto draw = philox({1, 2}, {static_cast<uint32_t>(row), 0, 0, 0})[0];
      const bool is_start = at == 0 || draw % static_cast<uint32_t>(a.document) == 0;
      first_visible[row] = static_cast<int32_t>(is_start ? at : first_visible[row - 1]);
    }
  }

  void fill(std::vector<char>& to, const Shape& shape, const char* name) const {
    std::vector<float> draws(static_cast<size_t>(shape.elements()));
    fill_normal(stream_key(name, 7), 1.0, 0, shape.elements(), draws.data());
    to.resize(draws.size() * static_cast<size_t>(dtype_size(test.dtype)));
    for (size_t i = 0; i < draws.size(); ++i) set(to, i, draws[i]);
  }

  void set(std::vector<char>& to, size_t i, float value) const {
    if (test.dtype == DType::kFloat32) reinterpret_cast<float*>(to.data())[i] = value;
    if (test.dtype == DType::kBFloat16) {
      reinterpret_cast<BFloat16*>(to.data())[i] = to_bfloat16(value);
    }
    if (test.dtype == DType::kFloat16) {
      reinterpret_cast<Float16*>(to.data())[i] = to_float16(value);
    }
  }

  float get(const std::vector<char>& from, size_t i) const {
    if (test.dtype == DType::kFloat32) return reinterpret_cast<const float*>(from.data())[i];
    if (test.dtype == DType::kBFloat16) {
      return to_float(reinterpret_cast<const BFloat16*>(from.data())[i]);
    }
    return to_float(reinterpret_cast<const Float16*>(from.data())[i]);
  }

  AttentionForward forward() {
    AttentionForward a;
    a.shape = test.shape;
    a.qkv = {qkv.data(), test.dtype, fused};
    a.first_visible = first_visible.empty() ? nullptr : first_visible.data();
    a.dropout = Dropout::make(stream_key("dropout/layers.3.attention.probabilities", 11),
                              test.dropout, (int64_t{1} << 33) + 5);
    a.y = {y.data(), test.dtype, output};
    a.log_sum = {
        log_sum.data(), DType::kFloat32, {test.shape.batch, test.shape.heads, test.shape.sequence}};
    return a;
  }

  AttentionBackward backward() {
    const AttentionForward f = forward();
    return {f.shape,
            f.qkv,
            f.first_visible,
            f.dropout,
            f.y,
            f.log_sum,
            {grad_y.data(), test.dtype, output},
            {grad_qkv.data(), test.dtype, fused}};
  }

  Case test;
  Shape fused, output;
  std::vector<char> qkv, y, grad_y, grad_qkv;
  std::vector<float> log_sum;
  std::vector<int32_t> first_visible;
};

/// Both passes through the ops' entry points.
void compute(Tensors& t, const Kernels& kernels, IsaLevel isa, int threads) {
  DeviceOptions options;
  options.threads = threads;
  Device device(options, isa);
  Workspace workspace;
  OpContext context{device, kernels, workspace};
  for (int pass = 0; pass < 2; ++pass) {
    attention_forward(context, t.forward());
    attention_backward(context, t.backward());
    if (pass == 0) workspace.allocate(&device.ledger());
  }
}

std::string text(const Case& c) {
  const AttentionShape& s = c.shape;
  return std::string(dtype_name(c.dtype)) + " B" + std::to_string(s.batch) + " S" +
         std::to_string(s.sequence) + " A" + std::to_string(s.heads) + " G" +
         std::to_string(s.key_value_heads) + " D" + std::to_string(s.head_size) + " r" +
         std::to_string(c.dropout) + " document " + std::to_string(c.document);
}

/// Largest |a − b| / (1 + |b|), infinite for a NaN.
double difference(const Tensors& a, const std::vector<char>& x, const std::vector<char>& y) {
  double most = 0.0;
  const size_t count = x.size() / static_cast<size_t>(dtype_size(a.test.dtype));
  for (size_t i = 0; i < count; ++i) {
    const double p = a.get(x, i), q = a.get(y, i);
    const double error = std::abs(p - q) / (1.0 + std::abs(q));
    if (!(error <= most)) most = std::isnan(error) ? INFINITY : error;
  }
  return most;
}

Kernels vector_kernels() {
  Kernels kernels;
  kernels.attention = attention_kernels();
  return kernels;
}

std::vector<IsaLevel> levels() {
  std::vector<IsaLevel> found;
  for (int level = 1; level <= static_cast<int>(IsaLevel::kAvx512); ++level) {
    if (static_cast<IsaLevel>(level) <= detected_isa().level) {
      found.push_back(static_cast<IsaLevel>(level));
    }
  }
  return found;
}

void check_case(const Case& c) {
  Tensors expected(c);
  compute(expected, reference_kernels(), IsaLevel::kBaseline, 1);
  const double rounding = c.dtype == DType::kFloat32    ? 4e-6
                          : c.dtype == DType::kBFloat16 ? 1.2e-2
                                                        : 1.5e-3;
  for (const IsaLevel isa : levels()) {
    INFO(text(c) << " isa " << isa_name(isa));
    Tensors one(c);
    compute(one, vector_kernels(), isa, 1);
    CHECK(difference(one, one.y, expected.y) < rounding);
    CHECK(difference(one, one.grad_qkv, expected.grad_qkv) < 4 * rounding);
    double sums = 0.0;
    for (size_t i = 0; i < one.log_sum.size(); ++i) {
      sums = std::max<double>(sums, std::abs(one.log_sum[i] - expected.log_sum[i]));
    }
    CHECK(sums < 1e-5);
    for (const int threads : {2, 3}) {
      Tensors more(c);
      compute(more, vector_kernels(), isa, threads);
      CHECK(more.y == one.y);
      CHECK(more.grad_qkv == one.grad_qkv);
      CHECK(std::memcmp(more.log_sum.data(), one.log_sum.data(),
                        one.log_sum.size() * sizeof(float)) == 0);
    }
  }
}

AttentionShape shape(int64_t batch, int64_t sequence, int64_t heads, int64_t groups, int64_t size) {
  return {batch, sequence, heads, groups, size, 0};
}

TEST_CASE("attention equals the reference at any length and head size") {
  for (const int64_t sequence : {1, 2, 11, 12, 13, 47, 48, 49, 97, 193, 200}) {
    check_case({shape(1, sequence, 2, 2, 64)});
  }
  for (const int64_t size : {1, 3, 4, 8, 12, 16, 17, 31, 32, 48, 80, 128}) {
    check_case({shape(1, 61, 1, 1, size)});
  }
}

TEST_CASE("attention equals the reference with shared heads, documents and dropout") {
  AttentionShape shared = shape(2, 101, 6, 2, 16);
  shared.first_head = 6;
  check_case({shared});
  check_case({shape(2, 70, 5, 3, 8)});
  check_case({shape(2, 250, 1, 1, 16), DType::kFloat32, 0.0, 40});
  check_case({shape(1, 250, 2, 1, 8), DType::kFloat32, 0.0, 5});
  check_case({shared, DType::kFloat32, 0.3});
  check_case({shape(2, 210, 2, 2, 20), DType::kFloat32, 0.1, 60});
  for (const int64_t sequence : {1, 2, 3, 5, 50}) {
    check_case({shape(1, sequence, 3, 3, 8), DType::kFloat32, 0.5});
  }
}

TEST_CASE("attention in the 16-bit dtypes rounds only what it stores") {
  for (const DType dtype : {DType::kBFloat16, DType::kFloat16}) {
    check_case({shape(2, 77, 2, 1, 24), dtype});
    check_case({shape(1, 130, 2, 2, 64), dtype, 0.2, 50});
  }
}

TEST_CASE("trap 22: dropout's element indices go beyond 32 bits") {
  Case c{shape(1, 60, 2, 2, 8), DType::kFloat32, 0.4};
  c.shape.first_head =
      (int64_t{1} << 34) / 3600;  // heads · S² passes 2³²·4, where a counter carries
  check_case(c);
}

TEST_CASE("what an attention gets that is not finite comes out as NaN") {
  for (const IsaLevel isa : levels()) {
    for (const int which : {0, 1, 2}) {  // a query, a key, a value
      INFO(isa_name(isa) << " " << which);
      Tensors t({shape(1, 100, 1, 1, 16)});
      t.set(t.qkv, static_cast<size_t>(60 * 48 + which * 16 + 3),
            std::numeric_limits<float>::quiet_NaN());
      compute(t, vector_kernels(), isa, 1);
      CHECK(std::isnan(t.get(t.y, 60 * 16 + 3)));
      CHECK(std::isnan(t.get(t.y, 99 * 16 + 3)) == (which != 0));
      CHECK(std::isfinite(t.get(t.y, 30 * 16 + 3)));
      CHECK(std::isnan(t.get(t.grad_qkv, 60 * 48 + 3)));
      CHECK(std::isnan(t.log_sum[60]) == (which != 2));
    }
  }
}

TEST_CASE("attention holds up with scores that are far apart") {
  Tensors t({shape(1, 64, 1, 1, 16)});
  for (size_t i = 0; i < 64 * 48; ++i) {
    if (i % 48 < 32) t.set(t.qkv, i, 12.0f * t.get(t.qkv, i));
  }
  Tensors expected = t;
  compute(expected, reference_kernels(), IsaLevel::kBaseline, 1);
  for (const IsaLevel isa : levels()) {
    compute(t, vector_kernels(), isa, 1);
    CHECK(difference(t, t.y, expected.y) < 1e-3);
    CHECK(difference(t, t.grad_qkv, expected.grad_qkv) < 1e-2);
  }
}

}  // namespace
}  // namespace plait

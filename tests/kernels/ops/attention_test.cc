#include "kernels/ops/attention.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "op_fixture.h"

using namespace plait;

namespace {

struct Case {
  AttentionShape shape;
  std::vector<int32_t> first_visible;
  Dropout dropout;
  double rate = 0.0;

  size_t width() const {
    return static_cast<size_t>((shape.heads + 2 * shape.key_value_heads) * shape.head_size);
  }
  Shape fused() const { return {shape.batch * shape.sequence, static_cast<int64_t>(width())}; }
  Shape output() const { return {shape.batch * shape.sequence, shape.heads * shape.head_size}; }
};

double kept(const Case& c, size_t sample, size_t head, size_t query, size_t key) {
  if (c.rate == 0.0) return 1.0;
  const auto s = static_cast<uint64_t>(c.shape.sequence);
  const uint64_t element =
      ((static_cast<uint64_t>(c.shape.first_head) + head) * s + query) * s + key;
  const uint64_t g = static_cast<uint64_t>(c.dropout.first_sample) + sample;
  const PhiloxBlock words = philox(
      c.dropout.key, {static_cast<uint32_t>(element / 4), static_cast<uint32_t>(element / 4 >> 32),
                      static_cast<uint32_t>(g), static_cast<uint32_t>(g >> 32)});
  const bool is_dropped = words[element % 4] < static_cast<uint32_t>(c.rate * 0x1p32);
  return is_dropped ? 0.0 : 1.0 / (1.0 - c.rate);
}

/// [y | log_sum] with whole score matrices and −∞ for what is masked.
std::vector<double> attention_model(const Case& c, const std::vector<double>& qkv) {
  const auto s = static_cast<size_t>(c.shape.sequence), d = static_cast<size_t>(c.shape.head_size);
  const auto heads = static_cast<size_t>(c.shape.heads);
  const auto shared = static_cast<size_t>(c.shape.key_value_heads);
  const auto batch = static_cast<size_t>(c.shape.batch);
  std::vector<double> out(batch * s * heads * d + batch * heads * s, 0.0);
  for (size_t b = 0; b < batch; ++b) {
    for (size_t head = 0; head < heads; ++head) {
      const size_t group = head / (heads / shared);
      for (size_t i = 0; i < s; ++i) {
        std::vector<double> weights(s);
        double total = 0.0;
        for (size_t j = 0; j < s; ++j) {
          double score = 0.0;
          for (size_t e = 0; e < d; ++e) {
            score += qkv[(b * s + i) * c.width() + head * d + e] *
                     qkv[(b * s + j) * c.width() + (heads + group) * d + e];
          }
          const int32_t first = c.first_visible.empty() ? 0 : c.first_visible[b * s + i];
          const bool is_seen = j <= i && j >= static_cast<size_t>(first);
          weights[j] = is_seen ? std::exp(score / std::sqrt(double(d))) : 0.0;
          total += weights[j];
        }
        for (size_t j = 0; j < s; ++j) {
          for (size_t e = 0; e < d; ++e) {
            const double value = qkv[(b * s + j) * c.width() + (heads + shared + group) * d + e];
            out[((b * s + i) * heads + head) * d + e] +=
                weights[j] / total * kept(c, b, head, i, j) * value;
          }
        }
        out[batch * s * heads * d + (b * heads + head) * s + i] = std::log(total);
      }
    }
  }
  return out;
}

void check_case(const Case& c) {
  const HostTensor qkv = random_tensor(DType::kFloat32, c.fused(), 1);
  const HostTensor grad_y = random_tensor(DType::kFloat32, c.output(), 2);
  const HostTensor y(DType::kFloat32, c.output()), grad_qkv(DType::kFloat32, c.fused());
  const HostTensor log_sum(DType::kFloat32, {c.shape.batch, c.shape.heads, c.shape.sequence});
  const int32_t* first = c.first_visible.empty() ? nullptr : c.first_visible.data();
  reference_runner().run([&](OpContext& context) {
    attention_forward(context, {c.shape, qkv.view(), first, c.dropout, y.view(), log_sum.view()});
    attention_backward(context, {c.shape, qkv.view(), first, c.dropout, y.view(), log_sum.view(),
                                 grad_y.view(), grad_qkv.view()});
  });
  const Model model = [&](const std::vector<double>& x) { return attention_model(c, x); };
  CHECK(difference(join({&y, &log_sum}), model(qkv.values()), 3e-6) == "");
  std::vector<double> seed = grad_y.values();
  CHECK(difference(grad_qkv.values(), numeric_gradient(model, qkv.values(), seed), 5e-6) == "");
}

}  // namespace

TEST_CASE("attention and its gradient follow the formula", "[attention]") {
  SECTION("plain") { check_case({{2, 5, 2, 2, 3}, {}, {}, 0.0}); }
  SECTION("shared key/value heads") { check_case({{1, 4, 4, 2, 2}, {}, {}, 0.0}); }
  SECTION("one position") { check_case({{2, 1, 2, 1, 3}, {}, {}, 0.0}); }
  SECTION("documents") { check_case({{2, 5, 2, 1, 3}, {0, 0, 0, 3, 3, 0, 1, 1, 1, 4}, {}, 0.0}); }
  SECTION("dropout with global heads and samples") {
    const Dropout dropout = Dropout::make(stream_key("dropout/layers.3.attention.probabilities", 5),
                                          0.25, int64_t{1} << 33);
    check_case({{2, 5, 2, 1, 3, 6}, {0, 0, 0, 3, 3, 0, 1, 1, 1, 4}, dropout, 0.25});
  }
}

TEST_CASE("no document sees another", "[attention]") {
  const Case c{{1, 6, 2, 2, 4}, {0, 0, 0, 3, 3, 3}, {}, 0.0};
  HostTensor qkv = random_tensor(DType::kFloat32, c.fused(), 1);
  const HostTensor before(DType::kFloat32, c.output()), after(DType::kFloat32, c.output());
  const HostTensor log_sum(DType::kFloat32, {1, 2, 6});
  for (const HostTensor* y : {&before, &after}) {
    reference_runner().run([&](OpContext& context) {
      attention_forward(
          context, {c.shape, qkv.view(), c.first_visible.data(), {}, y->view(), log_sum.view()});
    });
    for (int64_t i = 0; i < 3 * qkv.view().columns(); ++i) qkv.set(i, qkv.at(i) * 3.0 + 1.0);
  }
  for (int64_t i = 0; i < before.elements(); ++i) {
    CHECK((before.at(i) == after.at(i)) == (i >= before.elements() / 2));
  }
}

TEST_CASE("large scores do not overflow", "[attention]") {
  const Case c{{1, 3, 1, 1, 2}, {}, {}, 0.0};
  const HostTensor qkv = random_tensor(DType::kFloat32, c.fused(), 1, 100.0);
  const HostTensor y(DType::kFloat32, c.output()), log_sum(DType::kFloat32, {1, 1, 3});
  reference_runner().run([&](OpContext& context) {
    attention_forward(context, {c.shape, qkv.view(), nullptr, {}, y.view(), log_sum.view()});
  });
  for (const double value : join({&y, &log_sum})) CHECK(std::isfinite(value));
}

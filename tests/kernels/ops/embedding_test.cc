#include "kernels/ops/embedding.h"

#include <catch2/catch.hpp>

#include "op_fixture.h"

using namespace plait;

namespace {

constexpr int64_t kRows = 8, kSequence = 4, kVocabulary = 7, kLongest = 5, kHidden = 3;
const std::vector<int32_t> kTokens = {1, 5, 1, 0, 5, 5, 6, 1};
const std::vector<int32_t> kRestarts = {0, 1, 0, 1, 0, 1, 2, 3};

/// y of [token table | position table].
std::vector<double> embedding_model(const std::vector<double>& tables, const int32_t* positions,
                                    const Dropout& dropout) {
  std::vector<double> y;
  for (int64_t row = 0; row < kRows; ++row) {
    const int64_t place = row % kSequence;
    const int64_t position = positions != nullptr ? positions[row] : place;
    for (int64_t i = 0; i < kHidden; ++i) {
      const double kept = dropout_factor(dropout, static_cast<uint64_t>(row / kSequence),
                                         static_cast<uint64_t>(place * kHidden + i));
      const double sum = tables[static_cast<size_t>(kTokens[row] * kHidden + i)] +
                         tables[static_cast<size_t>((kVocabulary + position) * kHidden + i)];
      y.push_back(kept * sum);
    }
  }
  return y;
}

}  // namespace

TEST_CASE("embedding rows and their gradients", "[embedding]") {
  const double rate = GENERATE(0.0, 0.4);
  const bool has_positions = GENERATE(false, true);
  CAPTURE(rate, has_positions);
  const Dropout dropout = Dropout::make(stream_key("dropout/embedding", 3), rate, 0);
  const int32_t* positions = has_positions ? kRestarts.data() : nullptr;
  const HostTensor token = random_tensor(DType::kFloat32, {kVocabulary, kHidden}, 1);
  const HostTensor position = random_tensor(DType::kFloat32, {kLongest, kHidden}, 2);
  const HostTensor grad_y = random_tensor(DType::kFloat32, {kRows, kHidden}, 3);
  const HostTensor y(DType::kFloat32, {kRows, kHidden});
  const HostTensor grad_token(DType::kFloat32, {kVocabulary, kHidden}),
      grad_position(DType::kFloat32, {kLongest, kHidden});
  const auto backward = [&](GradientMode mode) {
    reference_runner().run([&](OpContext& context) {
      embedding_backward(context, {kTokens.data(), positions, grad_y.view(), dropout, kSequence,
                                   grad_token.view(), grad_position.view(), mode});
    });
  };
  reference_runner().run([&](OpContext& context) {
    embedding_forward(context, {kTokens.data(), positions, token.view(), position.view(), dropout,
                                kSequence, y.view()});
  });
  const Model model = [&](const std::vector<double>& x) {
    return embedding_model(x, positions, dropout);
  };
  const std::vector<double> tables = join({&token, &position});
  CHECK(difference(y.values(), model(tables), 1e-6) == "");
  backward(GradientMode::kOverwrite);  // rows that no token names become zero
  std::vector<double> want = numeric_gradient(model, tables, grad_y.values());
  CHECK(difference(join({&grad_token, &grad_position}), want, 2e-6) == "");
  backward(GradientMode::kAccumulate);
  for (double& value : want) value *= 2.0;
  CHECK(difference(join({&grad_token, &grad_position}), want, 4e-6) == "");
}

TEST_CASE("a wide residual stream takes 16-bit rows exactly", "[embedding]") {
  const HostTensor token = random_tensor(DType::kBFloat16, {kVocabulary, kHidden}, 1);
  const HostTensor y(DType::kFloat32, {kRows, kHidden});
  reference_runner().run([&](OpContext& context) {
    embedding_forward(context,
                      {kTokens.data(), nullptr, token.view(), {}, {}, kSequence, y.view()});
  });
  for (int64_t i = 0; i < y.elements(); ++i) {
    CHECK(y.at(i) == token.at(kTokens[static_cast<size_t>(i / kHidden)] * kHidden + i % kHidden));
  }
}

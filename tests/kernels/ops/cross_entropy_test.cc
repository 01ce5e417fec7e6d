#include "kernels/ops/cross_entropy.h"

#include <catch2/catch.hpp>
#include <cmath>

#include "op_fixture.h"

using namespace plait;

namespace {

/// A shard of logits with all that belongs to it.
struct Shard {
  HostTensor logits;
  int64_t vocabulary = 0, first_id = 0;
  HostTensor maximum, sum, target_logit, grad;

  Shard(HostTensor values, int64_t counted, int64_t first)
      : logits(std::move(values)),
        vocabulary(counted),
        first_id(first),
        maximum(DType::kFloat32, {logits.view().rows()}),
        sum(DType::kFloat32, {logits.view().rows()}),
        target_logit(DType::kFloat32, {logits.view().rows()}),
        grad(DType::kFloat32, logits.view().shape) {}

  void run_statistics(const std::vector<int32_t>& targets) {
    reference_runner().run([&](OpContext& context) {
      cross_entropy_statistics(context, {logits.view(), vocabulary, first_id, targets.data(),
                                         maximum.view(), sum.view(), target_logit.view()});
    });
  }
  void run_gradient(const std::vector<int32_t>& targets, float scale) {
    reference_runner().run([&](OpContext& context) {
      cross_entropy_gradient(context, {logits.view(), vocabulary, first_id, targets.data(),
                                       maximum.view(), sum.view(), scale, grad.view()});
    });
  }
};

double loss(const Shard& shard, int64_t row) {
  return std::log(shard.sum.at(row)) - (shard.target_logit.at(row) - shard.maximum.at(row));
}

}  // namespace

TEST_CASE("uniform logits give ln V whatever the padding holds", "[cross_entropy]") {
  constexpr int64_t kVocabulary = 50257, kPadded = 50304;
  HostTensor logits(DType::kFloat32, {1, kPadded});
  logits.fill(1e30);
  for (int64_t i = 0; i < kVocabulary; ++i) logits.set(i, -7.25);
  Shard shard(logits, kVocabulary, 0);
  shard.run_statistics({50256});
  CHECK(loss(shard, 0) == Approx(10.824905).epsilon(1e-7));
  shard.run_gradient({50256}, 1.0f);
  for (int64_t i = kVocabulary; i < kPadded; ++i) {
    if (shard.grad.at(i) != 0.0) FAIL("padded id " << i << " has a gradient");
  }
  CHECK(shard.grad.at(0) == Approx(1.0 / kVocabulary));
  CHECK(shard.grad.at(50256) == Approx(1.0 / kVocabulary - 1.0));
}

TEST_CASE("the gradient is that of the loss", "[cross_entropy]") {
  constexpr int64_t kRows = 4, kPadded = 9, kVocabulary = 7;
  const std::vector<int32_t> targets = {3, -1, 0, 6};
  Shard shard(random_tensor(DType::kFloat32, {kRows, kPadded}, 1, 2.0), kVocabulary, 0);
  for (int64_t i = kPadded; i < 2 * kPadded; ++i) shard.logits.set(i, std::nan(""));
  for (int64_t row = 0; row < kRows; ++row) shard.logits.set(row * kPadded + 8, std::nan(""));
  const Model model = [&](const std::vector<double>& z) {
    double total = 0.0;
    for (size_t row : {0, 2, 3}) {
      double sum = 0.0;
      for (size_t j = 0; j < kVocabulary; ++j) sum += std::exp(z[row * kPadded + j]);
      total += std::log(sum) - z[row * kPadded + static_cast<size_t>(targets[row])];
    }
    return std::vector<double>{total};
  };
  shard.run_statistics(targets);
  shard.run_gradient(targets, 0.25f);
  std::vector<double> z = shard.logits.values();
  double total = 0.0;
  for (int64_t row : {0, 2, 3}) total += loss(shard, row);
  CHECK(total == Approx(model(z)[0]).epsilon(1e-6));
  CHECK(shard.target_logit.at(1) == 0.0);
  for (double& value : z) value = std::isnan(value) ? 0.0 : value;  // no step through NaN
  CHECK(difference(shard.grad.values(), numeric_gradient(model, z, {0.25}), 1e-6) == "");
}

TEST_CASE("joined vocabulary shards equal the whole", "[cross_entropy]") {
  constexpr int64_t kRows = 3, kVocabulary = 7, kHalf = 4;
  const std::vector<int32_t> targets = {1, 6, 4};
  const HostTensor all = random_tensor(DType::kFloat32, {kRows, kVocabulary}, 1, 3.0);
  Shard whole(all, kVocabulary, 0);
  Shard left(HostTensor(DType::kFloat32, {kRows, kHalf}), kHalf, 0);
  Shard right(HostTensor(DType::kFloat32, {kRows, kHalf}), 3, kHalf);
  Shard empty(random_tensor(DType::kFloat32, {kRows, kHalf}, 2), 0, 2 * kHalf);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kVocabulary; ++i) {
      Shard& shard = i < kHalf ? left : right;
      shard.logits.set(row * kHalf + i % kHalf, all.at(row * kVocabulary + i));
    }
  }
  for (Shard* shard : {&whole, &left, &right, &empty}) shard->run_statistics(targets);
  for (int64_t row = 0; row < kRows; ++row) {
    double maximum = -INFINITY, sum = 0.0, target = 0.0;
    for (Shard* shard : {&left, &right, &empty})
      maximum = std::max(maximum, shard->maximum.at(row));
    for (Shard* shard : {&left, &right, &empty}) {
      sum += shard->sum.at(row) * std::exp(shard->maximum.at(row) - maximum);
      target += shard->target_logit.at(row);
    }
    CHECK(maximum == whole.maximum.at(row));
    CHECK(sum == Approx(whole.sum.at(row)).epsilon(1e-6));
    CHECK(target == whole.target_logit.at(row));
    for (Shard* shard : {&left, &right, &empty}) {
      shard->maximum.set(row, maximum);
      shard->sum.set(row, sum);
    }
  }
  for (Shard* shard : {&whole, &left, &right, &empty}) shard->run_gradient(targets, 1.0f);
  for (int64_t row = 0; row < kRows; ++row) {
    for (int64_t i = 0; i < kHalf; ++i) {
      CHECK(left.grad.at(row * kHalf + i) ==
            Approx(whole.grad.at(row * kVocabulary + i)).margin(1e-7));
      const double right_want = i < 3 ? whole.grad.at(row * kVocabulary + kHalf + i) : 0.0;
      CHECK(right.grad.at(row * kHalf + i) == Approx(right_want).margin(1e-7));
      CHECK(empty.grad.at(row * kHalf + i) == 0.0);
    }
  }
}

TEST_CASE("a NaN logit reaches the loss", "[cross_entropy]") {
  HostTensor logits = random_tensor(DType::kFloat32, {1, 5}, 1);
  logits.set(2, std::nan(""));
  Shard shard(logits, 5, 0);
  shard.run_statistics({1});
  CHECK(std::isnan(loss(shard, 0)));
}

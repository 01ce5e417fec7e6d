// Faults that users of other engines met, as checks: loss normalisation, accumulation, clipping,
// decay, document isolation, precision, non-finite values.
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/base/error.h"
#include "tests/support/tiny_model.h"

using namespace plait;
using namespace plait::test;

namespace {

std::vector<int32_t> inputs_of(const std::vector<int32_t>& rows, int64_t columns) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<int64_t>(i) % columns != columns - 1) out.push_back(rows[i]);
  }
  return out;
}

std::vector<int32_t> targets_of(const std::vector<int32_t>& rows, int64_t columns) {
  std::vector<int32_t> out;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (static_cast<int64_t>(i) % columns != 0) out.push_back(rows[i]);
  }
  return out;
}

std::string word_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.word();
  }
  return "none";
}

}  // namespace

TEST_CASE("N2, trap 1: masks and micro-batches do not move loss or norm", "[numerics]") {
  const std::vector<int32_t> rows = random_rows(8, 17, 61, 5);
  const std::vector<int32_t> tokens = inputs_of(rows, 17);
  std::vector<int32_t> targets = targets_of(rows, 17);
  for (size_t i = 0; i < targets.size(); ++i) {
    if (rows[i] % 3 == 0 || i < 14) targets[i] = -1;
  }
  double loss = 0, grad_norm = 0;
  for (const char* micro : {"1", "2", "4", "8"}) {
    TestEngine engine(tiny_config({{"train.global_batch", "8"}, {"layout.micro_batch", micro}}));
    const Metrics metrics = step(*engine, target_batch(tokens, targets, 8));
    if (loss == 0) {
      loss = metrics.loss;
      grad_norm = metrics.grad_norm;
    }
    INFO("micro-batch " << micro);
    CHECK(metrics.loss == Approx(loss).epsilon(1e-6));
    CHECK(metrics.grad_norm == Approx(grad_norm).epsilon(1e-6));
  }
}

TEST_CASE("N3: a step's loss is the sum of unmasked losses over their number", "[numerics]") {
  const std::vector<int32_t> rows = random_rows(2, 11, 61, 6);
  const std::vector<int32_t> tokens = inputs_of(rows, 11);
  std::vector<int32_t> targets = targets_of(rows, 11);
  for (size_t i = 0; i < 9; ++i) targets[i] = -1;
  targets[15] = -1;
  TestEngine engine(tiny_config({{"train.global_batch", "2"}, {"train.sequence_length", "10"}}));
  std::vector<float> losses(20);
  const Batch batch = target_batch(tokens, targets, 2);
  engine->score(batch, -1, losses.data(), static_cast<int64_t>(losses.size() * sizeof(float)));
  double sum = 0;
  for (size_t i = 0; i < losses.size(); ++i) {
    if (targets[i] < 0) CHECK(losses[i] == 0.0f);
    sum += losses[i];
  }
  const Metrics metrics = step(*engine, batch);
  CHECK(metrics.targets == 10);
  CHECK(metrics.loss == Approx(sum / 10).epsilon(1e-6));
}

TEST_CASE("N4, V4: repeated micro-batches leave loss and gradient alone", "[numerics]") {
  const std::vector<int32_t> one = random_rows(1, 17, 61, 7);
  double loss = 0, grad_norm = 0;
  for (int64_t count : {1, 8, 32}) {
    std::vector<int32_t> rows;
    for (int64_t i = 0; i < count; ++i) rows.insert(rows.end(), one.begin(), one.end());
    TestEngine engine(tiny_config({{"train.global_batch", std::to_string(count)}}));
    const Metrics metrics = step(*engine, token_batch(rows, count));
    if (count == 1) {
      loss = metrics.loss;
      grad_norm = metrics.grad_norm;
    }
    CHECK(metrics.loss == Approx(loss).epsilon(1e-6));
    CHECK(metrics.grad_norm == Approx(grad_norm).epsilon(1e-5));
  }
}

TEST_CASE("N5: at rate 0 a step's loss equals the evaluation of its batch", "[numerics]") {
  TestEngine engine(tiny_config({{"optimizer.lr", "0"}, {"train.global_batch", "5"}}));
  const std::vector<int32_t> rows = random_rows(5, 17, 61, 8);
  const double loss = step(*engine, token_batch(rows, 5)).loss;
  CHECK(evaluate(*engine, token_batch(rows, 5)).loss == Approx(loss).epsilon(1e-6));
  CHECK(loss == Approx(std::log(61.0)).epsilon(0.05));
}

TEST_CASE("N6: two backward passes without an update give twice the gradient", "[numerics]") {
  const bool is_llama = GENERATE(false, true);
  Keys keys;
  if (is_llama) keys = {{"model.family", "llama"}, {"model.feed_forward", "40"}};
  TestEngine once(tiny_config(keys)), twice(tiny_config(keys));
  const std::vector<int32_t> rows = random_rows(1, 17, 61, 9);
  const Batch batch = token_batch(rows, 1);
  forward_backward(*once, batch);
  forward_backward(*twice, batch);
  forward_backward(*twice, batch);
  for (const std::string& name : tensor_names(*once)) {
    // Both are divided by their own number of targets, so the sums are equal when these are.
    INFO(name);
    CHECK((read(*once, name, TensorKind::kGradient) == read(*twice, name, TensorKind::kGradient)));
  }
}

TEST_CASE("N7, trap 3: a fresh engine, and one that has stepped, start from clean gradients",
          "[numerics]") {
  const Config config = tiny_config({{"optimizer.lr", "0"}});
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 10), other = random_rows(4, 17, 61, 11);
  TestEngine first(config), second(config);
  forward_backward(*first, token_batch(rows, 4));
  const std::vector<float> want = read_all(*first, TensorKind::kGradient);
  step(*second, token_batch(other, 4));
  forward_backward(*second, token_batch(rows, 4));
  CHECK((read_all(*second, TensorKind::kGradient) == want));
}

TEST_CASE("N11, trap 8: clipping shares one factor and reports the norm before it", "[numerics]") {
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 12);
  const auto first_moment = [&](const char* limit, double* reported) {
    TestEngine engine(tiny_config({{"optimizer.clip_grad_norm", limit}}));
    *reported = step(*engine, token_batch(rows, 4)).grad_norm;
    return read_all(*engine, TensorKind::kMoment1);
  };
  double whole = 0, clipped = 0, loose = 0;
  const std::vector<float> m_whole = first_moment("0", &whole);
  const std::vector<float> m_clipped = first_moment("0.1", &clipped);
  const std::vector<float> m_loose = first_moment("1000", &loose);
  CHECK(whole > 0.1);
  CHECK(clipped == whole);
  CHECK((m_loose == m_whole));
  CHECK(norm(m_clipped) / norm(m_whole) == Approx(0.1 / (whole + 1e-6)).epsilon(1e-5));
}

TEST_CASE("N12, B10, traps 38, 40: a NaN weight is reported as non-finite and changes nothing",
          "[numerics]") {
  const std::string compute = GENERATE("fp32", "bf16");
  TestEngine engine(tiny_config({{"precision.compute", compute}}));
  std::vector<float> values = read(*engine, "layers.1.feed_forward.up.weight", TensorKind::kMaster);
  if (compute == "fp32")
    values = read(*engine, "layers.1.feed_forward.up.weight", TensorKind::kParam);
  const std::vector<float> good = values;
  values[37] = std::numeric_limits<float>::quiet_NaN();
  write(*engine, "layers.1.feed_forward.up.weight", values);
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 13);
  const std::vector<float> before = read(*engine, "embedding.token.weight", TensorKind::kParam);
  try {
    step(*engine, token_batch(rows, 4));
    FAIL("the step went through");
  } catch (const Error& error) {
    CHECK(error.word() == "nonfinite_loss");
    CHECK(error.code() == Code::kOutOfRange);
    CHECK(error.disposition() == Disposition::kUnchanged);
    CHECK(error.message().find("step=1") != std::string::npos);
  }
  CHECK((read(*engine, "embedding.token.weight", TensorKind::kParam) == before));
  write(*engine, "layers.1.feed_forward.up.weight", good);
  CHECK(step(*engine, token_batch(rows, 4)).step == 1);
}

TEST_CASE("N3 of faults: with skipping on a non-finite step is skipped", "[numerics]") {
  TestEngine engine(tiny_config({{"train.on_nonfinite", "skip"}}));
  std::vector<float> values = read(*engine, "final_norm.weight", TensorKind::kParam);
  values[0] = std::numeric_limits<float>::infinity();
  write(*engine, "final_norm.weight", values);
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 13);
  for (int64_t i = 1; i <= 3; ++i) {
    const Metrics metrics = step(*engine, token_batch(rows, 4));
    CHECK(metrics.skipped == 1);
    CHECK(metrics.skipped_total == i);
    CHECK(metrics.samples_total == 4 * i);
  }
}

TEST_CASE("N13: documents in one sequence do not see each other", "[numerics]") {
  const bool is_llama = GENERATE(false, true);
  Keys keys = {{"train.global_batch", "1"}};
  if (is_llama) keys.insert(keys.end(), {{"model.family", "llama"}, {"model.feed_forward", "40"}});
  TestEngine engine(tiny_config(keys));
  std::vector<int32_t> rows = random_rows(1, 17, 61, 14);
  std::vector<int32_t> documents(17, 0);
  for (size_t i = 7; i < 17; ++i) documents[i] = 3;
  Batch batch = token_batch(rows, 1);
  batch.documents = {documents.data(), 1, 17};
  std::vector<float> before(16), after(16), alone(16);
  engine->score(batch, -1, before.data(), 64);
  for (size_t i = 0; i < 7; ++i) rows[i] = (rows[i] + 5) % 61;
  engine->score(batch, -1, after.data(), 64);
  for (size_t i = 7; i < 16; ++i) CHECK(before[i] == after[i]);
  CHECK(before[6] == 0.0f);  // its target belongs to the next document
  CHECK(before[0] != after[0]);
  // The second document alone at the front of a row has the same losses.
  std::vector<int32_t> shifted(rows.begin() + 7, rows.end());
  shifted.resize(17, 0);
  engine->score(token_batch(shifted, 1), -1, alone.data(), 64);
  for (size_t i = 0; i < 9; ++i) CHECK(alone[i] == Approx(before[i + 7]).epsilon(1e-5));
}

TEST_CASE("N13: gradients of packed documents equal those of padded ones", "[numerics]") {
  const std::vector<int32_t> rows = random_rows(1, 17, 61, 15);
  std::vector<int32_t> documents(17, 0);
  for (size_t i = 9; i < 17; ++i) documents[i] = 1;
  TestEngine packed(tiny_config({{"train.global_batch", "1"}}));
  Batch batch = token_batch(rows, 1);
  batch.documents = {documents.data(), 1, 17};
  const Metrics one = forward_backward(*packed, batch);

  std::vector<int32_t> tokens(32, 0), targets(32, -1);
  for (size_t i = 0; i < 9; ++i) tokens[i] = rows[i];
  for (size_t i = 0; i < 8; ++i) targets[i] = rows[i + 1];
  for (size_t i = 9; i < 16; ++i) tokens[16 + i - 9] = rows[i];
  for (size_t i = 9; i < 16; ++i) targets[16 + i - 9] = rows[i + 1];
  TestEngine padded(tiny_config({{"train.global_batch", "2"}}));
  const Metrics two = forward_backward(*padded, target_batch(tokens, targets, 2));
  CHECK(one.targets == two.targets);
  CHECK(one.loss == Approx(two.loss).epsilon(1e-6));
  for (const std::string& name : tensor_names(*packed)) {
    if (name.find("attention.key.bias") != std::string::npos) continue;  // exactly zero in theory
    INFO(name);
    CHECK(relative_difference(read(*packed, name, TensorKind::kGradient),
                              read(*padded, name, TensorKind::kGradient)) < 1e-5);
  }
}

TEST_CASE("N14: decay shrinks matrices and leaves vectors alone", "[numerics]") {
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 16);
  const auto make = [](const char* decay) {
    return tiny_config({{"optimizer.lr", "0.1"}, {"optimizer.weight_decay", decay}});
  };
  TestEngine start(make("0")), plain(make("0")), decayed(make("0.5"));
  step(*plain, token_batch(rows, 4));
  step(*decayed, token_batch(rows, 4));
  for (const std::string& name : tensor_names(*start)) {
    INFO(name);
    const std::vector<float> before = read(*start, name, TensorKind::kParam);
    const std::vector<float> without = read(*plain, name, TensorKind::kParam);
    const std::vector<float> with = read(*decayed, name, TensorKind::kParam);
    const bool is_vector =
        name.find("norm") != std::string::npos || name.find("bias") != std::string::npos;
    if (is_vector) {
      CHECK((with == without));
      continue;
    }
    for (size_t i = 0; i < before.size(); ++i) {
      const double want = without[i] - 0.05 * before[i];
      if (std::fabs(with[i] - want) > 2e-7 * (std::fabs(want) + 0.1)) FAIL(i << " " << with[i]);
    }
  }
}

TEST_CASE("B1: 512 micro-batches in bf16 add up in fp32", "[numerics]") {
  const std::vector<int32_t> one = random_rows(1, 17, 61, 17);
  std::vector<int32_t> many;
  for (int i = 0; i < 512; ++i) many.insert(many.end(), one.begin(), one.end());
  TestEngine single(tiny_config({{"precision.compute", "bf16"}, {"train.global_batch", "1"}}));
  TestEngine sum(tiny_config({{"precision.compute", "bf16"}, {"train.global_batch", "512"}}));
  forward_backward(*single, token_batch(one, 1));
  forward_backward(*sum, token_batch(many, 512));
  for (const char* name : {"layers.0.attention.query.weight", "embedding.token.weight",
                           "layers.1.feed_forward_norm.weight"}) {
    CHECK(relative_difference(read(*sum, name, TensorKind::kGradient),
                              read(*single, name, TensorKind::kGradient)) < 1e-3);
  }
}

TEST_CASE("B2: small updates reach the master, the weight is its rounding", "[numerics]") {
  TestEngine engine(tiny_config({{"precision.compute", "bf16"}, {"optimizer.weight_decay", "0"}}));
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 18);
  for (int i = 0; i < 5; ++i) step(*engine, token_batch(rows, 4));
  for (const std::string& name : tensor_names(*engine)) {
    const std::vector<float> master = read(*engine, name, TensorKind::kMaster);
    const std::vector<float> weight = read(*engine, name, TensorKind::kParam);
    for (size_t i = 0; i < master.size(); ++i) {
      if (to_float(to_bfloat16(master[i])) != weight[i]) FAIL(name << " " << i);
    }
  }
  const std::vector<float> norm_weight = read(*engine, "final_norm.weight", TensorKind::kMaster);
  CHECK(norm_weight[0] != 1.0f);
  CHECK(std::fabs(norm_weight[0] - 1.0f) < 0.0051f);
}

TEST_CASE("B9: overflow follows the documented rule of the loss scale", "[numerics]") {
  TestEngine engine(tiny_config({{"precision.compute", "fp16"}}));
  std::vector<float> values = read(*engine, "final_norm.weight", TensorKind::kMaster);
  values[0] = std::numeric_limits<float>::infinity();
  write(*engine, "final_norm.weight", values);
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 19);
  const double want[] = {65536, 65536, 32768, 16384};
  for (int i = 0; i < 4; ++i) {
    const Metrics metrics = step(*engine, token_batch(rows, 4));
    CHECK(metrics.loss_scale == want[i]);
    CHECK(metrics.skipped == 1);
  }
  CHECK(engine->counter("overflows") == 4);
  CHECK((read_all(*engine, TensorKind::kMoment1) ==
         std::vector<float>(read_all(*engine, TensorKind::kMoment1).size(), 0.0f)));
  for (int i = 0; i < 13; ++i) step(*engine, token_batch(rows, 4));
  CHECK(word_of([&] { step(*engine, token_batch(rows, 4)); }) == "scale_exhausted");
}

TEST_CASE("N4 of faults: a batch without a target is a skipped step", "[numerics]") {
  TestEngine engine(tiny_config());
  const std::vector<int32_t> tokens = random_rows(4, 16, 61, 20);
  const std::vector<int32_t> targets(64, -1);
  const std::vector<float> before = read_all(*engine, TensorKind::kParam);
  const Metrics metrics = step(*engine, target_batch(tokens, targets, 4));
  CHECK(metrics.loss == 0.0);
  CHECK(metrics.skipped == 1);
  CHECK(engine->counter("overflows") == 0);
  CHECK(metrics.step == 1);
  CHECK(metrics.samples_total == 4);
  CHECK((read_all(*engine, TensorKind::kParam) == before));
}

TEST_CASE("T9: padded vocabulary rows take no part", "[numerics]") {
  // V = 61 is padded to 128: the loss of uniform logits is ln 61 whatever stands beyond.
  TestEngine engine(tiny_config());
  std::vector<float> zeros(61 * 32, 0.0f);
  write(*engine, "embedding.token.weight", zeros);
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 21);
  CHECK(step(*engine, token_batch(rows, 4)).loss == Approx(std::log(61.0)).epsilon(1e-7));
}

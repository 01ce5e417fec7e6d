// What may not change a bit: thread count, schedule kind, recompute, the run itself; what changes
// rounding alone: the micro-batch, the cut into calls.
#include <catch2/catch.hpp>

#include "tests/support/tiny_model.h"

using namespace plait;
using namespace plait::test;

namespace {

struct Result {
  std::vector<double> losses, norms;
  std::vector<float> weights, moments;
  bool operator==(const Result&) const = default;
};

Result train(const Keys& keys, int64_t steps) {
  Keys all = {{"train.dropout", "0.2"}, {"train.global_batch", "8"}};
  all.insert(all.end(), keys.begin(), keys.end());
  TestEngine engine(tiny_config(all));
  Result result;
  for (int64_t i = 0; i < steps; ++i) {
    const std::vector<int32_t> rows = random_rows(8, 17, 61, static_cast<uint64_t>(i));
    const Metrics metrics = step(*engine, token_batch(rows, 8));
    result.losses.push_back(metrics.loss);
    result.norms.push_back(metrics.grad_norm);
  }
  result.weights = read_all(*engine, TensorKind::kParam);
  result.moments = read_all(*engine, TensorKind::kMoment2);
  return result;
}

const Keys kLlama = {
    {"model.family", "llama"}, {"model.key_value_heads", "2"}, {"model.feed_forward", "56"}};

}  // namespace

TEST_CASE("trap 36: threads, schedules and recompute leave every bit alone", "[equality]") {
  const bool is_llama = GENERATE(false, true);
  const std::string compute = GENERATE("fp32", "bf16");
  Keys base = is_llama ? kLlama : Keys{};
  base.emplace_back("precision.compute", compute);
  base.emplace_back("layout.micro_batch", "2");
  const Result want = train(base, 4);
  const std::vector<Keys> changes = {
      {},
      {{"threads", "1"}},
      {{"threads", "3"}},
      {{"layout.schedule", "gpipe"}},
      {{"layout.schedule", "zero_bubble"}},
      {{"layout.recompute", "full"}},
      {{"layout.recompute", "full"}, {"layout.recompute_layers", "2"}, {"threads", "1"}},
      {{"layout.recompute", "selective"}},
      {{"layout.recompute", "full"}, {"layout.schedule", "gpipe"}},
      {{"layout.zero", "1"}}};
  for (const Keys& change : changes) {
    Keys keys = base;
    keys.insert(keys.end(), change.begin(), change.end());
    INFO("llama " << is_llama << " " << compute << " "
                  << (change.empty() ? "again" : change[0].first + "=" + change[0].second));
    CHECK((train(keys, 4) == want));
  }
}

TEST_CASE("traps 4, 21: the micro-batch changes rounding alone, dropout masks included",
          "[equality]") {
  const Result want = train({{"layout.micro_batch", "1"}}, 4);
  for (const char* micro : {"2", "4", "8"}) {
    INFO("micro-batch " << micro);
    const Result got = train({{"layout.micro_batch", micro}}, 4);
    for (size_t i = 0; i < want.losses.size(); ++i) {
      CHECK(got.losses[i] == Approx(want.losses[i]).epsilon(1e-6));
      CHECK(got.norms[i] == Approx(want.norms[i]).epsilon(1e-5));
    }
    CHECK(relative_difference(got.weights, want.weights) < 1e-5);
  }
}

TEST_CASE("P1, trap 2: any cut of a batch into calls equals one step on the whole", "[equality]") {
  const Config config = tiny_config({{"train.global_batch", "6"}, {"train.dropout", "0.1"}});
  const std::vector<int32_t> rows = random_rows(6, 17, 61, 3);
  TestEngine whole(config), parts(config);
  const Metrics want = step(*whole, token_batch(rows, 6));
  const auto part = [&](int64_t first, int64_t count) {
    return std::vector<int32_t>(rows.begin() + first * 17, rows.begin() + (first + count) * 17);
  };
  for (const auto& [first, count] : {std::pair<int64_t, int64_t>{0, 1}, {1, 3}, {4, 2}}) {
    const std::vector<int32_t> some = part(first, count);
    forward_backward(*parts, token_batch(some, count));
  }
  const Metrics got = optimizer_step(*parts);
  CHECK(got.loss == want.loss);
  CHECK(got.grad_norm == want.grad_norm);
  CHECK(got.samples_total == want.samples_total);
  CHECK((read_all(*parts, TensorKind::kParam) == read_all(*whole, TensorKind::kParam)));
}

TEST_CASE("T10: another step, another mask; another seed, another model", "[equality]") {
  const Keys still = {{"train.dropout", "0.5"}, {"optimizer.lr", "0"}};
  TestEngine engine(tiny_config(still));
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 1);
  const double first = step(*engine, token_batch(rows, 4)).loss;
  const double second = step(*engine, token_batch(rows, 4)).loss;
  CHECK(first != second);
  TestEngine again(tiny_config(still));
  CHECK(step(*again, token_batch(rows, 4)).loss == first);
  TestEngine other(tiny_config({{"seed", "77"}}));
  CHECK((read_all(*other, TensorKind::kParam) != read_all(*again, TensorKind::kParam)));
}

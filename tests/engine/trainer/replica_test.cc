// Bits flipped in what one rank holds, in many layouts: the comparison of replicas finds them and
// names rank, tensor and kind; it says nothing about a healthy run and sends nothing when off.
#include "engine/trainer/replica_check.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/base/random.h"
#include "tests/engine/comm/world/world_rig.h"
#include "tests/engine/trainer/open_engine.h"

namespace plait::test {
namespace {

struct Target {
  std::string tensor;
  TensorKind kind = TensorKind::kParam;
  int64_t rank = 0;
};

/// Where the layout puts a flipped bit, who holds the value, and whom the comparison names.
struct PokeCase {
  Keys layout;
  Target target;
  std::vector<int64_t> holders;
  int64_t blamed = 0;
};

const TensorKind kParam = TensorKind::kParam, kMaster = TensorKind::kMaster;
const TensorKind kMoment1 = TensorKind::kMoment1, kMoment2 = TensorKind::kMoment2;

std::vector<PokeCase> poke_cases() {
  const Keys bf16 = {{"precision.compute", "bf16"}};
  const auto with = [](Keys keys, const Keys& more) {
    keys.insert(keys.end(), more.begin(), more.end());
    return keys;
  };
  const Keys tied2 = {{"layout.pipeline", "2"}, {"model.tied", "true"}};
  const Keys shared_heads = {{"layout.tensor", "4"},
                             {"model.family", "llama"},
                             {"model.key_value_heads", "1"},
                             {"model.feed_forward", "56"}};
  const Keys data4 = {{"layout.data", "4"}};
  const std::string up = "layers.0.feed_forward.up.weight";
  return {
      {data4, {"layers.1.attention.query.weight", kParam, 2}, {0, 1, 2, 3}, 2},
      {with(data4, bf16), {"layers.1.attention.output.bias", kMaster, 0}, {0, 1, 2, 3}, 0},
      {with(data4, {{"layout.zero", "1"}}), {up, kParam, 1}, {0, 1, 2, 3}, 1},
      {with(with(data4, bf16), {{"layout.zero", "2"}}), {up, kParam, 3}, {0, 1, 2, 3}, 3},
      {{{"layout.data", "2"}, {"layout.tensor", "2"}},
       {"final_norm.weight", kParam, 3},
       {0, 1, 2, 3},
       3},
      {{{"layout.data", "2"}, {"layout.tensor", "4"}, {"layout.zero", "3"}},
       {"layers.0.feed_forward.down.bias", kParam, 6},
       {4, 5, 6, 7},
       6},
      {with({{"layout.data", "2"}, {"layout.tensor", "4"}, {"layout.zero", "3"}}, bf16),
       {"layers.0.feed_forward.down.bias", kParam, 4},
       {4, 5, 6, 7},
       4},
      {{{"layout.data", "2"}, {"layout.tensor", "2"}, {"layout.zero", "1"}},
       {"layers.0.attention_norm.bias", kMoment2, 0},
       {0, 1},
       1},
      {{{"layout.tensor", "2"}}, {"layers.1.feed_forward_norm.bias", kMoment1, 1}, {0, 1}, 1},
      {tied2, {"embedding.token.weight", kParam, 1}, {0, 1}, 1},
      {with(tied2, {{"layout.data", "2"}}),
       {"embedding.token.weight", kMoment1, 0},
       {0, 1, 2, 3},
       0},
      {with(with(tied2, bf16), {{"layout.data", "2"},
                                {"layout.tensor", "2"},
                                {"layout.interleave", "2"},
                                {"layout.zero", "2"},
                                {"model.layers", "4"}}),
       {"embedding.token.weight", kParam, 6},
       {0, 2, 4, 6},
       6},
      {shared_heads, {"layers.0.attention.key.weight", kParam, 2}, {0, 1, 2, 3}, 2},
      // The first of the two lanes.
      {with(data4, {{"precision.reduction", "canonical"}, {"precision.canonical_data", "4"}}),
       {"layers.1.attention.query.weight", kParam, 2},
       {0, 1, 2, 3},
       2},
  };
}

Config config_of(const PokeCase& one, const Keys& more) {
  Keys keys = one.layout;
  keys.insert(keys.end(), more.begin(), more.end());
  return tiny_config(keys);
}

/// The first element of the tensor that the rank holds. Whole weights are found as a pass does.
char* address_of(Rank& rank, const Target& target) {
  const TensorPlace& place = rank.places(find_tensor(rank, target.tensor)).at(0);
  const Parameter& parameter = *place.parameter;
  const int64_t row = parameter.range(*place.segment).first;
  const Optimizer& optimizer = rank.optimizer();
  const int64_t elements = rank.stages()[static_cast<size_t>(place.chunk)]
                               ->units()[static_cast<size_t>(place.unit)]
                               ->elements();
  UnitRange range = optimizer.state_range(place.chunk, place.unit);
  TensorView view = optimizer.master(place.chunk, place.unit);
  if (target.kind == kParam) {
    range = optimizer.weight_range(place.chunk, place.unit);
    view = optimizer.weights(place.chunk, place.unit);
    if (range.count == elements) {
      return parameter.weight.as<char>() + row * dtype_size(view.dtype);
    }
  }
  if (target.kind == kMoment1) view = optimizer.moment1(place.chunk, place.unit);
  if (target.kind == kMoment2) view = optimizer.moment2(place.chunk, place.unit);
  const int64_t element = std::max(parameter.offset + row, range.first);
  REQUIRE(element < range.first + range.count);
  return view.as<char>() + (element - range.first) * dtype_size(view.dtype);
}

void step_on(OpenEngine& engine, int64_t steps, Metrics* metrics) {
  const std::vector<int32_t> rows = random_rows(4, 17, 61, 1);
  for (int64_t i = 0; i < steps; ++i) *metrics = step(*engine, token_batch(rows, 4));
}

std::string field(const Error& error, const std::string& key) {
  for (const auto& [name, value] : error.fields()) {
    if (name == key) return value;
  }
  return "";
}

std::vector<int64_t> ranks_of(const std::vector<ReplicaCopy>& copies) {
  std::vector<int64_t> ranks;
  for (const ReplicaCopy& copy : copies) ranks.push_back(copy.rank);
  return ranks;
}

/// One comparison on all local ranks, which must come to the same result.
std::optional<Divergence> compare(OpenEngine& engine) {
  std::vector<std::optional<Divergence>> found(static_cast<size_t>(engine.size()));
  RankSet::Call call;
  call.name = "compare";
  call.part = [&](int64_t local) {
    found[static_cast<size_t>(local)] = engine.rank(local).find_divergence();
  };
  engine->ranks().run(call);
  for (const auto& one : found) {
    REQUIRE(one.has_value() == found[0].has_value());
    if (!one) continue;
    REQUIRE(one->tensor == found[0]->tensor);
    REQUIRE(one->kind == found[0]->kind);
    REQUIRE(one->blame.rank == found[0]->blame.rank);
  }
  return found[0];
}

int64_t messages_of(OpenEngine& engine) {
  int64_t sum = 0;
  for (int64_t local = 0; local < engine.size(); ++local) {
    for (const Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
      for (int kind = 0; kind < kCollectiveKinds; ++kind) {
        const auto which = static_cast<CollectiveKind>(kind);
        sum += engine.rank(local).group(axis).traffic(which).messages;
      }
    }
  }
  return sum;
}

}  // namespace

TEST_CASE("the majority is right; without one the first holder is", "[replicas]") {
  const auto of = [](const std::vector<ReplicaCopy>& copies) {
    const Blame result = blame(copies);
    return std::pair(result.rank, result.is_outvoted);
  };
  CHECK(of({{0, 5}, {3, 6}}) == std::pair<int64_t, bool>(3, false));
  CHECK(of({{0, 5}, {3, 6}, {4, 6}}) == std::pair<int64_t, bool>(0, true));
  CHECK(of({{0, 6}, {3, 6}, {4, 5}}) == std::pair<int64_t, bool>(4, true));
  CHECK(of({{1, 6}, {3, 7}, {4, 5}}) == std::pair<int64_t, bool>(3, false));
  CHECK(of({{1, 6}, {3, 7}, {4, 7}, {5, 6}}) == std::pair<int64_t, bool>(3, false));
  CHECK(of({{1, 7}, {3, 6}, {4, 5}, {5, 6}, {6, 6}}) == std::pair<int64_t, bool>(1, true));
}

TEST_CASE("a flipped bit is found by the next comparison", "[replicas]") {
  const std::vector<PokeCase> cases = poke_cases();
  const PokeCase one = cases[GENERATE(range(size_t{0}, size_t{13}))];
  REQUIRE(cases.size() == 14);
  INFO(one.target.tensor << " rank " << one.target.rank << " " << one.layout[0].first << " "
                         << one.layout[0].second);
  OpenEngine engine(
      config_of(one, {{"train.replica_check_every", "2"}, {"train.on_divergence", "metric"}}));
  Metrics metrics;
  step_on(engine, 1, &metrics);
  CHECK((metrics.valid & kMetricsReplicas) == 0);
  step_on(engine, 1, &metrics);
  CHECK((metrics.valid & kMetricsReplicas) != 0);
  CHECK(metrics.diverged_rank == -1);
  step_on(engine, 1, &metrics);
  CHECK((metrics.valid & kMetricsReplicas) == 0);
  CHECK(engine.warnings().empty());

  char* const place = address_of(engine.rank(one.target.rank), one.target);
  *place = static_cast<char>(*place ^ 1);
  const std::optional<Divergence> found = compare(engine);
  REQUIRE(found.has_value());
  CHECK(engine.rank(0).tensors()[static_cast<size_t>(found->tensor)].name == one.target.tensor);
  CHECK(found->kind == one.target.kind);
  CHECK(ranks_of(found->copies) == one.holders);
  CHECK(found->blame.is_outvoted == (one.holders.size() > 2));
  step_on(engine, 1, &metrics);
  CHECK((metrics.valid & kMetricsReplicas) != 0);
  CHECK(metrics.diverged_rank == one.blamed);
  CHECK(engine->counter("replica_checks") == 2);
  CHECK(engine->counter("replica_divergences") == 1);
  const std::vector<std::string> warnings = engine.warnings();
  REQUIRE(warnings.size() == 1);
  CHECK(has(warnings[0], "rank=" + std::to_string(one.blamed) + " tensor=" + one.target.tensor));
}

TEST_CASE("by default a difference ends the engine and names everything", "[replicas]") {
  const PokeCase one = poke_cases()[GENERATE(size_t{2}, size_t{4}, size_t{9})];
  OpenEngine engine(config_of(one, {{"train.replica_check_every", "2"}}));
  Metrics metrics;
  step_on(engine, 1, &metrics);
  char* const place = address_of(engine.rank(one.target.rank), one.target);
  // Not a number: the rank is named, not the loss that it spoils.
  std::memset(place, 0xFF, 4);
  Error error("aborted", "");
  try {
    step_on(engine, 1, &metrics);
  } catch (const Error& thrown) {
    error = thrown;
  }
  INFO(error.message());
  CHECK(error.word() == "replica_diverged");
  CHECK(error.code() == Code::kDataLoss);
  CHECK(error.disposition() == Disposition::kEngineLost);
  CHECK(error.rank() == one.blamed);
  CHECK(field(error, "rank") == std::to_string(one.blamed));
  CHECK(has(error.message(), " tensor=" + one.target.tensor + " kind=param step=2 "));
  CHECK(has(error.message(), one.holders.size() > 2 ? "=majority" : "=first_holder"));
  CHECK(has(field(error, "copies"), "\"ranks\":[" + std::to_string(one.blamed) + "]"));
  CHECK(engine->state() == EngineState::kLost);
  CHECK(engine->counter("steps") == 1);
  CHECK_THROWS_WITH(step_on(engine, 1, &metrics), Catch::Matchers::StartsWith("aborted: "));
}

TEST_CASE("every bit that has a copy is watched, and healed memory is forgotten", "[replicas]") {
  const std::string zero = GENERATE("0", "2");
  OpenEngine engine(tiny_config({{"layout.data", "2"},
                                 {"layout.tensor", "2"},
                                 {"layout.pipeline", "2"},
                                 {"layout.zero", zero},
                                 {"model.tied", "true"},
                                 {"precision.compute", "bf16"}}));
  Metrics metrics;
  step_on(engine, 1, &metrics);
  CHECK_FALSE(compare(engine).has_value());
  const PhiloxKey key = stream_key("test/pokes", 7);
  int64_t watched = 0;
  for (uint32_t i = 0; i < 60; ++i) {
    const PhiloxBlock draw = philox(key, {i, 0, 0, 0});
    const int64_t rank = draw[0] % 8;
    const std::vector<ReplicaPart> parts = list_replicas(engine.rank(rank));
    const ReplicaPart& part = parts[draw[1] % parts.size()];
    if (part.values.bytes() == 0) continue;
    const int64_t copies =
        part.holders * (part.is_on_all_data ? 2 : 1) * (part.is_tied_end ? 2 : 1);
    char* const place = part.values.as<char>() + draw[2] % part.values.bytes();
    const auto bit = static_cast<char>(1 << (draw[3] % 8));
    *place = static_cast<char>(*place ^ bit);
    const std::optional<Divergence> found = compare(engine);
    *place = static_cast<char>(*place ^ bit);
    INFO("rank " << rank << " tensor " << part.tensor << " copies " << copies);
    REQUIRE(found.has_value() == (copies > 1));
    if (!found) continue;
    ++watched;
    CHECK(found->tensor == part.tensor);
    CHECK(found->kind == part.kind);
    CHECK(static_cast<int64_t>(found->copies.size()) == copies);
    if (copies > 2) CHECK(found->blame.rank == rank);
  }
  CHECK(watched > 20);
  CHECK_FALSE(compare(engine).has_value());
}

TEST_CASE("a comparison that is not due sends nothing", "[replicas]") {
  const auto sent = [](const std::string& every, const Keys& layout) {
    Keys keys = layout;
    keys.emplace_back("train.replica_check_every", every);
    OpenEngine engine(tiny_config(keys));
    Metrics metrics;
    step_on(engine, 4, &metrics);
    return messages_of(engine);
  };
  const Keys all = {{"layout.data", "2"},
                    {"layout.tensor", "2"},
                    {"layout.pipeline", "2"},
                    {"model.tied", "true"}};
  const int64_t never = sent("0", all);
  CHECK(sent("100", all) == never);
  // Once: hashes on each axis and the agreement on each, one message to one peer for each rank.
  CHECK(sent("4", all) == never + 6 * 8);
  const Keys alone = {{"layout.data", "2"}, {"layout.zero", "3"}};  // nothing has a copy
  CHECK(sent("1", alone) == sent("0", alone));
}

TEST_CASE("processes end with the same word for a difference", "[replicas]") {
  const Config config = tiny_config(
      {{"layout.data", "2"}, {"layout.tensor", "2"}, {"train.replica_check_every", "2"}});
  const Worlds worlds = complete_worlds({2, 2});
  const std::vector<Ending> endings = on_each(worlds, [&](size_t i) {
    OpenEngine::Options options;
    options.world = worlds[i].get();
    OpenEngine engine(config, options);
    Metrics metrics;
    step_on(engine, 1, &metrics);
    if (i == 1) {
      char* const place = address_of(engine.rank(0), {"final_norm.bias", kParam, 2});
      *place = static_cast<char>(*place ^ 4);
    }
    step_on(engine, 1, &metrics);
  });
  for (const Ending& ending : endings) {
    INFO(ending.error.message());
    CHECK(ending.word == "replica_diverged");
    CHECK(ending.error.rank() == 2);
    CHECK(has(ending.error.message(), "tensor=final_norm.bias kind=param step=2"));
    CHECK(ending.error.message() == endings[0].error.message());
  }
}

}  // namespace plait::test

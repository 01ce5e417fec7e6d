// What each rank of a tensor group holds of each logical tensor, and its initial weights.
#include "engine/model/shards.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/model/logical_tensors.h"
#include "engine/model/stage.h"
#include "kernels/base/error.h"
#include "tests/engine/model/initial_weights.h"
#include "tests/engine/tensor_parallel/parallel_rig.h"

using namespace plait;
using namespace plait::test;

namespace {

constexpr uint64_t kSeed = 77;

ModelConfig small_model(FamilyChoice family) {
  ModelConfig m;
  m.family = family;
  m.layers = 2;
  m.hidden = 10;
  m.heads = 8;
  m.key_value_heads = family == FamilyChoice::kLlama ? 2 : 8;
  m.head_size = 4;
  m.feed_forward = 12;
  m.vocab_size = 300;
  m.sequence_length = 5;
  m.tied = family == FamilyChoice::kGpt2;
  m.norm_epsilon = 1e-5;
  m.rope_base = 10000;
  m.initial_std = 0.02;
  return m;
}

TensorGroup group_of(int64_t size, int64_t index, bool is_sequence_parallel = false) {
  TensorGroup group;
  group.size = size;
  group.index = index;
  group.is_sequence_parallel = is_sequence_parallel;
  return group;
}

/// One rank's stage. It makes no pass, so it needs no communicator.
class RankStage {
 public:
  RankStage(const ModelConfig& model, const TensorGroup& group) {
    DeviceOptions device_options;
    device_options.threads = 1;
    device_ = make_device(device_options);
    StageOptions options;
    options.model.model = model;
    options.layers = model.layers;
    options.max_rows = 8;
    options.tensor = group;
    stage_ = std::make_unique<Stage>(options, *device_);
  }
  const Stage& operator*() const { return *stage_; }
  const Stage* operator->() const { return stage_.get(); }
  Device& device() { return *device_; }

 private:
  std::unique_ptr<Device> device_;
  std::unique_ptr<Stage> stage_;
};

/// Initial weights of all segments of a rank, held as plain copies.
std::vector<HeldSegment> initial_segments(RankStage& stage) {
  std::vector<HeldSegment> out;
  for (const auto& unit : stage->units()) {
    std::vector<float> master = initial_weights(stage.device(), *unit, kSeed);
    for (const auto& parameter : unit->parameters()) {
      for (const Segment& segment : parameter->segments) {
        const auto [first, count] = parameter->range(segment);
        const auto begin = master.begin() + parameter->offset + first;
        HeldSegment held{segment, {begin, begin + count}};
        held.segment.is_partial = false;
        std::fill(begin, begin + count, 0.0f);
        out.push_back(std::move(held));
      }
    }
    CHECK(master == std::vector<float>(master.size()));  // what no segment covers is zero
  }
  return out;
}

LogicalValues initial_values(const ModelConfig& model, int64_t size, int64_t lanes = 1) {
  std::vector<std::vector<HeldSegment>> ranks;
  for (int64_t index = 0; index < size; ++index) {
    TensorGroup group = group_of(size, index);
    group.lanes = lanes;
    RankStage stage(model, group);
    ranks.push_back(initial_segments(stage));
  }
  LogicalValues out;
  CHECK(assemble(ranks, &out) == "");
  return out;
}

/// The only segment with this name.
const Segment& find(const Stage& stage, const std::string& name) {
  for (const auto& unit : stage.units()) {
    for (const auto& parameter : unit->parameters()) {
      for (const Segment& segment : parameter->segments) {
        if (segment.name == name) return segment;
      }
    }
  }
  throw Error("invariant", "no segment has this name").with("name", name);
}

}  // namespace

TEST_CASE("traps 16, 19: shards start from the bits of the whole", "[shards]") {
  for (const FamilyChoice family : {FamilyChoice::kGpt2, FamilyChoice::kLlama}) {
    const ModelConfig model = small_model(family);
    const LogicalValues want = initial_values(model, 1);
    for (const LogicalTensor& tensor : logical_tensors(model)) {
      INFO(tensor.name);
      REQUIRE(want.count(tensor.name) == 1);
      CHECK(static_cast<int64_t>(want.at(tensor.name).size()) == tensor.shape.elements());
    }
    for (const auto& [size, lanes] : {std::pair<int64_t, int64_t>{2, 1}, {4, 1}, {1, 2}}) {
      const LogicalValues got = initial_values(model, size, lanes);
      CHECK(got.size() == want.size());
      for (const auto& [name, values] : want) {
        INFO(name << " on " << size << " ranks in " << lanes << " lanes");
        CHECK(same_bits(got.at(name), values));
      }
    }
  }
}

TEST_CASE("slices of a unit are drawn alone", "[shards]") {
  for (const FamilyChoice family : {FamilyChoice::kGpt2, FamilyChoice::kLlama}) {
    RankStage stage(small_model(family), group_of(2, 1));
    for (const auto& unit : stage->units()) {
      const std::vector<float> whole = initial_weights(stage.device(), *unit, kSeed);
      for (const int64_t step : {int64_t{1}, int64_t{7}, int64_t{64}, unit->elements() / 2}) {
        std::vector<float> slices(whole.size(), NAN);
        for (int64_t first = 0; first < unit->elements(); first += step) {
          const int64_t count = std::min(step, unit->elements() - first);
          run_measured(stage.device(), [&](OpContext& context) {
            fill_initial_weights(context, *unit, kSeed, first, count, slices.data() + first);
          });
        }
        INFO(unit->name() << " by " << step);
        CHECK(same_bits(slices, whole));
      }
    }
  }
}

TEST_CASE("trap 6: who holds what, and what is partial", "[shards]") {
  const ModelConfig gpt2 = small_model(FamilyChoice::kGpt2);
  for (const bool is_sequence_parallel : {false, true}) {
    const RankStage stage(gpt2, group_of(4, 2, is_sequence_parallel));
    for (const char* name : {"embedding.position.weight", "layers.1.attention_norm.weight",
                             "layers.1.attention_norm.bias", "layers.1.attention.output.bias",
                             "layers.1.feed_forward.down.bias", "layers.0.feed_forward_norm.weight",
                             "final_norm.weight", "final_norm.bias"}) {
      const Segment& segment = find(*stage, name);
      INFO(name);
      CHECK(segment.is_partial == is_sequence_parallel);
      CHECK(segment.first_holder == 0);
      CHECK(segment.holders == 4);
      CHECK(segment.box == Box::whole(segment.shape));
    }
    for (const char* name :
         {"embedding.token.weight", "layers.1.attention.query.weight",
          "layers.1.attention.key.bias", "layers.1.attention.output.weight",
          "layers.1.feed_forward.up.bias", "layers.1.feed_forward.down.weight"}) {
      const Segment& segment = find(*stage, name);
      INFO(name);
      CHECK(!segment.is_partial);
      CHECK(segment.first_holder == 2);
      CHECK(segment.holders == 1);
    }
  }
}

TEST_CASE("trap 17: ranks that share a key/value head", "[shards]") {
  const ModelConfig llama = small_model(FamilyChoice::kLlama);  // two heads of size 4
  for (int64_t index = 0; index < 4; ++index) {
    const RankStage stage(llama, group_of(4, index));
    const Segment& key = find(*stage, "layers.0.attention.key.weight");
    CHECK(key.box.first[0] == index / 2 * 4);
    CHECK(key.box.size[0] == 4);
    CHECK(key.first_row == 2 * 4);
    CHECK(key.is_partial);
    CHECK(key.first_holder == index / 2 * 2);
    CHECK(key.holders == 2);
    const Segment& value = find(*stage, "layers.0.attention.value.weight");
    CHECK(value.first_row == 3 * 4);
    CHECK(find(*stage, "layers.0.attention.query.weight").box.first[0] == index * 8);
  }
  const RankStage two(llama, group_of(2, 1));
  CHECK(!find(*two, "layers.0.attention.key.weight").is_partial);
  CHECK(find(*two, "layers.0.attention.key.weight").first_holder == 1);
}

TEST_CASE("vocabularies are cut with their padding at the end", "[shards]") {
  const ModelConfig model = small_model(FamilyChoice::kLlama);  // 300 ids, 512 with padding
  const int64_t real[] = {128, 128, 44, 0};
  for (int64_t index = 0; index < 4; ++index) {
    const RankStage stage(model, group_of(4, index));
    CHECK(stage->padded_vocabulary() == 512);
    CHECK(stage->vocabulary_shard_width() == 128);
    CHECK(stage->first_id() == index * 128);
    for (const char* name : {"embedding.token.weight", "head.weight"}) {
      const Segment& segment = find(*stage, name);
      CHECK(segment.box.size[0] == real[index]);
      CHECK(segment.box.first[0] == std::min<int64_t>(index * 128, 300));
    }
  }
}

TEST_CASE("P7: a split that does not come out even is refused", "[shards]") {
  const auto make = [](const std::function<void(ModelConfig*)>& change, int64_t size) {
    ModelConfig model = small_model(FamilyChoice::kLlama);
    change(&model);
    const Shards shards(model, group_of(size, 0));
  };
  CHECK_NOTHROW(make([](ModelConfig*) {}, 4));
  CHECK_THROWS_AS(make([](ModelConfig* m) { m->heads = 6; }, 4), Error);
  CHECK_THROWS_AS(make([](ModelConfig* m) { m->feed_forward = 13; }, 4), Error);
  CHECK_THROWS_AS(make([](ModelConfig* m) { m->key_value_heads = 3; }, 2), Error);
}

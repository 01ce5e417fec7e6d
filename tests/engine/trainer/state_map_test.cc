// The boxes of ranks: together they are the model once, and each names the values that it says.
#include "engine/trainer/state_map.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>
#include <vector>

#include "checkpoint/store/boxes.h"
#include "kernels/base/error.h"
#include "tests/engine/trainer/open_engine.h"

namespace plait::test {
namespace {

using StateKey = std::pair<int64_t, StateKind>;

void step_once(Engine& engine) {
  const BatchSpec spec = engine.batch_spec();
  const auto rows = random_rows(spec.global_rows, spec.sequence_length + 1, spec.vocab_size, 7);
  step(engine, token_batch(rows, spec.global_rows));
}

TensorKind tensor_kind(StateKind kind) { return static_cast<TensorKind>(kind); }

/// Every piece of every rank holds the elements that its box names; owned ones are the whole once.
void check_pieces(OpenEngine& engine) {
  const SortedTensors sorted = sorted_tensors(engine.rank(0).tensors());
  std::map<StateKey, std::vector<float>> wholes;
  std::map<StateKey, std::vector<Box>> owned;
  for (int64_t local = 0; local < engine.size(); ++local) {
    int64_t last_tensor = 0;
    for (const StatePiece& piece : state_pieces(engine.rank(local), sorted, false)) {
      REQUIRE(piece.tensor >= last_tensor);
      last_tensor = piece.tensor;
      const SavedTensor& tensor = sorted.tensors[static_cast<size_t>(piece.tensor)];
      const StateKey key{piece.tensor, piece.kind};
      if (wholes.count(key) == 0) wholes[key] = read(*engine, tensor.name, tensor_kind(piece.kind));
      REQUIRE(piece.box.elements() > 0);
      std::vector<float> want(static_cast<size_t>(piece.box.elements()));
      copy_part(piece.box, Box::whole(tensor.shape), wholes[key].data(), piece.box, want.data(),
                sizeof(float));
      INFO(tensor.name << " " << state_kind_name(piece.kind) << " " << box_text(piece.box)
                       << " on rank " << local);
      REQUIRE(std::memcmp(want.data(), piece.data, want.size() * sizeof(float)) == 0);
      if (piece.is_owned) owned[key].push_back(piece.box);
    }
  }
  CHECK(owned.size() == 3 * sorted.tensors.size());
  for (const auto& [key, boxes] : owned) {
    const SavedTensor& tensor = sorted.tensors[static_cast<size_t>(key.first)];
    INFO(tensor.name << " " << state_kind_name(key.second));
    CHECK_FALSE(find_fault(Box::whole(tensor.shape), boxes).has_value());
  }
}

}  // namespace

TEST_CASE("the pieces of all ranks are the state once, in every layout", "[state_map]") {
  const Keys llama = {{"model.family", "llama"},     {"model.key_value_heads", "2"},
                      {"model.feed_forward", "48"},  {"model.tied", "false"},
                      {"layout.tensor", "4"},        {"layout.sequence_parallel", "true"},
                      {"precision.compute", "bf16"}, {"layout.data", "2"},
                      {"layout.zero", "1"}};
  const std::vector<Keys> layouts = {
      {},
      {{"layout.data", "2"}},
      {{"layout.data", "2"}, {"layout.zero", "1"}, {"precision.compute", "bf16"}},
      {{"layout.data", "4"}, {"layout.zero", "2"}},
      {{"layout.data", "4"}, {"layout.zero", "3"}, {"precision.compute", "bf16"}},
      {{"layout.tensor", "2"}, {"layout.data", "2"}, {"layout.sequence_parallel", "true"}},
      {{"layout.pipeline", "2"}, {"layout.data", "2"}, {"layout.zero", "3"}},
      {{"layout.tensor", "2"}, {"layout.pipeline", "2"}, {"precision.compute", "fp16"}},
      {{"model.layers", "4"},
       {"layout.pipeline", "2"},
       {"layout.interleave", "2"},
       {"layout.schedule", "interleaved"},
       {"layout.data", "2"}},
      llama};
  for (size_t i = 0; i < layouts.size(); ++i) {
    INFO("layout " << i);
    OpenEngine engine(tiny_config(layouts[i]));
    step_once(*engine);  // moments that are not zero
    check_pieces(engine);
  }
}

TEST_CASE("data coordinates that hold the same share its writing out", "[state_map]") {
  OpenEngine engine(tiny_config({{"layout.data", "2"}}));
  const SortedTensors sorted = sorted_tensors(engine.rank(0).tensors());
  int64_t largest = 0;
  std::vector<int64_t> loads;
  for (int64_t local = 0; local < 2; ++local) {
    int64_t& load = loads.emplace_back(0);
    for (const StatePiece& piece : state_pieces(engine.rank(local), sorted, false)) {
      largest = std::max(largest, piece.box.elements());
      load += piece.is_owned ? piece.box.elements() : 0;
    }
  }
  CHECK(loads[0] > 0);
  CHECK(loads[1] > 0);
  CHECK(std::abs(loads[0] - loads[1]) <= largest);
}

TEST_CASE("weights alone have no moments, and the kind in which a run keeps them", "[state_map]") {
  for (const char* compute : {"fp32", "bf16"}) {
    OpenEngine engine(tiny_config({{"precision.compute", compute}}));
    const SortedTensors sorted = sorted_tensors(engine.rank(0).tensors());
    const auto pieces = state_pieces(engine.rank(0), sorted, true);
    CHECK(pieces.size() == sorted.tensors.size());
    const StateKind want = std::string(compute) == "fp32" ? StateKind::kParam : StateKind::kMaster;
    for (const StatePiece& piece : pieces) CHECK(piece.kind == want);
  }
}

TEST_CASE("a weight that is not its rounded master is found and named", "[state_map]") {
  for (const char* compute : {"bf16", "fp16"}) {
    OpenEngine engine(tiny_config({{"precision.compute", compute}, {"layout.tensor", "2"}}));
    step_once(*engine);
    for (int64_t local = 0; local < 2; ++local) check_rounding(engine.rank(local));
    Rank& rank = engine.rank(1);
    for (size_t i = 0; i < rank.tensors().size(); ++i) {
      if (rank.tensors()[i].name != "layers.1.feed_forward.up.weight") continue;
      const TensorPlace& place = rank.places(static_cast<int64_t>(i))[0];
      const auto [first, count] = place.parameter->range(*place.segment);
      auto* weights = rank.optimizer().weights(place.chunk, place.unit).as<BFloat16>();
      uint16_t& bits = weights[place.parameter->offset + first + count - 1].bits;
      bits = static_cast<uint16_t>(bits ^ 1u);
      check_rounding(engine.rank(0));
      try {
        check_rounding(rank);
        FAIL("nothing was found");
      } catch (const Error& error) {
        CHECK(error.word() == "invariant");
        CHECK(error.rank() == 1);
        CHECK(error.message().find("tensor=layers.1.feed_forward.up.weight") != std::string::npos);
      }
      bits = static_cast<uint16_t>(bits ^ 1u);
    }
  }
}

}  // namespace plait::test

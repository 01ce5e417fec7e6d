// Bytes that a rank keeps and bytes that it sends, against formulas, and the windows of stages 2
// and 3.
#include <algorithm>
#include <catch2/catch.hpp>
#include <mutex>

#include "kernels/base/error.h"
#include "tests/engine/optimizer/toy_world.h"

using namespace plait;
using namespace plait::test;

namespace {

/// Elements of a rank's units.
struct Sizes {
  int64_t all = 0, second = 0, largest = 0, units = 0, uses = 0;
};

Sizes sizes(const ToyRank& rank) {
  Sizes sizes;
  for (int64_t chunk = 0; chunk < rank.chunk_count(); ++chunk) {
    for (const auto& unit : rank.units(chunk)) {
      sizes.all += unit->elements();
      sizes.second += unit->has_second_gradient() ? unit->elements() : 0;
      sizes.largest = std::max(sizes.largest, unit->elements());
      ++sizes.units;
      sizes.uses += unit->has_second_gradient() ? 2 : 1;
    }
  }
  return sizes;
}

int64_t sent(ToyRank& rank, Axis axis, CollectiveKind kind) {
  return rank.group(axis).traffic(kind).bytes;
}

constexpr CollectiveKind kAllKinds[] = {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter,
                                        CollectiveKind::kAllGather, CollectiveKind::kBroadcast,
                                        CollectiveKind::kBarrier,   CollectiveKind::kSendReceive};

int64_t sent(ToyRank& rank) {
  int64_t bytes = 0;
  for (Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
    for (CollectiveKind kind : kAllKinds) bytes += sent(rank, axis, kind);
  }
  return bytes;
}

}  // namespace

TEST_CASE("a rank keeps the bytes of the formulas", "[memory]") {
  WorldCase world;
  world.zero = GENERATE(0, 1, 2, 3);
  world.toy.dtype = GENERATE(DType::kFloat32, DType::kBFloat16);
  world.toy.tensor = 2;
  world.toy.pipeline = GENERATE(1, 2);
  const int64_t d = GENERATE(1, 3);
  world.toy.data = d;
  std::mutex mutex;
  run_world(world, [&](ToyRank& rank) {
    const Sizes n = sizes(rank);
    const int64_t z = dtype_size(world.toy.dtype), zero = world.zero;
    // fp32: master = weight, so 8 of state; 16-bit: 12.
    const int64_t state = z == 4 ? 8 : 12;
    const int64_t weights = z * n.all / (zero == 3 ? d : 1);
    const int64_t gradients = 4 * (n.all + n.second) / (zero >= 2 ? d : 1);
    int64_t windows = 0;
    if (d > 1 && zero >= 2) windows += std::min<int64_t>(2, n.uses) * 4 * n.largest;
    if (d > 1 && zero == 3) windows += std::min<int64_t>(2, n.units) * z * n.largest;
    const MemoryLedger& ledger = rank.device().ledger();
    const std::lock_guard<std::mutex> lock(mutex);
    CHECK(ledger.bytes(MemoryCategory::kWeights) == weights);
    CHECK(ledger.bytes(MemoryCategory::kGradients) == gradients);
    CHECK(ledger.bytes(MemoryCategory::kOptimizer) == state * n.all / (zero >= 1 ? d : 1));
    CHECK(ledger.bytes(MemoryCategory::kCommunication) == windows);
    CHECK(ledger.total() == weights + gradients + state * n.all / (zero >= 1 ? d : 1) + windows);
  });
}

TEST_CASE("D7: a step sends the bytes of the formulas on the data axis", "[memory]") {
  WorldCase world;
  world.zero = GENERATE(0, 1, 2, 3);
  world.toy.dtype = GENERATE(DType::kFloat32, DType::kBFloat16);
  world.toy.pipeline = 2;
  const int64_t m = GENERATE(1, 3), d = GENERATE(2, 3);
  world.micro_batches = m;
  world.toy.data = d;
  const auto tensors = static_cast<int64_t>(toy_tensors(world.toy).size());
  std::mutex mutex;
  run_world(world, [&](ToyRank& rank) {
    rank.measure();
    rank.load();
    const int64_t scattered = sent(rank, Axis::kData, CollectiveKind::kReduceScatter);
    const int64_t gathered = sent(rank, Axis::kData, CollectiveKind::kAllGather);
    rank.gather_gradients(0);
    rank.apply();
    const Sizes n = sizes(rank);
    const int64_t z = dtype_size(world.toy.dtype), px = n.all / d * (d - 1);
    const int64_t scatter = world.zero < 2 ? 4 * px : 4 * px * m;
    const int64_t gather[] = {4 * px, z * px, z * px, 2 * z * px * m};
    const int64_t sums = 8 * (3 + tensors) * (d - 1);  // losses, targets, stop, squares
    const std::lock_guard<std::mutex> lock(mutex);
    CHECK(sent(rank, Axis::kData, CollectiveKind::kReduceScatter) - scattered == scatter);
    CHECK(sent(rank, Axis::kData, CollectiveKind::kAllGather) - gathered ==
          gather[world.zero] + sums);
    CHECK(sent(rank, Axis::kData, CollectiveKind::kAllReduce) == 0);
    CHECK(sent(rank, Axis::kData, CollectiveKind::kSendReceive) == 0);
    // The ends swap their slices of the token embedding, once a step.
    CHECK(sent(rank, Axis::kPipeline, CollectiveKind::kSendReceive) ==
          4 * rank.units(0)[0]->elements() / d);
  });
}

TEST_CASE("a measuring pass sends nothing and learns what a step needs", "[memory]") {
  WorldCase world;
  world.zero = GENERATE(0, 1, 2, 3);
  world.toy.tensor = 2;
  world.toy.data = 2;
  world.toy.pipeline = 2;
  world.toy.is_sequence_parallel = true;
  std::mutex mutex;
  run_world(world, [&](ToyRank& rank) {
    rank.measure();
    {
      const std::lock_guard<std::mutex> lock(mutex);
      CHECK(sent(rank) == 0);
      CHECK(rank.optimizer().updates(0) == 0);
    }
    rank.load();
    const int64_t before = rank.device().ledger().total();
    rank.train();  // the workspace throws when it is too small
    const std::lock_guard<std::mutex> lock(mutex);
    CHECK(rank.device().ledger().peak() == before);
  });
}

TEST_CASE("two units have windows at a time, a third is refused", "[memory]") {
  WorldCase world;
  world.zero = 3;
  world.toy.data = 2;
  std::vector<std::string> words[2];
  run_world(world, [&](ToyRank& rank) {
    rank.measure();
    rank.load();
    UnitHooks& hooks = rank.optimizer().hooks(0);
    const auto& units = rank.units(0);
    OpContext& context = rank.context();
    auto& own = words[rank.rank()];
    const auto attempt = [&](const std::function<void()>& call) {
      try {
        call();
        own.push_back("");
      } catch (const Error& error) {
        own.push_back(error.word());
      }
    };
    const auto gradients = [&](Unit& unit) {
      hooks.gradients_begin(context, unit, GradientUse::kFirst, GradientMode::kAccumulate);
    };
    attempt([&] { check(hooks.weights_needed(context, *units[0]), "brought in"); });
    attempt([&] { check(!hooks.weights_needed(context, *units[0]), "there"); });
    attempt([&] { check(hooks.weights_needed(context, *units[1]), "brought in"); });
    attempt([&] { check(units[0]->weights().data != units[1]->weights().data, "apart"); });
    attempt([&] { hooks.weights_needed(context, *units[2]); });
    hooks.weights_done(*units[0]);
    attempt([&] { hooks.weights_needed(context, *units[3]); });
    hooks.weights_done(*units[0]);
    attempt([&] { check(hooks.weights_needed(context, *units[4]), "brought in"); });
    attempt([&] { gradients(*units[0]); });
    attempt([&] { gradients(*units[0]); });
    attempt([&] { gradients(*units[1]); });
    attempt([&] { gradients(*units[2]); });
    attempt([&] { hooks.gradients_end(context, *units[3], GradientUse::kFirst); });
  });
  const std::string bad = "invariant";
  const std::vector<std::string> want{"", "", "", "", bad, bad, "", "", bad, "", bad, bad};
  CHECK(words[0] == want);
  CHECK(words[1] == want);
}

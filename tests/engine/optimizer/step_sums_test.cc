// What closes a step: orders of sums, who counts, and what all ranks learn.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <mutex>

#include "tests/engine/optimizer/toy_world.h"

using namespace plait;
using namespace plait::test;

namespace {

/// A value from each rank.
template <class T>
using PerRank = std::vector<T>;

WorldCase layout(int64_t tensor, int64_t pipeline, int64_t data) {
  WorldCase world;
  world.toy.tensor = tensor;
  world.toy.pipeline = pipeline;
  world.toy.data = data;
  return world;
}

/// One unit of two vectors over four tensor coordinates: "all" is partial on all of them, "pair" on
/// coordinates {0, 1} and {2, 3}, which hold two halves of the logical tensor.
class SharedUnit {
 public:
  explicit SharedUnit(ToyRank& rank) : rank_(rank), unit_("shared") {
    const int64_t tau = rank.at().tensor;
    Segment all = whole_segment("all", {3}, 0, {});
    all.holders = 4;
    all.is_partial = true;
    Segment pair = whole_segment("pair", {10}, 0, {});
    pair.first_holder = tau / 2 * 2;
    pair.box.first[0] = tau / 2 * 5;
    pair.box.size[0] = 5;
    pair.holders = 2;
    pair.is_partial = true;
    unit_.add({3}, {all});
    unit_.add({5}, {pair});
    unit_.seal(DType::kFloat32, 1);
    OptimizerOptions options;
    options.zero = 1;
    options.tensors = {"all", "pair"};
    options.decays = {false, false};
    optimizer_ = std::make_unique<Optimizer>(
        options,
        StepGroups{&rank.group(Axis::kTensor), &rank.group(Axis::kPipeline),
                   &rank.group(Axis::kData)},
        std::vector<std::vector<Unit*>>{{&unit_}}, rank.device());
  }

  GlobalSums close(float all, float pair) {
    std::fill_n(gradient(0), 3, all);
    std::fill_n(gradient(1), 5, pair);
    return optimizer_->close(rank_.context(), {});
  }
  float* gradient(size_t parameter) { return unit_.parameters()[parameter]->gradient.as<float>(); }

 private:
  ToyRank& rank_;
  Unit unit_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace

TEST_CASE("traps 9, 17: terms of a shared segment add by ascending holder, on all holders",
          "[step_sums]") {
  constexpr float kTerms[] = {1e8f, 1.0f, -1e8f, 1.0f};
  PerRank<std::vector<float>> got(4);
  PerRank<GlobalSums> sums(4);
  run_world(layout(4, 1, 1), [&](ToyRank& rank) {
    const int64_t tau = rank.at().tensor;
    SharedUnit unit(rank);
    rank.measure();
    sums[static_cast<size_t>(tau)] = unit.close(kTerms[tau], static_cast<float>(1 << tau));
    got[static_cast<size_t>(tau)] = {unit.gradient(0)[0], unit.gradient(0)[2], unit.gradient(1)[0],
                                     unit.gradient(1)[4]};
  });
  for (int64_t tau = 0; tau < 4; ++tau) {
    const float pair = tau < 2 ? 3.0f : 12.0f;
    CHECK(got[static_cast<size_t>(tau)] == std::vector<float>{1.0f, 1.0f, pair, pair});
    CHECK(sums[static_cast<size_t>(tau)].squares == 3.0 + 5 * (9.0 + 144.0));
  }
}

TEST_CASE("losses add by ascending data coordinate, once for each tensor group", "[step_sums]") {
  constexpr double kLosses[] = {1e16, 1.0, -1e16};
  PerRank<GlobalSums> sums(12);
  run_world(layout(2, 2, 3), [&](ToyRank& rank) {
    LocalSums own;
    if (rank.at().pipeline == 1) {
      own.loss = kLosses[rank.at().data] + (rank.at().tensor == 1 ? 77.0 : 0.0);
      own.targets = 10 + rank.at().data;
    }
    own.stop = rank.rank() == 7 ? 1 : 0;
    sums[static_cast<size_t>(rank.rank())] = rank.optimizer().add_up(own);
  });
  for (const GlobalSums& sum : sums) {
    CHECK(sum.loss == 0.0);
    CHECK(sum.targets == 33);
    CHECK(sum.stop == 1);
    CHECK(sum.squares == 0.0);
    CHECK(sum.first_nonfinite == -1);
  }
}

TEST_CASE("N1 of faults: a value that is not finite is found by all, in its tensor",
          "[step_sums]") {
  WorldCase world = layout(2, 2, 2);
  world.zero = GENERATE(0, 1, 2, 3);
  world.micro_batches = 2;
  const float bad =
      GENERATE(std::numeric_limits<float>::infinity(), std::numeric_limits<float>::quiet_NaN());
  const std::vector<ToyTensor> tensors = toy_tensors(world.toy);
  const auto last = static_cast<int64_t>(tensors.size()) - 1;
  // The head's gradient of the tied embedding, a fused and shared tensor, the last of all.
  for (int64_t culprit : {int64_t{0}, int64_t{4}, last}) {
    const int64_t element = tensors[static_cast<size_t>(culprit)].shape.elements() - 1;
    PerRank<GlobalSums> sums(8);
    run_world(world, [&](ToyRank& rank) {
      rank.set_gradient([&](int64_t tensor, int64_t at, const GradientKey& key) {
        const bool is_bad = tensor == culprit && at == element && key.micro == 0 && key.data == 1 &&
                            key.use == (culprit == 0 ? 1 : 0);
        return is_bad ? bad : gradient_value(false, tensor, at, key);
      });
      rank.measure();
      rank.load();
      sums[static_cast<size_t>(rank.rank())] = rank.gather_gradients(0);
    });
    for (const GlobalSums& sum : sums) {
      CHECK_FALSE(std::isfinite(sum.squares));
      CHECK(sum.first_nonfinite == culprit);
    }
  }
}

TEST_CASE("trap 39: a step that is not applied leaves no trace", "[step_sums]") {
  WorldCase world = layout(1, 2, 2);
  world.zero = GENERATE(0, 1, 2, 3);
  world.micro_batches = 2;
  PerRank<std::vector<std::vector<float>>> with(4), without(4);
  PerRank<int64_t> updates(4);
  for (bool has_skipped : {true, false}) {
    run_world(world, [&](ToyRank& rank) {
      rank.measure();
      rank.load();
      rank.gather_gradients(0);
      rank.apply();
      if (has_skipped) rank.gather_gradients(1);
      rank.gather_gradients(2);
      rank.apply();
      const auto index = static_cast<size_t>(rank.rank());
      (has_skipped ? with : without)[index] = rank.whole_weights();
      updates[index] = rank.optimizer().updates(0);
    });
  }
  for (size_t rank = 0; rank < 4; ++rank) {
    CHECK(same_bits(with[rank], without[rank]));
    CHECK(updates[rank] == 2);
  }
}

TEST_CASE("trap 33: a unit without gradients in a step counts as zero in stages 2 and 3",
          "[step_sums]") {
  WorldCase world = layout(1, 1, 2);
  world.zero = GENERATE(2, 3);
  world.toy.is_exact = true;
  PerRank<GlobalSums> sums(2);
  double want = 0;
  for (double g : summed_gradient(world.toy, 1, 1, 1)) want += g * g;
  run_world(world, [&](ToyRank& rank) {
    rank.measure();
    rank.load();
    rank.gather_gradients(0);
    rank.apply();
    rank.optimizer().begin_step(1);
    Unit& position = *rank.units(0)[1];
    UnitHooks& hooks = rank.optimizer().hooks(0);
    OpContext& context = rank.context();
    hooks.gradients_begin(context, position, GradientUse::kFirst, GradientMode::kOverwrite);
    rank.write(position, GradientUse::kFirst, {1, 0}, GradientMode::kOverwrite);
    hooks.gradients_end(context, position, GradientUse::kFirst);
    sums[static_cast<size_t>(rank.rank())] = rank.optimizer().close(context, {});
  });
  for (const GlobalSums& sum : sums) CHECK(sum.squares == Approx(want).epsilon(1e-12));
}

TEST_CASE("gradients can be read while they accumulate", "[step_sums]") {
  WorldCase world = layout(1, 1, 3);
  world.zero = GENERATE(0, 1, 2, 3);
  world.toy.is_exact = true;
  world.micro_batches = 3;
  std::vector<std::vector<double>> got;
  for (const ToyTensor& tensor : toy_tensors(world.toy)) {
    got.emplace_back(static_cast<size_t>(tensor.shape.elements()), 0.0);
  }
  std::mutex mutex;
  run_world(world, [&](ToyRank& rank) {
    rank.measure();
    rank.load();
    rank.optimizer().begin_step(1);
    for (int64_t micro : {0, 1}) rank.accumulate(5, micro);
    const std::lock_guard<std::mutex> lock(mutex);
    for (size_t i = 0; i < rank.units(0).size(); ++i) {
      const Unit& unit = *rank.units(0)[i];
      const auto number = static_cast<int64_t>(i);
      const UnitRange range = rank.optimizer().gradient_range(0, number);
      CHECK(range.count == unit.elements() / (world.zero < 2 ? 1 : 3));
      for (GradientUse use : {GradientUse::kFirst, GradientUse::kSecond}) {
        const TensorView flat = rank.optimizer().gradient(0, number, use);
        CHECK(flat.is_present() == (use == GradientUse::kFirst || i == 0));
        std::vector<bool> is_padding(static_cast<size_t>(range.count), true);
        for (const auto& parameter : unit.parameters()) {
          if (!flat.is_present()) continue;
          for (const Segment& segment : parameter->segments) {
            auto& sums = got[static_cast<size_t>(rank.tensor_index(segment.name))];
            for_each_element(*parameter, segment, [&](int64_t local, int64_t logical) {
              if (local < range.first || local >= range.first + range.count) return;
              is_padding[static_cast<size_t>(local - range.first)] = false;
              sums[static_cast<size_t>(logical)] += flat.as<float>()[local - range.first];
            });
          }
        }
        if (!flat.is_present()) continue;
        const float* values = flat.as<float>();
        CHECK(std::none_of(
            is_padding.begin(), is_padding.end(),
            [&, at = 0](bool is_padded) mutable { return values[at++] != 0.0f && is_padded; }));
      }
    }
  });
  for (size_t tensor = 0; tensor < got.size(); ++tensor) {
    CHECK(got[tensor] == summed_gradient(world.toy, static_cast<int64_t>(tensor), 5, 2));
  }
}

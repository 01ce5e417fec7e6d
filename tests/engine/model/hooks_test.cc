// The calls that a stage makes to whoever owns its units' memory: their order, and that nothing is
// read or written outside them.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <map>
#include <utility>

#include "engine/model/stage.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/kernels.h"
#include "tests/engine/model/initial_weights.h"

using namespace plait;
using namespace plait::test;

namespace {

constexpr int64_t kBatch = 2, kSequence = 8;

StageOptions small_stage(FamilyChoice family) {
  StageOptions options;
  ModelConfig& m = options.model.model;
  m.family = family;
  m.layers = 2;
  m.hidden = 20;
  m.heads = m.key_value_heads = 4;
  m.head_size = 6;
  m.feed_forward = 28;
  m.vocab_size = 61;
  m.sequence_length = kSequence;
  m.tied = family == FamilyChoice::kGpt2;
  m.norm_epsilon = 1e-5;
  m.rope_base = 10000;
  m.initial_std = 0.2;
  options.model.seed = 3;
  options.model.train.dropout = 0.1;
  options.layers = 2;
  options.max_rows = kBatch * kSequence;
  return options;
}

using Use = std::pair<const Unit*, GradientUse>;

/// Keeps weights and gradients elsewhere: units have them inside brackets alone, each time in other
/// memory, and what they leave is NaN.
class Windows final : public UnitHooks {
 public:
  void keep(Unit& unit, std::vector<float> weights) { kept_[&unit] = std::move(weights); }

  bool weights_needed(OpContext&, Unit& unit) override {
    log("need", unit);
    unit.bind_weights(window(unit, kept_.at(&unit)));
    return true;
  }
  void weights_done(Unit& unit) override {
    log("done", unit);
    poison(unit.weights());
  }
  GradientMode gradients_begin(OpContext&, Unit& unit, GradientUse use,
                               GradientMode mode) override {
    log("begin", unit, use);
    modes_[{&unit, use}] = mode;
    const std::vector<float> nothing(static_cast<size_t>(unit.elements()), NAN);
    if (use == GradientUse::kSecond) {
      unit.bind_second_gradients(window(unit, nothing));
    } else {
      unit.bind_gradients(window(unit, nothing));
    }
    return GradientMode::kOverwrite;
  }
  void gradients_end(OpContext& context, Unit& unit, GradientUse use) override {
    log("end", unit, use);
    const TensorView flat =
        use == GradientUse::kSecond ? unit.second_gradients() : unit.gradients();
    std::vector<float>& sum = sums[{&unit, use}];
    sum.resize(static_cast<size_t>(unit.elements()));
    const bool is_first = modes_.at({&unit, use}) == GradientMode::kOverwrite;
    for (size_t i = 0; i < sum.size() && !context.is_measuring(); ++i) {
      sum[i] = is_first ? flat.as<float>()[i] : sum[i] + flat.as<float>()[i];
    }
    poison(flat);
  }

  std::string take_log() { return std::exchange(log_, {}); }
  std::map<Use, std::vector<float>> sums;

 private:
  void log(const char* call, const Unit& unit) {
    log_ += (log_.empty() ? "" : " ") + std::string(call) + " " + unit.name();
  }
  void log(const char* call, const Unit& unit, GradientUse use) {
    log(call, unit);
    if (use == GradientUse::kSecond) log_ += "(2)";
  }
  TensorView window(const Unit& unit, const std::vector<float>& values) {
    windows_.push_back(values);
    return {windows_.back().data(), DType::kFloat32, {unit.elements()}};
  }
  static void poison(const TensorView& flat) {
    std::fill_n(flat.as<float>(), flat.elements(), NAN);
  }

  std::map<const Unit*, std::vector<float>> kept_;
  std::map<Use, GradientMode> modes_;
  std::deque<std::vector<float>> windows_;
  std::string log_;
};

struct Result {
  double loss = 0;
  std::vector<std::vector<float>> gradients;  // by unit and use, of parameters alone
  std::string forward_log, backward_log;      // of the first micro-batch
};

void append(const Unit& unit, const float* flat, Result* result) {
  result->gradients.emplace_back();
  for (const auto& parameter : unit.parameters()) {
    const float* first = flat + parameter->offset;
    result->gradients.back().insert(result->gradients.back().end(), first,
                                    first + parameter->shape.elements());
  }
}

/// Runs micro-batches through a stage whose units are whole, or (`is_windowed`) come and go.
Result run(StageOptions options, bool is_windowed, int64_t micros) {
  DeviceOptions device_options;
  device_options.threads = 1;
  const std::unique_ptr<Device> device = make_device(device_options);
  Stage stage(options, *device);
  Windows windows;
  std::vector<std::unique_ptr<UnitMemory>> memory;
  for (const auto& unit : stage.units()) {
    std::vector<float> weights = initial_weights(*device, *unit, 3);
    if (!is_windowed) {
      memory.push_back(std::make_unique<UnitMemory>(*unit, *device));
      std::copy(weights.begin(), weights.end(), unit->weights().as<float>());
    }
    windows.keep(*unit, std::move(weights));
  }
  if (is_windowed) stage.set_hooks(windows);
  const std::vector<int32_t> ids = random_ids(micros * options.max_rows, 0, 61, 1);
  const std::vector<int32_t> targets = random_ids(micros * options.max_rows, 0, 61, 2);
  Result result;
  run_measured(*device, [&](OpContext& context) {
    if (context.is_measuring()) stage.prepare(context);
    if (!is_windowed) stage.weights_changed(context);
    result.loss = 0;
    for (int64_t micro = 0; micro < micros; ++micro) {
      Pass pass{context, kBatch, kSequence};
      pass.is_training = true;
      pass.first_sample = micro * kBatch;
      pass.mode = micro == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate;
      const MicroBatch batch{ids.data() + micro * options.max_rows,
                             targets.data() + micro * options.max_rows, 0.125f};
      windows.take_log();
      result.loss += stage.forward(pass, 0, batch).loss;
      if (micro == 0) result.forward_log = windows.take_log();
      if (options.is_split) {
        stage.backward_input(pass, 0, batch);
        stage.backward_weight(pass, 0, batch);
      } else {
        stage.backward(pass, 0, batch);
      }
      if (micro == 0) result.backward_log = windows.take_log();
    }
  });
  for (const auto& unit : stage.units()) {
    if (is_windowed) {
      for (const auto& [use, sum] : windows.sums) {
        if (use.first == unit.get()) append(*unit, sum.data(), &result);
      }
    } else {
      append(*unit, unit->gradients().as<float>(), &result);
      if (unit->has_second_gradient()) {
        append(*unit, unit->second_gradients().as<float>(), &result);
      }
    }
  }
  return result;
}

}  // namespace

TEST_CASE("units may come and go around each use", "[hooks]") {
  for (const FamilyChoice family : {FamilyChoice::kGpt2, FamilyChoice::kLlama}) {
    for (const RecomputeChoice recompute : {RecomputeChoice::kNone, RecomputeChoice::kFull}) {
      for (const int64_t length : {1, 2}) {
        StageOptions options = small_stage(family);
        options.layout.recompute = recompute;
        options.layout.recompute_layers = length;
        INFO((family == FamilyChoice::kGpt2 ? "gpt2" : "llama")
             << ", recompute " << static_cast<int>(recompute) << " by " << length);
        const Result want = run(options, false, 1), got = run(options, true, 1);
        CHECK(std::isfinite(want.loss));
        CHECK(got.loss == want.loss);
        REQUIRE(got.gradients.size() == want.gradients.size());
        for (size_t i = 0; i < want.gradients.size(); ++i) {
          CHECK(same_bits(got.gradients[i], want.gradients[i]));
        }
        const Result want2 = run(options, false, 2), got2 = run(options, true, 2);
        CHECK(got2.loss == want2.loss);
        for (size_t i = 0; i < want2.gradients.size(); ++i) {
          CHECK(relative_difference(got2.gradients[i], want2.gradients[i]) < 1e-6);
        }
      }
    }
  }
}

TEST_CASE("units are used in this order", "[hooks]") {
  StageOptions options = small_stage(FamilyChoice::kGpt2);
  const Result plain = run(options, true, 1);
  CHECK(plain.forward_log ==
        "need embedding.token need embedding.position done embedding.token done embedding.position "
        "need layers.0 done layers.0 need layers.1 done layers.1 need final_norm done final_norm "
        "need embedding.token begin embedding.token(2) end embedding.token(2) "
        "done embedding.token");
  CHECK(plain.backward_log ==
        "need final_norm begin final_norm end final_norm done final_norm "
        "need layers.1 begin layers.1 end layers.1 done layers.1 "
        "need layers.0 begin layers.0 end layers.0 done layers.0 "
        "begin embedding.position end embedding.position "
        "begin embedding.token end embedding.token");
  options.layout.recompute = RecomputeChoice::kFull;
  options.layout.recompute_layers = 2;
  CHECK(run(options, true, 1).backward_log ==
        "need final_norm begin final_norm end final_norm done final_norm "
        "need layers.0 done layers.0 need layers.1 begin layers.1 end layers.1 done layers.1 "
        "need layers.0 begin layers.0 end layers.0 done layers.0 "
        "begin embedding.position end embedding.position "
        "begin embedding.token end embedding.token");
  const Result untied = run(small_stage(FamilyChoice::kLlama), true, 1);
  CHECK(untied.forward_log ==
        "need embedding.token done embedding.token need layers.0 done layers.0 "
        "need layers.1 done layers.1 need final_norm done final_norm "
        "need head begin head end head done head");
}

TEST_CASE("a split stage ends a block's gradients with its weight part", "[hooks]") {
  StageOptions options = small_stage(FamilyChoice::kLlama);
  options.is_split = true;
  class Log final : public UnitHooks {
   public:
    GradientMode gradients_begin(OpContext&, Unit& unit, GradientUse, GradientMode mode) override {
      text += "begin " + unit.name() + " ";
      return mode;
    }
    void gradients_end(OpContext&, Unit& unit, GradientUse) override {
      text += "end " + unit.name() + " ";
    }
    std::string text;
  } log;
  options.hooks = &log;
  run(options, false, 1);
  const std::string once =
      "begin head end head begin final_norm end final_norm begin layers.1 begin layers.0 "
      "begin layers.1 end layers.1 begin layers.0 end layers.0 "
      "begin embedding.token end embedding.token ";
  CHECK(log.text == once + once);  // measured, then run
}

// Logical tensors, units, fused forms and initial weights.
#include <catch2/catch.hpp>
#include <cmath>
#include <map>

#include "engine/model/logical_tensors.h"
#include "engine/model/stage.h"
#include "kernels/base/error.h"
#include "kernels/base/random.h"
#include "tests/engine/model/initial_weights.h"

using namespace plait;

namespace {

ModelConfig gpt2_124m() {
  ModelConfig model;
  model.family = FamilyChoice::kGpt2;
  model.layers = 12;
  model.hidden = 768;
  model.heads = 12;
  model.key_value_heads = 12;
  model.head_size = 64;
  model.feed_forward = 3072;
  model.vocab_size = 50257;
  model.sequence_length = 1024;
  model.tied = true;
  model.norm_epsilon = 1e-5;
  model.initial_std = 0.02;
  return model;
}

int64_t count(const ModelConfig& model) {
  int64_t sum = 0;
  for (const LogicalTensor& tensor : logical_tensors(model)) sum += tensor.shape.elements();
  return sum;
}

StageOptions small_options(FamilyChoice family) {
  StageOptions options;
  ModelConfig& m = options.model.model;
  m = gpt2_124m();
  m.family = family;
  m.layers = 2;
  m.hidden = 48;
  m.heads = 6;
  m.key_value_heads = family == FamilyChoice::kLlama ? 2 : 6;
  m.head_size = 8;
  m.feed_forward = 80;
  m.vocab_size = 65;
  m.sequence_length = 16;
  m.tied = family == FamilyChoice::kGpt2;
  m.rope_base = 10000;
  options.model.seed = 1234;
  options.layers = 2;
  options.max_rows = 32;
  return options;
}

}  // namespace

TEST_CASE("parameter counts of the 124M model", "[model]") {
  ModelConfig model = gpt2_124m();
  CHECK(count(model) == 124439808);
  model.tied = false;
  CHECK(count(model) == 163037184);
  int64_t layer = 0;
  for (const LogicalTensor& tensor : logical_tensors(model)) {
    if (tensor.name.rfind("layers.3.", 0) == 0) layer += tensor.shape.elements();
  }
  CHECK(layer == 7087872);
  CHECK(padded_vocabulary(50257, 1) == 50304);
  CHECK(padded_vocabulary(65, 1) == 128);
  CHECK(padded_vocabulary(65, 4) == 512);
}

TEST_CASE("a model of 7.3e9 parameters counts in 64 bits", "[model]") {
  ModelConfig model = gpt2_124m();
  model.layers = 36;
  model.hidden = 4096;
  model.feed_forward = 16384;
  model.heads = model.key_value_heads = 32;
  model.head_size = 128;
  const int64_t h = 4096;
  CHECK(count(model) == 36 * (12 * h * h + 13 * h) + (50257 + 1024) * h + 2 * h);
}

TEST_CASE("every logical element lies in exactly one segment, padding in none", "[model]") {
  const FamilyChoice family = GENERATE(FamilyChoice::kGpt2, FamilyChoice::kLlama);
  const StageOptions options = small_options(family);
  DeviceOptions device_options;
  device_options.threads = 1;
  const std::unique_ptr<Device> device = make_device(device_options);
  const Stage stage(options, *device);
  std::map<std::string, int64_t> elements;
  for (const auto& unit : stage.units()) {
    CHECK(unit->elements() % 64 == 0);
    int64_t end = 0;
    for (const auto& parameter : unit->parameters()) {
      CHECK(parameter->offset % 64 == 0);
      CHECK(parameter->offset >= end);
      end = parameter->offset + parameter->shape.elements();
      for (const Segment& segment : parameter->segments) {
        elements[segment.name] += segment.box.elements();
      }
    }
    CHECK(end <= unit->elements());
  }
  for (const LogicalTensor& tensor : logical_tensors(options.model.model)) {
    INFO(tensor.name);
    CHECK(elements[tensor.name] == tensor.shape.elements());
    elements.erase(tensor.name);
  }
  CHECK(elements.empty());
}

TEST_CASE("initial weights follow the streams of logical tensors", "[model]") {
  StageOptions options = small_options(FamilyChoice::kLlama);
  DeviceOptions device_options;
  device_options.threads = 2;
  const std::unique_ptr<Device> device = make_device(device_options);
  const Stage stage(options, *device);
  for (const auto& unit : stage.units()) {
    const std::vector<float> master = initial_weights(*device, *unit, 1234);
    for (const auto& parameter : unit->parameters()) {
      for (const Segment& segment : parameter->segments) {
        INFO(segment.name);
        const auto [first, size] = parameter->range(segment);
        std::vector<float> want(static_cast<size_t>(size), 1.0f);
        if (segment.initial.kind == InitialValue::Kind::kNormal) {
          const bool is_residual = segment.name.find("attention.output") != std::string::npos ||
                                   segment.name.find("feed_forward.down") != std::string::npos;
          const double std = is_residual ? 0.02 / std::sqrt(4.0) : 0.02;
          fill_normal(stream_key("init/" + segment.name, 1234), std, 0, size, want.data());
        }
        const float* got = master.data() + parameter->offset + first;
        CHECK(std::vector<float>(got, got + size) == want);
      }
    }
    if (unit->name() == "embedding.token") {
      for (int64_t i = 65 * 48; i < 128 * 48; ++i) CHECK(master[static_cast<size_t>(i)] == 0.0f);
    }
  }
}

TEST_CASE("no two streams share a key", "[model]") {
  CHECK(stream_names(gpt2_124m()).size() == 4 + 12 * 16 + 1 + 12 * 3);
  CHECK_NOTHROW(check_stream_keys(gpt2_124m(), 1234));
}

// Every gradient against central differences of the loss along a direction, for both families, with
// dropout, documents and masked targets.
#include <catch2/catch.hpp>
#include <cmath>

#include "kernels/base/random.h"
#include "tests/support/tiny_model.h"

using namespace plait;
using namespace plait::test;

namespace {

struct Setting {
  const char* name;
  Keys keys;
};

const std::vector<Setting>& settings() {
  static const std::vector<Setting> all = {
      {"gpt2", {}},
      {"gpt2 with dropout", {{"train.dropout", "0.3"}, {"train.attention_dropout", "0.2"}}},
      {"gpt2 untied, odd sizes",
       {{"model.tied", "false"},
        {"model.hidden", "30"},
        {"model.heads", "3"},
        {"model.feed_forward", "37"}}},
      {"llama",
       {{"model.family", "llama"}, {"model.feed_forward", "44"}, {"model.key_value_heads", "2"}}},
      {"llama tied, head size apart",
       {{"model.family", "llama"},
        {"model.tied", "true"},
        {"model.head_size", "6"},
        {"model.key_value_heads", "1"},
        {"train.dropout", "0.1"}}},
  };
  return all;
}

/// The engine's loss on the batch with `name` moved by `distance` along `direction`.
double loss_at(const Config& config, const Batch& batch, const std::string& name,
               const std::vector<float>& start, const std::vector<float>& direction,
               double distance) {
  TestEngine engine(config);
  std::vector<float> moved = start;
  for (size_t i = 0; i < moved.size(); ++i) {
    moved[i] = static_cast<float>(moved[i] + distance * direction[i]);
  }
  write(*engine, name, moved);
  return forward_backward(*engine, batch).loss;
}

}  // namespace

TEST_CASE("gradients equal central differences", "[gradient]") {
  const size_t which = GENERATE(0, 1, 2, 3, 4);
  const Setting& setting = settings()[which];
  Keys keys = setting.keys;
  keys.emplace_back("train.sequence_length", "12");
  keys.emplace_back("threads", "1");
  keys.emplace_back("model.initial_std", "0.2");
  const Config config = tiny_config(keys);
  const std::vector<int32_t> tokens = random_rows(4, 12, 61, 30);
  std::vector<int32_t> targets = random_rows(4, 12, 61, 31);
  std::vector<int32_t> documents(48, 0);
  for (size_t i = 0; i < 48; ++i) {
    if (i % 7 == 0) targets[i] = -1;
    documents[i] = i % 12 >= 5 ? 2 : 0;
  }
  Batch batch = target_batch(tokens, targets, 4);
  batch.documents = {documents.data(), 4, 12};
  TestEngine engine(config);
  forward_backward(*engine, batch);
  for (const std::string& name : tensor_names(*engine)) {
    if (name.find("key.bias") != std::string::npos) continue;  // exactly zero: softmax shifts
    const std::vector<float> start = read(*engine, name, TensorKind::kParam);
    const std::vector<float> gradient = read(*engine, name, TensorKind::kGradient);
    // Along the gradient itself, with a random part so that no component hides.
    std::vector<float> direction(start.size());
    fill_normal(stream_key("test/direction/" + name, 1), 1.0, 0,
                static_cast<int64_t>(direction.size()), direction.data());
    const double size = norm(direction), slope = norm(gradient);
    double along = 0, length = 0;
    for (size_t i = 0; i < direction.size(); ++i) {
      direction[i] = static_cast<float>(direction[i] / size + gradient[i] / slope);
      along += static_cast<double>(direction[i]) * gradient[i];
      length += static_cast<double>(direction[i]) * direction[i];
    }
    const double step = 3e-2 / std::sqrt(length) * std::max(0.2, norm(start) * 0.05);
    const double up = loss_at(config, batch, name, start, direction, step);
    const double down = loss_at(config, batch, name, start, direction, -step);
    INFO(setting.name << " " << name << " " << along << " against " << (up - down) / (2 * step));
    CHECK((up - down) / (2 * step) == Approx(along).epsilon(2e-2).margin(2e-5));
  }
}

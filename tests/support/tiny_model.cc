#include "tests/support/tiny_model.h"

#include <cmath>

#include "kernels/base/error.h"
#include "kernels/base/random.h"
#include "tests/support/local_world.h"

namespace plait::test {

Config tiny_config(const Keys& keys) {
  Config config;
  const Keys base = {{"model.family", "gpt2"},    {"model.layers", "2"},
                     {"model.hidden", "32"},      {"model.heads", "4"},
                     {"model.vocab_size", "61"},  {"model.sequence_length", "16"},
                     {"train.global_batch", "4"}, {"run.steps", "10"},
                     {"optimizer.lr", "1e-3"},    {"threads", "2"}};
  for (const auto& [key, value] : base) config.set(key, value);
  for (const auto& [key, value] : keys) config.set(key, value);
  return config;
}

TestEngine::TestEngine(const Config& config)
    : log_(std::make_unique<Log>(posix_env().clock)), world_(local_world(config)) {
  EngineOptions options;
  options.env = &posix_env();
  options.log = log_.get();
  options.world = world_.get();
  engine_ = Engine::create(config, options, -1);
}

std::vector<int32_t> random_rows(int64_t rows, int64_t columns, int64_t vocabulary, uint64_t seed) {
  const PhiloxKey key = stream_key("test/rows", seed);
  std::vector<int32_t> out;
  for (int64_t i = 0; i < rows * columns; ++i) {
    const uint32_t word = philox(key, {static_cast<uint32_t>(i), 0, 0, 0})[0];
    out.push_back(static_cast<int32_t>(word % static_cast<uint32_t>(vocabulary)));
  }
  return out;
}

Batch token_batch(const std::vector<int32_t>& tokens, int64_t rows) {
  Batch batch;
  batch.tokens = {tokens.data(), rows, static_cast<int64_t>(tokens.size()) / rows};
  return batch;
}

Batch target_batch(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets,
                   int64_t rows) {
  Batch batch = token_batch(tokens, rows);
  batch.targets = {targets.data(), rows, static_cast<int64_t>(targets.size()) / rows};
  return batch;
}

Metrics step(Engine& engine, const Batch& batch) {
  Metrics metrics;
  engine.step(&batch, -1, &metrics);
  return metrics;
}

Metrics forward_backward(Engine& engine, const Batch& batch) {
  Metrics metrics;
  engine.forward_backward(batch, -1, &metrics);
  return metrics;
}

Metrics optimizer_step(Engine& engine) {
  Metrics metrics;
  engine.optimizer_step(-1, &metrics);
  return metrics;
}

Metrics evaluate(Engine& engine, const Batch& batch) {
  Metrics metrics;
  engine.evaluate(&batch, -1, &metrics);
  return metrics;
}

std::vector<float> read(Engine& engine, const std::string& name, TensorKind kind) {
  for (const TensorEntry& entry : engine.tensors()) {
    if (entry.name != name) continue;
    std::vector<float> values(static_cast<size_t>(entry.shape.elements()));
    engine.read_tensor(name, kind, DType::kFloat32, -1, values.data(),
                       static_cast<int64_t>(values.size() * sizeof(float)));
    return values;
  }
  throw Error("argument", "no such tensor").with("tensor", name);
}

void write(Engine& engine, const std::string& name, const std::vector<float>& values) {
  engine.write_tensor(name, TensorKind::kParam, DType::kFloat32, values.data(),
                      static_cast<int64_t>(values.size() * sizeof(float)), -1);
}

std::vector<std::string> tensor_names(Engine& engine) {
  std::vector<std::string> names;
  for (const TensorEntry& entry : engine.tensors()) {
    if (entry.kind == TensorKind::kParam) names.push_back(entry.name);
  }
  return names;
}

std::vector<float> read_all(Engine& engine, TensorKind kind) {
  std::vector<float> all;
  for (const std::string& name : tensor_names(engine)) {
    const std::vector<float> values = read(engine, name, kind);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

double norm(const std::vector<float>& values) {
  double sum = 0;
  for (float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double d = static_cast<double>(a[i]) - b[i];
    sum += d * d;
  }
  return std::sqrt(sum) / std::max(norm(b), 1e-30);
}

}  // namespace plait::test

// Small engines for tests, and steps on batches made here.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/config.h"
#include "engine/trainer/engine.h"

namespace plait::test {

using Keys = std::vector<std::pair<std::string, std::string>>;

/// A GPT-2 of 2 layers × 32, 4 heads, V 61, s 16, batch 4; `keys` are set on top.
Config tiny_config(const Keys& keys = {});

/// An engine on the real Env, all ranks of its layout in this process, with its world and a Log
/// kept alive beside it.
class TestEngine {
 public:
  explicit TestEngine(const Config& config);
  Engine& operator*() { return *engine_; }
  Engine* operator->() { return engine_.get(); }
  World& world() { return *world_; }
  Log& log() { return *log_; }

 private:
  std::unique_ptr<Log> log_;
  std::unique_ptr<World> world_;
  std::unique_ptr<Engine> engine_;
};

/// Host rows [rows, sequence + 1] drawn from `seed`, ids in [0, vocabulary).
std::vector<int32_t> random_rows(int64_t rows, int64_t columns, int64_t vocabulary, uint64_t seed);

/// Borrowing batches.
Batch token_batch(const std::vector<int32_t>& tokens, int64_t rows);
Batch target_batch(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets,
                   int64_t rows);

Metrics step(Engine& engine, const Batch& batch);
Metrics forward_backward(Engine& engine, const Batch& batch);
Metrics optimizer_step(Engine& engine);
Metrics evaluate(Engine& engine, const Batch& batch);

std::vector<float> read(Engine& engine, const std::string& name, TensorKind kind);
void write(Engine& engine, const std::string& name, const std::vector<float>& values);

/// Every tensor of `kind`, one after the other, as raw float32.
std::vector<float> read_all(Engine& engine, TensorKind kind);
/// Logical names, each once.
std::vector<std::string> tensor_names(Engine& engine);

/// 2-norm of a − b over that of b.
double relative_difference(const std::vector<float>& a, const std::vector<float>& b);
double norm(const std::vector<float>& values);

}  // namespace plait::test

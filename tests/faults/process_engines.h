// Engines of several processes in this one: each has a World of its own, and all run at once, each
// call of a process on a thread of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/trainer/engine.h"
#include "tests/engine/comm/world/world_rig.h"

namespace plait::test {

struct ProcessOptions {
  std::string transport = "auto";
  Net* net = nullptr;  ///< null: the system's
  Env* env = nullptr;  ///< of the engines; null: the system's
  ThreadHooks hooks;   ///< of the engines' threads
};

class ProcessEngines {
 public:
  /// Process i drives local_ranks[i] ranks. The world is complete; no engine is there.
  explicit ProcessEngines(const std::vector<int64_t>& local_ranks,
                          const ProcessOptions& options = {});
  ~ProcessEngines();

  size_t size() const { return worlds_.size(); }
  World& world(size_t process) { return *worlds_[process]; }
  Engine& operator[](size_t process) { return *engines_[process]; }
  /// A process that ends without leaving.
  void kill(size_t process);

  /// Every process makes its engine: of one configuration, or of one each.
  std::vector<Ending> create(const Config& config, int64_t timeout_ms = 20'000);
  std::vector<Ending> create(const std::vector<Config>& configs, int64_t timeout_ms = 20'000);
  /// body(process) for each at once.
  std::vector<Ending> each(const std::function<void(size_t process)>& body);

 private:
  ProcessOptions options_;
  Worlds worlds_;
  std::vector<std::unique_ptr<Engine>> engines_;
};

/// Fails the test unless every ending has this word ("": none).
void require_all(const std::vector<Ending>& endings, const std::string& word);

}  // namespace plait::test

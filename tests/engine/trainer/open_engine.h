// Engines whose ranks a test may look into.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/trainer/local_engine.h"
#include "tests/support/local_world.h"
#include "tests/support/tiny_model.h"

namespace plait::test {

/// An engine on all ranks of its layout, or on the local ranks of `world`, with a Log of its own.
class OpenEngine {
 public:
  struct Options {
    World* world = nullptr;  ///< borrowed; null: one of its own
    Env* env = &posix_env();
    ThreadHooks hooks;
  };
  explicit OpenEngine(const Config& config) : OpenEngine(config, Options()) {}
  OpenEngine(const Config& config, const Options& options) {
    if (options.world == nullptr) own_world_ = local_world(config);
    EngineOptions engine;
    engine.env = options.env;
    engine.log = &log_;
    engine.hooks = options.hooks;
    engine.world = options.world != nullptr ? options.world : own_world_.get();
    engine_ = std::make_unique<LocalEngine>(config, engine);
    engine_->start(-1);
  }
  LocalEngine& operator*() { return *engine_; }
  LocalEngine* operator->() { return engine_.get(); }
  int64_t size() { return engine_->ranks().size(); }
  Rank& rank(int64_t local) { return engine_->ranks().rank(local); }
  /// Messages of warnings so far, taken out.
  std::vector<std::string> warnings() {
    std::vector<std::string> texts;
    for (LogRecord record; log_.pop(&record);) {
      if (record.level == LogLevel::kWarning) texts.push_back(record.message);
    }
    return texts;
  }

 private:
  Log log_{posix_env().clock};
  std::unique_ptr<World> own_world_;
  std::unique_ptr<LocalEngine> engine_;
};

}  // namespace plait::test

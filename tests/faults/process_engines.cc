#include "tests/faults/process_engines.h"

#include <catch2/catch.hpp>

namespace plait::test {

ProcessEngines::ProcessEngines(const std::vector<int64_t>& local_ranks,
                               const ProcessOptions& options)
    : options_(options), engines_(local_ranks.size()) {
  if (options_.net == nullptr) options_.net = &posix_net();
  if (options_.env == nullptr) options_.env = &posix_env();
  int64_t world = 0, first = 0;
  for (const int64_t count : local_ranks) world += count;
  std::vector<WorldOptions> all;
  for (const int64_t count : local_ranks) {
    all.push_back(world_options(world, first, count));
    all.back().transport = options_.transport;
    first += count;
  }
  worlds_ = make_worlds(all, *options_.net);
  require_all(join_all(worlds_), "");
}

ProcessEngines::~ProcessEngines() { engines_.clear(); }

void ProcessEngines::kill(size_t process) {
  engines_[process].reset();
  worlds_[process].reset();
}

std::vector<Ending> ProcessEngines::create(const Config& config, int64_t timeout_ms) {
  return create(std::vector<Config>(size(), config), timeout_ms);
}

std::vector<Ending> ProcessEngines::create(const std::vector<Config>& configs, int64_t timeout_ms) {
  return each([&](size_t process) {
    EngineOptions options;
    options.env = options_.env;
    options.world = worlds_[process].get();
    options.hooks = options_.hooks;
    engines_[process] = Engine::create(configs[process], options, timeout_ms);
  });
}

std::vector<Ending> ProcessEngines::each(const std::function<void(size_t process)>& body) {
  return on_each(worlds_, body);
}

void require_all(const std::vector<Ending>& endings, const std::string& word) {
  for (size_t i = 0; i < endings.size(); ++i) {
    INFO("process " << i << ": " << (endings[i].word.empty() ? "" : endings[i].error.message()));
    REQUIRE(endings[i].word == word);
  }
}

}  // namespace plait::test

// Meetings and control channels under simulated faults. A failing seed is printed with the command
// that runs it alone, with a trace.
#include <catch2/catch.hpp>
#include <cstdlib>

#include "tests/engine/comm/world/control_sim.h"
#include "tests/engine/comm/world/rendezvous_sim.h"
#include "tests/support/sanitized.h"

namespace plait::test {
namespace {

constexpr uint64_t kSeeds = kIsSanitized ? 1'000 : 10'000;

/// Runs all seeds, or the one that is asked for with a trace.
template <class Sim>
void run_seeds(const char* test, uint64_t count) {
  if (const char* one = std::getenv("PLAIT_SIM_SEED")) {
    CHECK(Sim(std::strtoull(one, nullptr, 10), true).run() == "");
    return;
  }
  const char* base_text = std::getenv("PLAIT_SIM_BASE");  // a soak run takes other seeds
  const uint64_t base = base_text == nullptr ? 0 : std::strtoull(base_text, nullptr, 10);
  int failures = 0;
  for (uint64_t seed = base; seed < base + count && failures < 5; ++seed) {
    const std::string problem = Sim(seed).run();
    if (problem.empty()) continue;
    ++failures;
    FAIL_CHECK("seed " << seed << ": " << problem << "\n  PLAIT_SIM_SEED=" << seed
                       << " test_world \"" << test << "\"");
  }
  CHECK(failures == 0);
}

}  // namespace

// Faults R5, R11, R12.
TEST_CASE("control channels agree whatever fails", "[simulation]") {
  run_seeds<ControlSim>("control channels agree whatever fails", kSeeds);
}

// Faults R6, R7.
TEST_CASE("processes meet, or all learn why not", "[simulation]") {
  run_seeds<RendezvousSim>("processes meet, or all learn why not", kSeeds / 2);
}

}  // namespace plait::test

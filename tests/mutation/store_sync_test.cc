// Saves of checkpoints without one of their syncs: power losses show it, for each of them.
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "kernels/base/mutation.h"
#include "tests/checkpoint/store_crash_fixture.h"

using namespace plait;
using namespace plait::test;

namespace plait {
Mutation active_mutation = Mutation::kNone;
}

namespace {

constexpr uint64_t kStates = 60;

std::string violation_with(Mutation fault, const CommitOptions& commit) {
  active_mutation = fault;
  SimFiles files = files_for_root();
  CrashWatch watch(files, kStates);
  watch.live({1, 2, 3}, commit);
  active_mutation = Mutation::kNone;
  return watch.violation();
}

}  // namespace

TEST_CASE("each sync of a save is missed when it is left out", "[mutation]") {
  for (const bool is_manifest_last : {false, true}) {
    const CommitOptions commit{false, is_manifest_last};
    CHECK(violation_with(Mutation::kNone, commit) == "");
    for (const Mutation fault :
         {Mutation::kSkipSyncF1, Mutation::kSkipSyncF2, Mutation::kSkipSyncF3,
          Mutation::kSkipSyncF4, Mutation::kSkipSyncF5, Mutation::kSkipSyncF6,
          Mutation::kSkipSyncF7, Mutation::kSkipSyncF8}) {
      const int number = static_cast<int>(fault) - static_cast<int>(Mutation::kSkipSyncF1) + 1;
      const std::string violation = violation_with(fault, commit);
      INFO("F" << number << ", manifest_last " << is_manifest_last);
      CHECK_FALSE(violation.empty());
      std::printf("| F%d left out | %s |\n", number,
                  violation.substr(0, violation.find('\n')).c_str());
    }
  }
}

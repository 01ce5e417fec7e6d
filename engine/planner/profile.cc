#include "engine/planner/profile.h"

#include <string>

#include "kernels/base/error.h"

namespace plait {
namespace {

/// What the published software of 2021 and 2022 has in common.
constexpr Profile published(const char* name) {
  Profile profile;
  profile.name = name;
  profile.has_lanes = false;
  profile.overlaps_backward = false;
  profile.accumulates_in_product = false;
  profile.gradient_bytes = 2;
  profile.reduces_by_scatter = false;
  profile.has_fused_attention = false;
  profile.always_drops = true;
  profile.loss_forward_bytes = profile.loss_backward_bytes = 14;
  profile.optimizer_bytes = 62;
  profile.swaps_tied_slices = false;
  profile.blocks_reductions = false;
  profile.has_zero_bubble = false;
  profile.has_sequence_parallel = false;
  profile.most_zero = 0;
  return profile;
}

/// Megatron-LM as it ran for 2104.04473: transfers block, nothing hides the tensor axis.
constexpr Profile kMegatron2021 = published("megatron-2021");

/// Megatron-LM as it ran for 2205.05198.
constexpr Profile kMegatron2022 = [] {
  Profile profile = published("megatron-2022");
  profile.overlaps_backward = true;
  profile.accumulates_in_product = true;
  profile.has_sequence_parallel = true;
  return profile;
}();

/// DeepSpeed's ZeRO-3 as 2104.04473 measured it: data parallel alone, so that what concerns the
/// other axes has no effect.
constexpr Profile kDeepspeed2021 = [] {
  Profile profile = published("deepspeed-2021");
  profile.reduces_by_scatter = true;
  profile.gather_bytes_per_second = 16e9;
  profile.least_zero = profile.most_zero = 3;
  return profile;
}();

/// This engine: the defaults of the struct, which is where they are explained.
constexpr Profile kPlait = {.name = "plait"};

constexpr const Profile* kProfiles[] = {&kPlait, &kMegatron2021, &kMegatron2022, &kDeepspeed2021};

}  // namespace

const Profile& find_profile(std::string_view name) {
  std::string names;
  for (const Profile* profile : kProfiles) {
    if (profile->name == name) return *profile;
    if (!names.empty()) names += ',';
    names += profile->name;
  }
  throw Error("argument", "no such profile of software")
      .with("key", "planner.profile")
      .with("value", name)
      .with("choices", names)
      .subsystem("engine/planner");
}

}  // namespace plait

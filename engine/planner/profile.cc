#include "engine/planner/profile.h"

#include <string>

#include "kernels/base/error.h"

namespace plait {
namespace {

/// Megatron-LM as it ran for 2104.04473: transfers block, nothing hides the tensor axis.
constexpr Profile kMegatron2021 = {.name = "megatron-2021",
                                   .has_lanes = false,
                                   .overlaps_backward = false,
                                   .accumulates_in_product = false,
                                   .gradient_bytes = 2,
                                   .reduces_by_scatter = false,
                                   .has_fused_attention = false,
                                   .always_drops = true,
                                   .loss_forward_bytes = 14,
                                   .loss_backward_bytes = 14,
                                   .optimizer_bytes = 62,
                                   .gather_bytes_per_second = 0,
                                   .swaps_tied_slices = false,
                                   .blocks_reductions = false,
                                   .has_zero_bubble = false,
                                   .has_sequence_parallel = false,
                                   .most_zero = 0};

/// Megatron-LM as it ran for 2205.05198.
constexpr Profile kMegatron2022 = {.name = "megatron-2022",
                                   .has_lanes = false,
                                   .overlaps_backward = true,
                                   .accumulates_in_product = true,
                                   .gradient_bytes = 2,
                                   .reduces_by_scatter = false,
                                   .has_fused_attention = false,
                                   .always_drops = true,
                                   .loss_forward_bytes = 14,
                                   .loss_backward_bytes = 14,
                                   .optimizer_bytes = 62,
                                   .gather_bytes_per_second = 0,
                                   .swaps_tied_slices = false,
                                   .blocks_reductions = false,
                                   .has_zero_bubble = false,
                                   .most_zero = 0};

/// DeepSpeed's ZeRO-3 as 2104.04473 measured it: data parallel alone, so that what concerns the
/// other axes has no effect.
constexpr Profile kDeepspeed2021 = {.name = "deepspeed-2021",
                                    .has_lanes = false,
                                    .overlaps_backward = false,
                                    .accumulates_in_product = false,
                                    .gradient_bytes = 2,
                                    .reduces_by_scatter = true,
                                    .has_fused_attention = false,
                                    .always_drops = true,
                                    .loss_forward_bytes = 14,
                                    .loss_backward_bytes = 14,
                                    .optimizer_bytes = 62,
                                    .gather_bytes_per_second = 16e9,
                                    .swaps_tied_slices = false,
                                    .blocks_reductions = false,
                                    .has_zero_bubble = false,
                                    .has_sequence_parallel = false,
                                    .least_zero = 3};

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

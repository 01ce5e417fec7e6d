// What differs between the software whose steps are priced.
#pragma once

#include <cstdint>
#include <string_view>

namespace plait {

struct Profile {
  const char* name = "";
  bool has_lanes = true;               ///< transfers between stages run beside computing
  bool overlaps_backward = true;       ///< tensor collectives of backward beside products
  bool accumulates_in_product = true;  ///< weight gradients add inside the product
  int gradient_bytes = 4;              ///< of an exchanged gradient
  bool reduces_by_scatter = true;      ///< stage 0: reduce-scatter + all-gather, else all-reduce
  bool has_fused_attention = true;     ///< no score crosses memory
  bool always_drops = false;           ///< priced with dropout whatever train.dropout says
  double loss_forward_bytes = 12, loss_backward_bytes = 8;  ///< per logit
  double optimizer_bytes = 34;                              ///< per owned parameter
  double gather_bytes_per_second = 0;  ///< of weights, whatever the ranks; 0: as the collectives
  bool swaps_tied_slices = true;       ///< else the tied gradients are all-reduced by both ends
  bool blocks_reductions = true;       ///< ZeRO 0, 1: each at its place; else after all passes
  bool overlaps_reductions = false;    ///< or, from the last backward of a stage on, beside passes
  bool has_zero_bubble = true;         ///< this and the next three: what a search tries
  bool has_sequence_parallel = true;
  int64_t least_zero = 0, most_zero = 3;

  /// Whether this engine runs the steps: its own order of operations, streams and messages.
  bool is_engine() const { return std::string_view(name) == "plait"; }
};

/// Profile of one of the words of planner.profile; throws `argument` for another.
const Profile& find_profile(std::string_view name);

}  // namespace plait

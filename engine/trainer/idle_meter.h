// How idle the ranks of a process are while a pipeline runs, from the events of traced steps.
//
// A part is the passes (forward, backward and its two halves) of one call on all ranks of the
// process: it lasts from the begin of the first to the end of the last of them. A rank is busy
// while it runs a pass and idle for the rest of the part: in waits for boundary tensors and their
// copies, and in reductions and gathers between passes. Waits for peers within a pass are busy
// time. Reductions after the last pass and the optimizer step lie outside. With whole pipelines in
// the process the share of a part is x/(1 + x), x the schedule's bubble as a share of its passes:
// (p − 1)/(m + p − 1) for 1F1B on equal stages. Stages without their neighbours show less.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/pipeline/executor.h"
#include "engine/planner/simulate.h"

namespace plait {

class IdleMeter {
 public:
  /// For so many ranks and virtual stages of the whole model (p·v).
  IdleMeter(int64_t ranks, int64_t stages);

  /// Events of local rank `local` in the part that is open. Allocates nothing.
  void add(int64_t local, std::span<const TraceEvent> events);
  void end_part();

  /// Σ over the parts so far.
  int64_t part_ns() const { return part_ns_; }
  int64_t busy_ns(int64_t local) const { return busy_ns_[static_cast<size_t>(local)]; }
  /// Of all ranks together; 0 before the first part.
  double idle_share() const;
  double idle_share(int64_t local) const;

  /// Whether a pass of every stage was seen: what follows needs that.
  bool has_all_stages() const;
  /// The idle share of the schedule itself when its stages cost what they were measured to cost on
  /// average, and when all cost the same. Messages take no time.
  double simulated_share(const Schedule& schedule) const;
  double even_share(const Schedule& schedule) const;

 private:
  struct Cost {
    int64_t ns = 0, count = 0;
  };
  struct StageCosts {
    Cost forward, backward, backward_input, backward_weight;
  };
  static Cost* cost_of(StageCosts* costs, Operation operation);
  StagePrice price(const StageCosts& costs) const;

  std::vector<int64_t> busy_ns_;
  std::vector<StageCosts> stages_;
  int64_t part_ns_ = 0;
  bool is_open_ = false;
  int64_t begin_ns_ = 0, end_ns_ = 0;  // of the open part
};

}  // namespace plait

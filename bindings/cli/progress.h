// How a run tells people where it is, and what it was once it is over.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "bindings/cli/host.h"

namespace plait::cli {

/// Bar or plain lines while a run lasts; sums for the summary at its end.
class RunProgress {
 public:
  /// `steps`: the last step of the run; `log_every`: steps between two plain lines, 0 for none.
  RunProgress(Host& host, int64_t steps, int64_t log_every);

  void step(const plait_metrics& metrics);
  void evaluation(int64_t step, const plait_metrics& metrics);
  /// Takes the bar away.
  void end();

  bool has_steps() const { return steps_done_ > 0; }
  /// The summary on stdout; `kernels` is the engine's report of that name.
  void print_summary(const std::string& kernels) const;

 private:
  using Clock = std::chrono::steady_clock;

  std::string line(bool is_bar) const;
  double seconds_left() const;

  Host& host_;
  int64_t steps_, log_every_;
  int64_t steps_done_ = 0, tokens_ = 0, skipped_ = 0;
  double seconds_ = 0, flops_ = 0;
  plait_metrics last_{};
  std::optional<double> first_loss_, evaluation_loss_, best_evaluation_loss_;
  int64_t evaluation_step_ = 0, best_evaluation_step_ = 0;
  Clock::time_point begin_ = Clock::now(), drawn_{};
};

/// "cpu amx, 2 threads, bfloat16; onednn: linear; …" of the engine's report "kernels".
std::string describe_kernels(const std::string& report);

}  // namespace plait::cli

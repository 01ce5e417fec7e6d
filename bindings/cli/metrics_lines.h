// Metrics lines: one JSON object per step, written to a file, to stdout, or both.
#pragma once

#include <cstdio>
#include <string>

#include "bindings/cli/host.h"

namespace plait::cli {

/// {"config": …}, the line before the first step. `config` is a JSON object.
std::string config_line(const std::string& config);
/// One step: every field of plait_metrics, null where it is not valid or not finite.
std::string step_line(const plait_metrics& metrics);
/// One evaluation after `step` steps.
std::string evaluation_line(int64_t step, const plait_metrics& metrics);

/// Appends lines to the file of --metrics and, with --json, prints them. A line is whole in the
/// file when the call returns. `is_silent` drops everything: only the process of rank 0 writes.
class MetricsLines {
 public:
  MetricsLines(Host& host, bool is_silent);
  ~MetricsLines();
  MetricsLines(const MetricsLines&) = delete;
  MetricsLines& operator=(const MetricsLines&) = delete;

  void write(const std::string& line);

 private:
  Host& host_;
  bool is_silent_;
  std::FILE* file_ = nullptr;
};

}  // namespace plait::cli

// Published measurements as jobs and layouts of the planner.
#pragma once

#include <string>
#include <vector>

#include "engine/planner/job.h"

namespace plait::bench {

/// One row of a file.
struct PublishedRow {
  std::string id, table;
  Job job;
  LayoutConfig layout;
  bool is_rate = true;      ///< TFLOP/s of each device by `hardware` FLOPs, else seconds of a step
  double value = 0;         ///< as published
  double days = 0;          ///< of 300e9 tokens, as published; 0: not given
  double parameters = 0;    ///< as published
  bool is_outlier = false;  ///< by the file's own account

  double flops() const;
  double seconds() const;  ///< of a step as published
  /// What `seconds` of a step are in the row's metric.
  double metric(double seconds) const;
};

/// Rows of a file of comma-separated columns, priced on `hardware`. Ends the program with a message
/// when the file can't be read or lacks a column.
std::vector<PublishedRow> read_rows(const std::string& path, const Hardware& hardware);

}  // namespace plait::bench

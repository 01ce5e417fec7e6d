#include "tests/bench/planner_rows.h"

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "engine/planner/estimate.h"

namespace plait::bench {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  std::cerr << "bench_planner: " << path << ": " << what << "\n";
  std::exit(2);
}

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::istringstream stream(line);
  for (std::string cell; std::getline(stream, cell, ',');) cells.push_back(cell);
  return cells;
}

/// Cells of a line by the names of the columns.
class Cells {
 public:
  Cells(const std::string& path, const std::vector<std::string>& names, const std::string& line)
      : path_(path) {
    const std::vector<std::string> cells = cells_of(line);
    for (size_t i = 0; i < names.size(); ++i) {
      cells_[names[i]] = i < cells.size() ? cells[i] : "";
    }
  }
  bool has(const std::string& name) const {
    const auto cell = cells_.find(name);
    return cell != cells_.end() && !cell->second.empty();
  }
  const std::string& text(const std::string& name) const {
    const auto cell = cells_.find(name);
    if (cell == cells_.end()) fail(path_, "has no column " + name);
    return cell->second;
  }
  double real(const std::string& name) const {
    const std::string& cell = text(name);
    char* end = nullptr;
    const double value = std::strtod(cell.c_str(), &end);
    if (cell.empty() || *end != 0) fail(path_, name + " is no number: \"" + cell + "\"");
    return value;
  }
  int64_t integer(const std::string& name) const { return static_cast<int64_t>(real(name)); }

 private:
  const std::string& path_;
  std::map<std::string, std::string> cells_;
};

Job job_of(const Cells& cells, const Hardware& hardware) {
  Job job;
  ModelConfig& model = job.model;
  model.family = FamilyChoice::kGpt2;
  model.layers = cells.integer("layers");
  model.hidden = cells.integer("hidden");
  model.heads = model.key_value_heads = cells.integer("heads");
  model.head_size = model.hidden / model.heads;
  model.feed_forward = 4 * model.hidden;
  model.vocab_size = cells.integer("vocabulary");
  model.sequence_length = cells.integer("sequence");
  model.tied = true;
  job.precision.compute = job.precision.residual = DType::kFloat16;
  job.train.global_batch = cells.integer("global_batch");
  job.train.sequence_length = model.sequence_length;
  job.train.dropout = job.train.attention_dropout = 0.1;
  job.world = cells.integer("world");
  job.hardware = hardware;
  job.profile = find_profile(cells.text("profile"));
  job.profile.overlaps_reductions = cells.integer("data_overlap") != 0;
  return job;
}

LayoutConfig layout_of(const Cells& cells) {
  LayoutConfig layout;
  layout.tensor = cells.integer("tensor");
  layout.pipeline = cells.integer("pipeline");
  layout.data = cells.integer("data");
  layout.interleave = cells.integer("interleave");
  layout.micro_batch = cells.integer("micro_batch");
  layout.zero = cells.integer("zero");
  const std::string& recompute = cells.text("recompute");
  layout.recompute = recompute == "full"        ? RecomputeChoice::kFull
                     : recompute == "selective" ? RecomputeChoice::kSelective
                                                : RecomputeChoice::kNone;
  layout.sequence_parallel = cells.integer("sequence_parallel") != 0;
  layout.scatter_gather = cells.integer("scatter_gather") != 0;
  layout.schedule =
      layout.interleave > 1 ? ScheduleChoice::kInterleaved : ScheduleChoice::kOneForwardOneBackward;
  return layout;
}

}  // namespace

double PublishedRow::flops() const { return step_flops(job, layout).hardware; }

double PublishedRow::seconds() const { return metric(value); }

/// FLOPs over devices and time, and time, are each other's inverse.
double PublishedRow::metric(double seconds) const {
  return is_rate ? flops() / (static_cast<double>(job.world) * seconds * 1e12) : seconds;
}

std::vector<PublishedRow> read_rows(const std::string& path, const Hardware& hardware) {
  std::ifstream file(path);
  std::string line;
  if (!std::getline(file, line)) fail(path, "can't be read");
  const std::vector<std::string> names = cells_of(line);
  std::vector<PublishedRow> rows;
  while (std::getline(file, line)) {
    if (line.empty()) continue;
    const Cells cells(path, names, line);
    PublishedRow row;
    row.id = cells.text("id");
    row.table = cells.text("table");
    row.job = job_of(cells, hardware);
    row.layout = layout_of(cells);
    const std::string& metric = cells.text("metric");
    if (metric != "hardware_tflops" && metric != "step_seconds") fail(path, "metric " + metric);
    row.is_rate = metric == "hardware_tflops";
    row.value = cells.real("value");
    if (cells.has("days_300e9_tokens")) row.days = cells.real("days_300e9_tokens");
    row.parameters = cells.real("parameters_billion") * 1e9;
    row.is_outlier = cells.text("certainty").find("outlier") != std::string::npos;
    rows.push_back(std::move(row));
  }
  if (rows.empty()) fail(path, "has no rows");
  return rows;
}

}  // namespace plait::bench

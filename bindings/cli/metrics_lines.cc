#include "bindings/cli/metrics_lines.h"

#include <cerrno>
#include <limits>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

/// Writes fields of one group, which are null when the group is not valid.
class Fields {
 public:
  Fields(JsonLine* line, bool is_valid) : line_(line), is_valid_(is_valid) {}

  Fields& add(const char* name, int64_t value) {
    is_valid_ ? line_->number(name, value) : line_->raw(name, "null");
    return *this;
  }
  Fields& add(const char* name, double value) {
    is_valid_ ? line_->number(name, value) : line_->raw(name, "null");
    return *this;
  }

 private:
  JsonLine* line_;
  bool is_valid_;
};

}  // namespace

std::string config_line(const std::string& config) {
  return JsonLine().raw("config", config).done();
}

std::string step_line(const plait_metrics& m) {
  JsonLine line;
  Fields(&line, (m.valid & PLAIT_METRICS_STEP) != 0)
      .add("step", m.step)
      .add("loss", m.loss)
      .add("grad_norm", m.grad_norm)
      .add("lr", m.lr)
      .add("loss_scale", m.loss_scale)
      .add("tokens", m.tokens)
      .add("targets", m.targets)
      .add("skipped", m.skipped)
      .add("samples_total", m.samples_total)
      .add("tokens_total", m.tokens_total)
      .add("skipped_total", m.skipped_total);
  Fields(&line, (m.valid & PLAIT_METRICS_TIME) != 0)
      .add("step_seconds", m.step_seconds)
      .add("tokens_per_second", m.tokens_per_second)
      .add("model_flops_per_second", m.model_flops_per_second)
      .add("forward_seconds", m.forward_seconds)
      .add("backward_seconds", m.backward_seconds)
      .add("communication_seconds", m.communication_seconds)
      .add("optimizer_seconds", m.optimizer_seconds)
      .add("bubble_seconds", m.bubble_seconds)
      .add("data_seconds", m.data_seconds);
  Fields(&line, (m.valid & PLAIT_METRICS_MEMORY) != 0)
      .add("memory_bytes", m.memory_bytes)
      .add("memory_peak_bytes", m.memory_peak_bytes);
  Fields(&line, (m.valid & PLAIT_METRICS_REPLICAS) != 0).add("diverged_rank", m.diverged_rank);
  return line.done();
}

std::string evaluation_line(int64_t step, const plait_metrics& m) {
  JsonLine line;
  line.number("step", step);
  Fields(&line, (m.valid & PLAIT_METRICS_STEP) != 0)
      .add("eval_loss", m.loss)
      .add("eval_targets", m.targets);
  return line.done();
}

MetricsLines::MetricsLines(Host& host, bool is_silent) : host_(host), is_silent_(is_silent) {
  const std::string& path = host.options.metrics_path;
  if (is_silent || path.empty()) return;
  file_ = std::fopen(path.c_str(), "ab");
  if (file_ == nullptr) throw file_failure(errno, "open", path);
}

MetricsLines::~MetricsLines() {
  if (file_ != nullptr) std::fclose(file_);
}

void MetricsLines::write(const std::string& line) {
  if (is_silent_) return;
  host_.print_json(line);
  if (file_ == nullptr) return;
  const std::string text = line + "\n";
  if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) {
    throw file_failure(errno, "write", host_.options.metrics_path);
  }
}

}  // namespace plait::cli

#include "bindings/cli/progress.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "bindings/cli/operation.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

constexpr auto kDrawEvery = std::chrono::milliseconds(100);

}  // namespace

RunProgress::RunProgress(Host& host, int64_t steps, int64_t log_every)
    : host_(host), steps_(steps), log_every_(log_every) {}

void RunProgress::step(const plait_metrics& metrics) {
  last_ = metrics;
  ++steps_done_;
  tokens_ += metrics.tokens;
  skipped_ += metrics.skipped;
  seconds_ += metrics.step_seconds;
  flops_ += metrics.model_flops_per_second * metrics.step_seconds;
  if (!first_loss_) first_loss_ = metrics.loss;
  if (host_.has_bar()) {
    const Clock::time_point now = Clock::now();
    if (now - drawn_ < kDrawEvery && metrics.step < steps_) return;
    drawn_ = now;
    host_.draw_bar(line(true));
  } else if (log_every_ > 0 && (metrics.step % log_every_ == 0 || metrics.step == steps_)) {
    host_.note(line(false));
  }
}

void RunProgress::evaluation(int64_t step, const plait_metrics& metrics) {
  evaluation_loss_ = metrics.loss;
  evaluation_step_ = step;
  if (!best_evaluation_loss_ || metrics.loss < *best_evaluation_loss_) {
    best_evaluation_loss_ = metrics.loss;
    best_evaluation_step_ = step;
  }
  host_.note("step " + std::to_string(step) + "/" + std::to_string(steps_) + "  eval loss " +
             rounded(metrics.loss, 5));
  if (host_.has_bar()) host_.draw_bar(line(true));
}

void RunProgress::end() { host_.draw_bar(""); }

double RunProgress::seconds_left() const {
  const double passed = std::chrono::duration<double>(Clock::now() - begin_).count();
  return passed / static_cast<double>(steps_done_) * static_cast<double>(steps_ - last_.step);
}

std::string RunProgress::line(bool is_bar) const {
  std::string text = "step " + std::to_string(last_.step) + "/" + std::to_string(steps_);
  if (is_bar) {
    text += " " + bar(static_cast<double>(last_.step) / static_cast<double>(steps_));
  }
  text += "  loss " + rounded(last_.loss, 5);
  if (is_bar && evaluation_loss_) text += "  eval " + rounded(*evaluation_loss_, 5);
  if (!is_bar) text += "  grad_norm " + rounded(last_.grad_norm) + "  lr " + rounded(last_.lr);
  text += "  tokens/s " + rounded(last_.tokens_per_second);
  if (!is_bar) return text + (last_.skipped != 0 ? "  skipped" : "");
  return text + "  " + duration(seconds_left()) + " left";
}

void RunProgress::print_summary(const std::string& kernels) const {
  const double rate = seconds_ > 0 ? static_cast<double>(tokens_) / seconds_ : 0;
  const double flops = seconds_ > 0 ? flops_ / seconds_ : 0;
  if (host_.options.is_json) {
    JsonLine line;
    line.number("steps", last_.step).number("loss", last_.loss);
    if (evaluation_loss_) {
      line.number("eval_loss", *evaluation_loss_)
          .number("eval_step", evaluation_step_)
          .number("best_eval_loss", *best_evaluation_loss_)
          .number("best_eval_step", best_evaluation_step_);
    }
    line.number("tokens", tokens_)
        .number("skipped", skipped_)
        .number("seconds", seconds_)
        .number("tokens_per_second", rate)
        .number("model_flops_per_second", flops)
        .number("memory_peak_bytes", last_.memory_peak_bytes)
        .raw("kernels", kernels);
    return host_.print(JsonLine().raw("summary", line.done()).done());
  }
  host_.print("steps          " + std::to_string(last_.step) +
              (skipped_ > 0 ? " (" + std::to_string(skipped_) + " skipped)" : "") + ", " +
              counted(tokens_) + " tokens in " + duration(seconds_));
  if (first_loss_) {
    host_.print("loss           " + rounded(last_.loss, 5) + " (first " + rounded(*first_loss_, 5) +
                ")");
  }
  if (evaluation_loss_) {
    host_.print("eval loss      " + rounded(*evaluation_loss_, 5) + " at step " +
                std::to_string(evaluation_step_) + " (best " + rounded(*best_evaluation_loss_, 5) +
                " at step " + std::to_string(best_evaluation_step_) + ")");
  }
  host_.print("tokens/s       " + counted(static_cast<int64_t>(rate)));
  host_.print("model TFLOP/s  " + rounded(flops * 1e-12));
  host_.print("peak memory    " + byte_size(static_cast<double>(last_.memory_peak_bytes)));
  host_.print("kernels        " + describe_kernels(kernels));
}

std::string describe_kernels(const std::string& report) {
  const nlohmann::ordered_json kernels = nlohmann::ordered_json::parse(report, nullptr, false);
  if (!kernels.is_object()) return "-";
  const auto field = [&](const char* name) {
    if (!kernels.contains(name)) return std::string("-");
    const auto& value = kernels[name];
    return value.is_string() ? value.get<std::string>() : value.dump();
  };
  std::string text = field("device") + " " + field("isa") + ", " + field("threads") + " threads, " +
                     field("compute");
  if (!kernels.contains("ops") || !kernels["ops"].is_object()) return text;
  // "linear/layers.0…" is one of many products of one kind: people want the kind.
  std::map<std::string, std::vector<std::string>> by_implementation;
  for (const auto& [op, name] : kernels["ops"].items()) {
    std::vector<std::string>& ops =
        by_implementation[name.is_string() ? name.get<std::string>() : name.dump()];
    const std::string kind = op.substr(0, op.find('/'));
    if (std::find(ops.begin(), ops.end(), kind) == ops.end()) ops.push_back(kind);
  }
  for (const auto& [implementation, ops] : by_implementation) {
    text += "; " + implementation + ":";
    for (const std::string& op : ops) text += " " + op;
  }
  return text;
}

}  // namespace plait::cli

#include "bindings/cli/saves.h"

#include <sys/stat.h>

#include <cerrno>
#include <nlohmann/json.hpp>
#include <utility>

#include "bindings/cli/operation.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

std::string parent_of(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void require_directory(const std::string& path, const char* what) {
  struct stat facts;
  if (stat(path.c_str(), &facts) != 0) throw file_failure(errno, what, path);
  if (!S_ISDIR(facts.st_mode)) throw file_failure(ENOTDIR, what, path);
}

}  // namespace

void check_root(const std::string& root) {
  struct stat facts;
  try {
    if (stat(root.c_str(), &facts) == 0) return require_directory(root, "opening the root");
    require_directory(parent_of(root), "making the root of checkpoints in this directory");
  } catch (Failure& failure) {
    failure.add("key", std::string("run.checkpoint"));
    throw;
  }
}

RunSaves::RunSaves(Host& host, const Engine& engine, std::string root, int64_t every,
                   bool is_silent)
    : host_(host), engine_(engine), root_(std::move(root)), every_(every), is_silent_(is_silent) {}

void RunSaves::after_step(int64_t step) {
  if (root_.empty()) return;
  for (size_t i = 0; i < pending_.size();) {
    if (!has_ended(pending_[i].operation)) {
      ++i;
      continue;
    }
    const Pending ended = std::move(pending_[i]);
    pending_.erase(pending_.begin() + static_cast<std::ptrdiff_t>(i));
    if (const auto failure = take(ended)) report_failure(ended.step, *failure);
  }
  if (every_ == 0 || step % every_ != 0 || step == saved_step_) return;
  if (const auto failure = begin(step)) report_failure(step, *failure);
}

std::optional<Failure> RunSaves::finish(int64_t step) {
  if (root_.empty()) return std::nullopt;
  for (const Pending& pending : std::exchange(pending_, {})) {
    if (const auto failure = take(pending)) report_failure(pending.step, *failure);
  }
  if (saved_step_ == step) return std::nullopt;
  if (auto failure = begin(step)) return failure;
  const Pending last = std::move(pending_.back());
  pending_.clear();
  return take(last);
}

/// The snapshot; what follows it goes on by itself.
std::optional<Failure> RunSaves::begin(int64_t step) {
  try {
    Operation operation = make<Operation>([&](plait_op** out, plait_error** err) {
      return plait_checkpoint_save(engine_.get(), root_.c_str(), -1, out, err);
    });
    pending_.push_back({step, std::move(operation)});
  } catch (const Failure& failure) {
    if (failure.disposition() == PLAIT_DISPOSITION_ENGINE_LOST ||
        failure.disposition() == PLAIT_DISPOSITION_PROCESS_LOST) {
      throw;
    }
    return failure;
  }
  return std::nullopt;
}

std::optional<Failure> RunSaves::take(const Pending& pending) {
  try {
    report_end(pending.step, wait_for_end(host_, pending.operation, "saving"));
  } catch (const Failure& failure) {
    return failure;
  }
  return std::nullopt;
}

void RunSaves::report_failure(int64_t step, const Failure& failure) {
  if (is_silent_) return;
  if (host_.options.is_json) {
    const nlohmann::ordered_json error = nlohmann::ordered_json::parse(failure.json());
    host_.print(JsonLine().number("step", step).raw("save_error", error["error"].dump()).done());
  }
  std::string line =
      "plait: the save of step " + std::to_string(step) + " failed, training goes on: ";
  line += plait_code_name(failure.code());
  line += ": " + failure.message();
  if (failure.word() == "locked") {
    line += " (another run saves there: stop it, or choose another run.checkpoint)";
  } else if (failure.word() == "no_space") {
    line += " (make room, or set checkpoint.keep_last)";
  }
  host_.complain(line);
}

void RunSaves::report_end(int64_t step, const std::string& report) {
  const auto fields = nlohmann::ordered_json::parse(report);
  const bool is_skipped =
      fields.contains("skipped") && fields["skipped"].is_boolean() && fields["skipped"].get<bool>();
  if (!is_skipped) saved_step_ = step;
  if (is_silent_) return;
  host_.print_json(JsonLine().number("step", step).raw("save", report).done());
  if (is_skipped) {
    return host_.note("plait: the save of step " + std::to_string(step) +
                      " was skipped: earlier saves are still being written "
                      "(checkpoint.on_busy=wait waits for them)");
  }
  std::string line = "saved step " + std::to_string(step);
  if (fields.contains("path")) line += "  " + fields["path"].get<std::string>();
  if (fields.contains("bytes")) line += "  " + byte_size(fields["bytes"].get<double>());
  if (fields.contains("seconds")) line += "  " + duration(fields["seconds"].get<double>());
  host_.note(line);
}

}  // namespace plait::cli

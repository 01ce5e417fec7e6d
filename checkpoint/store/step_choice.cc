#include <utility>

#include "checkpoint/hf_directory.h"
#include "checkpoint/store/root_files.h"
#include "checkpoint/store/step_state.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

bool is_step_directory(Files& files, std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const std::string name = last_name(path);
  if (is_leftover_name(name)) return false;
  return parse_step_name(name).has_value() || files.exists(join_path(path, RootNames::kManifest));
}

SkippedStep skipped_step(const std::string& name, const Error& error) {
  return {name, error.word(), error.message()};
}

SkippedStep skipped_step(const BadStep& bad) {
  // A message begins with its word.
  return {bad.name, bad.reason.substr(0, bad.reason.find(':')), bad.reason};
}

/// Faults of this process rather than of a step: another step would not do better.
bool is_own_fault(const Error& error) {
  return error.word() == "too_many_files" || error.word() == "no_memory" ||
         error.word() == "cancelled";
}

Error nothing_found(const std::string& path, const std::vector<SkippedStep>& skipped) {
  JsonArray list;
  for (const SkippedStep& step : skipped) {
    list.add(JsonObject()
                 .field("name", step.name)
                 .field("word", step.word)
                 .field("reason", step.reason)
                 .text());
  }
  return Error("no_checkpoint", "no step of the directory can be read")
      .with("path", path)
      .with_raw("skipped", list.text());
}

}  // namespace

OpenedStep open_checkpoint(Files& files, const std::string& path, bool is_falling_back) {
  OpenedStep opened;
  if (is_step_directory(files, path)) {
    opened.reader = StepReader::open(files, path);
    return opened;
  }
  const RootListing listing = list_root(files, path);
  for (const BadStep& bad : listing.bad) opened.skipped.push_back(skipped_step(bad));
  for (const StepEntry& entry : listing.steps) {
    try {
      opened.reader = StepReader::open(files, join_path(path, entry.name));
      return opened;
    } catch (const Error& error) {
      if (!is_falling_back || is_own_fault(error)) throw;
      opened.skipped.push_back(skipped_step(entry.name, error));
    }
  }
  throw nothing_found(path, opened.skipped);
}

bool is_native_checkpoint(Files& files, const std::string& path) {
  if (!files.exists(path) || files.stat(path).kind != FileInfo::Kind::kDirectory) return false;
  if (HfDirectory::is_one(files, path)) return false;
  if (is_step_directory(files, path)) return true;
  for (const std::string& name : files.list(path)) {
    if (name == RootNames::kLatest || name == RootNames::kLock || parse_step_name(name))
      return true;
  }
  return false;
}

}  // namespace plait

#include <cstddef>
#include <utility>
#include <vector>

#include "checkpoint/store/root_files.h"
#include "checkpoint/store/root_state.h"

namespace plait {
namespace {

constexpr int64_t kLatestTextBytes = 4096;

}  // namespace

bool RootWriter::State::is_read(const std::string& directory, std::unique_ptr<File>* held) {
  const std::string manifest = join_path(directory, RootNames::kManifest);
  if (!files.exists(manifest)) return false;
  // Opened to write: some network file systems give an exclusive lock to no other.
  *held = files.open_or_create(manifest);
  return !(*held)->try_lock_exclusive();
}

bool RootWriter::State::is_dead(const std::string& name) {
  if (own.count(name) != 0) return false;
  if (is_leftover_name(name)) return true;
  if (!parse_step_name(name)) return false;
  // A step without manifest is none: a save with commit=manifest_last ended in it.
  const std::string directory = in_root(name);
  return files.stat(directory).kind == FileInfo::Kind::kDirectory &&
         !files.exists(join_path(directory, RootNames::kManifest));
}

void RootWriter::State::remove_dead(const std::string& name) {
  const std::string directory = in_root(name);
  std::unique_ptr<File> held;
  if (is_read(directory, &held)) return;
  if (is_leftover_name(name)) {
    remove_step_directory(files, directory);
  } else {
    remove_in_place(directory);
  }
  warn("removed what an unfinished save or deletion had left: " + directory);
}

void RootWriter::State::clean_up() {
  std::vector<std::string> dead;
  for (const std::string& name : files.list(root)) {
    attempt("an entry of the root could not be looked at", [&] {
      if (is_dead(name)) dead.push_back(name);
    });
  }
  if (dead.empty()) return;
  attempt("what an unfinished save had left could not be removed", [&] {
    // What makes these names leftovers may be a rename that is not durable yet.
    sync_root(Mutation::kSkipSyncF8);
    for (const std::string& name : dead) {
      attempt("what an unfinished save had left could not be removed", [&] { remove_dead(name); });
    }
  });
}

void RootWriter::State::throw_away(const std::string& name) {
  const std::string trash = in_root(trash_name(name, env.entropy.next()));
  files.rename_noreplace(in_root(name), trash);
  sync_root(Mutation::kSkipSyncF8);
  remove_step_directory(files, trash);
}

void RootWriter::State::remove_in_place(const std::string& directory) {
  const std::string manifest = join_path(directory, RootNames::kManifest);
  if (files.exists(manifest)) files.unlink(manifest);
  if (!is_mutated(Mutation::kSkipSyncF8)) files.sync_directory(directory);
  remove_step_directory(files, directory);
}

void RootWriter::State::discard(const std::string& temporary) {
  const std::string name = last_name(temporary);
  if (unfinished.count(name) == 0) return;
  attempt("what a failed save has left could not be removed", [&] {
    if (parse_step_name(name)) {
      remove_in_place(temporary);
    } else {
      throw_away(name);
    }
  });
  // What is still there is left to the clean-up of the next save.
  unfinished.erase(name);
  own.erase(name);
}

void RootWriter::State::learn_latest() {
  if (is_latest_known) return;
  files.sync_directory(root);
  const std::string path = in_root(RootNames::kLatest);
  latest.reset();
  if (files.exists(path)) latest = parse_latest(read_file(files, path, kLatestTextBytes));
  is_latest_known = true;
}

void RootWriter::State::retain(const RetentionOptions& options) {
  learn_latest();
  const RootListing listing = list_root(files, root);
  for (size_t i = 1; i < listing.steps.size(); ++i) {
    const StepEntry& entry = listing.steps[i];
    if (static_cast<int64_t>(i) < options.keep_last || entry.step == latest) continue;
    if (options.keep_every > 0 && entry.step % options.keep_every == 0) continue;
    attempt("a step that is kept no longer could not be removed", [&] {
      std::unique_ptr<File> held;
      if (is_read(in_root(entry.name), &held)) return;
      if (is_manifest_last) {
        remove_in_place(in_root(entry.name));
      } else {
        throw_away(entry.name);
      }
    });
  }
}

}  // namespace plait

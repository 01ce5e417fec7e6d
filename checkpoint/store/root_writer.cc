#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string_view>
#include <utility>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/store/root_files.h"
#include "checkpoint/store/root_state.h"

namespace plait {
namespace {

constexpr int64_t kLockTextBytes = 512;

std::string parent_path(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  const size_t slash = path.rfind('/');
  if (slash == path.npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

/// Makes the root unless it is there. A new one is durable in its parent.
void make_root(Files& files, const std::string& root) {
  bool is_new = false;
  if (!files.exists(root)) {
    files.make_private_directory(root);
    is_new = true;
  } else if (files.stat(root).kind != FileInfo::Kind::kDirectory) {
    throw Error("argument", "the root of checkpoints is no directory").with("path", root);
  }
  try {
    // One whose maker was killed in between is synced here, too.
    files.sync_directory(parent_path(root));
  } catch (const Error&) {
    if (is_new) throw;
  }
}

/// It may be a damaged one, which a resume passed over.
Error step_exists(const std::string& path) {
  return Error(
             "step_exists",
             "a step of this number is there, whole or damaged: to put this one in its place save "
             "with checkpoint.on_existing=replace, to keep both save into another root")
      .with("path", path);
}

/// The first line of LOCK.
std::string holder_text(File& lock) {
  std::string text(kLockTextBytes, '\0');
  text.resize(static_cast<size_t>(lock.pread(text.data(), kLockTextBytes, 0)));
  text.resize(std::min(text.find('\n'), text.size()));
  while (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}

/// Replaces the whole text: what is left of a longer one becomes spaces.
void write_holder(File& lock, std::string text) {
  const int64_t before = lock.size();
  if (before > static_cast<int64_t>(text.size()) && before <= kLockTextBytes) {
    text.insert(text.size() - 1, static_cast<size_t>(before) - text.size(), ' ');
  }
  lock.pwrite(text.data(), static_cast<int64_t>(text.size()), 0);
}

/// Whether a step does not count for another reason than what it holds.
bool is_unread(const BadStep& bad) {
  constexpr std::string_view kDamage[] = {
      "corrupt:", "invalid_file:", "invalid_field:", "no_file:"};
  return std::none_of(std::begin(kDamage), std::end(kDamage),
                      [&](std::string_view word) { return bad.reason.starts_with(word); });
}

/// Proves that this process sees what the ranks say they have written.
void check_shard_files(Files& files, const std::string& directory, const Manifest& manifest) {
  const auto check_size = [&](const std::string& name, int64_t want) {
    const std::string path = join_path(directory, name);
    const int64_t got = files.exists(path) ? files.stat(path).bytes : -1;
    if (got == want) return;
    throw Error("io_error", got < 0 ? "a shard's file has vanished"
                                    : "a shard's file has another size than was written")
        .with("path", path)
        .with("want", want)
        .with("got", got);
  };
  for (const SavedFile& file : manifest.files) {
    check_size(shard_name(file.ordinal), file.plt_bytes);
    check_size(index_name(file.ordinal), file.idx_bytes);
  }
}

}  // namespace

void RootWriter::State::require_space(int64_t total_bytes) {
  check(total_bytes >= 0, "a save has a size");
  const int64_t need = total_bytes + (total_bytes + 19) / 20;  // 1.05 ×
  const int64_t free = files.free_bytes(root);
  if (free >= need) return;
  throw Error("no_space", "the file system of the root has less space than a save needs")
      .with("path", root)
      .with("need", need)
      .with("free", free);
}

uint64_t RootWriter::State::next_sequence() {
  RootListing listing = list_root(files, root);
  // One that could not be read for once may be the highest; below it the new step would lose.
  if (std::any_of(listing.bad.begin(), listing.bad.end(), is_unread)) {
    listing = list_root(files, root);
  }
  uint64_t highest = last_sequence;
  if (!listing.steps.empty()) highest = std::max(highest, listing.steps.front().sequence);
  if (highest == UINT64_MAX) {
    throw Error("too_large", "no sequence is left after the highest").with("path", root);
  }
  return highest + 1;
}

void RootWriter::State::publish(const std::string& temporary, const std::string& target,
                                bool is_replacing) {
  if (is_replacing) {
    files.exchange(temporary, target);
  } else {
    try {
      files.rename_noreplace(temporary, target);
    } catch (const Error& error) {
      if (error.word() != "target_exists") throw;
      throw step_exists(target);
    }
  }
  try {
    sync_root(Mutation::kSkipSyncF5);
  } catch (...) {
    unfinished.erase(last_name(temporary));
    attempt("the name of a failed save could not be taken back", [&] {
      if (is_replacing) {
        files.exchange(temporary, target);
      } else {
        files.rename_noreplace(target, temporary);
      }
      unfinished.insert(last_name(temporary));
    });
    throw;
  }
}

void RootWriter::State::publish_manifest(const std::string& directory) {
  const std::string from = join_path(directory, RootNames::kNewManifest);
  const std::string to = join_path(directory, RootNames::kManifest);
  files.rename(from, to);
  try {
    if (!is_mutated(Mutation::kSkipSyncF5)) files.sync_directory(directory);
    sync_root(Mutation::kSkipSyncF5);
  } catch (...) {
    unfinished.erase(last_name(directory));
    attempt("the name of a failed save could not be taken back", [&] {
      files.rename(to, from);
      unfinished.insert(last_name(directory));
    });
    throw;
  }
}

RootWriter::RootWriter(std::unique_ptr<State> state) : state_(std::move(state)) {}
RootWriter::~RootWriter() = default;

const std::string& RootWriter::path() const { return state_->root; }

std::unique_ptr<RootWriter> RootWriter::open(Env& env, const std::string& root, std::string run_id,
                                             Log* log, int32_t rank) {
  auto state = std::make_unique<State>(env, root, log, rank);
  make_root(env.files, root);
  state->lock = env.files.open_or_create(state->in_root(RootNames::kLock));
  if (!state->lock->try_lock_exclusive()) {
    throw Error("locked", "another writer saves into this root")
        .with("path", root)
        .with("holder", holder_text(*state->lock));
  }
  write_holder(*state->lock, lock_text(run_id, env.clock.wall_ns()));
  return std::unique_ptr<RootWriter>(new RootWriter(std::move(state)));
}

std::string RootWriter::begin(int64_t step, int64_t total_bytes, const CommitOptions& options) {
  State& state = *state_;
  const std::lock_guard<std::mutex> guard(state.mutex);
  const std::string target = step_name(step);
  state.is_manifest_last = options.is_manifest_last;
  state.clean_up();
  const bool is_there = state.files.exists(state.in_root(target));
  if (is_there && !options.may_replace) {
    throw step_exists(state.in_root(target));
  }
  if (is_there && options.is_manifest_last) {
    throw Error("no_exchange", "a step can be replaced with checkpoint.commit=rename alone")
        .with("path", state.in_root(target));
  }
  state.require_space(total_bytes);
  const std::string name = options.is_manifest_last ? target
                                                    : leftover_name(Leftover::kTemporary, step,
                                                                    state.env.entropy.next());
  state.files.make_private_directory(state.in_root(name));
  state.own.insert(name);
  state.unfinished.insert(name);
  return state.in_root(name);
}

std::string RootWriter::commit(const std::string& temporary, const Manifest& manifest,
                               const std::string& info_json, const CommitOptions& options) {
  State& state = *state_;
  const std::lock_guard<std::mutex> guard(state.mutex);
  const std::string name = last_name(temporary), target = step_name(manifest.progress.step);
  check(state.unfinished.count(name) != 0, "a commit ends a save that has begun");
  check(!options.is_manifest_last || name == target, "a save ends as the step that it began");
  check_shard_files(state.files, temporary, manifest);
  write_new_file(state.files, join_path(temporary, RootNames::kInfo), info_json, Durability::kNone);
  const uint64_t sequence = state.next_sequence();
  write_new_file(state.files,
                 join_path(temporary, options.is_manifest_last ? RootNames::kNewManifest
                                                               : RootNames::kManifest),
                 encode_manifest(manifest, sequence),
                 is_mutated(Mutation::kSkipSyncF3) ? Durability::kNone : Durability::kAll);
  if (!is_mutated(Mutation::kSkipSyncF4)) state.files.sync_directory(temporary);

  const bool is_replacing =
      !options.is_manifest_last && options.may_replace && state.files.exists(state.in_root(target));
  if (options.is_manifest_last) {
    state.publish_manifest(temporary);
  } else {
    state.publish(temporary, state.in_root(target), is_replacing);
  }
  state.last_sequence = sequence;
  state.unfinished.erase(name);
  state.own.erase(name);
  if (is_replacing) {
    state.attempt("the step that was replaced could not be removed", [&] {
      std::unique_ptr<File> held;
      if (!state.is_read(temporary, &held)) state.throw_away(name);
    });
  }
  return state.in_root(target);
}

void RootWriter::point_latest(int64_t step) {
  State& state = *state_;
  const std::lock_guard<std::mutex> guard(state.mutex);
  state.is_latest_known = false;
  state.attempt("LATEST could not be written", [&] {
    const std::string path = state.in_root(RootNames::kNewLatest);
    if (state.files.exists(path)) state.files.unlink(path);
    write_new_file(state.files, path, latest_text(step),
                   is_mutated(Mutation::kSkipSyncF6) ? Durability::kNone : Durability::kAll);
    state.files.rename(path, state.in_root(RootNames::kLatest));
    state.sync_root(Mutation::kSkipSyncF7);
    state.latest = step;
    state.is_latest_known = true;
  });
}

void RootWriter::retain(const RetentionOptions& options) {
  State& state = *state_;
  const std::lock_guard<std::mutex> guard(state.mutex);
  if (options.keep_last <= 0) return;
  state.attempt("steps could not be removed", [&] { state.retain(options); });
}

void RootWriter::discard(const std::string& temporary) noexcept {
  const std::lock_guard<std::mutex> guard(state_->mutex);
  try {
    state_->discard(temporary);
  } catch (...) {  // no memory: left to the clean-up of the next save, too
  }
}

}  // namespace plait

#include "engine/trainer/saver.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>

#include "engine/trainer/save_round.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr int64_t kNsOfMs = 1'000'000;
constexpr std::chrono::milliseconds kLookAtSaves{50};
constexpr std::chrono::seconds kIdleLook{1};
/// How long saves may take to notice that they were abandoned, before `close` returns anyway.
constexpr int64_t kLetGoMs = 1500;
/// The file system's share of a shard: header and gaps between slices.
constexpr int64_t kAlignedBytes = 4096;

std::string random_text(Entropy& entropy) {
  char text[20];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(entropy.next()));
  return text;
}

std::string skipped_report(const SaveJob& job) {
  return JsonObject()
      .field("skipped", true)
      .field("reason", "earlier saves are still being written")
      .field("step", job.manifest.progress.step)
      .text();
}

}  // namespace

Saver::Saver(RankSet& ranks, const EngineOptions& options)
    : ranks_(ranks),
      options_(options),
      freed_(Error("aborted", "the engine was freed before the save was durable")
                 .rank(static_cast<int32_t>(options.world->options().first_rank))
                 .subsystem("engine/trainer")) {}

Saver::~Saver() {
  if (!thread_.joinable()) return;  // there was no save
  {
    std::unique_lock lock(mutex_);
    if (!abandoned_) abandoned_ = std::move(freed_);  // needs no memory
    is_stopping_ = true;
    changed_.notify_all();
    while (!has_ended_) {
      lock.unlock();
      try {
        hurry();
      } catch (const std::exception&) {  // the exchange then ends at its own limit
      }
      lock.lock();
      changed_.wait_for(lock, kLookAtSaves, [&] { return has_ended_; });
    }
  }
  thread_.join();
}

std::vector<Answer> Saver::agree(const char* round, int64_t limit_ms,
                                 FunctionRef<std::string()> work) {
  Answer own = answer_of(work);
  std::vector<Answer> answers;
  if (ranks_.is_alone()) {
    answers.push_back(std::move(own));
  } else {
    // Somebody else's work may end at the limit too.
    answers = tell_all(*options_.world, std::string("checkpoint_save ") + round, own,
                       limit_ms + options_.world->options().control_ms);
  }
  if (const Error* error = first_failure(answers)) throw Error(*error);
  return answers;
}

std::shared_ptr<SaveJob> Saver::open(FunctionRef<SaveRequest()> describe, int64_t limit_ms) {
  auto job = std::make_shared<SaveJob>();
  job->begin_ns = options_.env->clock.now_ns();
  SaveRequest request;
  const std::vector<Answer> described = agree("describe", limit_ms, [&] {
    request = describe();
    const bool has_room = check_room(request.options, job->begin_ns + limit_ms * kNsOfMs);
    return (has_room ? "1" : "0") + save_facts(request.manifest, request.root, request.config);
  });
  std::vector<std::string> facts;
  for (const Answer& answer : described) {
    job->is_skipped = job->is_skipped || answer.text[0] == '0';
    facts.push_back(answer.text.substr(1));
  }
  compare_facts(*options_.world, facts);
  job->root = request.root;
  job->manifest = std::move(request.manifest);
  job->options = request.options;
  job->may_retain = request.may_retain;
  job->deadline_ns = job->begin_ns + request.options.save_timeout_ms * kNsOfMs;
  job->operation = std::make_shared<AsyncOperation>(options_.env->clock);
  if (job->is_skipped && job->options.on_busy == BusyChoice::kError) {
    throw Error("save_pending", "earlier saves are still being written")
        .with("limit", job->options.max_staged)
        .subsystem("engine/trainer");
  }
  if (job->is_skipped) return job;
  try {
    job->temporary = agree("open", limit_ms, [&] { return begin_step(*job); })[0].text;
    agree("ready", limit_ms, [&] {
      prepare_local(job.get());
      return std::string();
    });
  } catch (...) {
    drop(*job);
    throw;
  }
  return job;
}

/// False: there is none, and the policy is not to wait for it.
bool Saver::check_room(const CheckpointConfig& options, int64_t deadline_ns) {
  std::unique_lock lock(mutex_);
  if (broken_) {
    throw Error("desync", "an earlier save lost touch with other processes; saves need a new group")
        .with("cause", broken_->message())
        .subsystem("engine/trainer");
  }
  if (options.max_staged == 0) return true;
  while (staged_ >= options.max_staged) {
    if (options.on_busy != BusyChoice::kWait) return false;
    const bool is_lost =
        ranks_.state() == EngineState::kLost || options_.world->fabric().is_aborted();
    if (options_.env->clock.now_ns() >= deadline_ns || is_lost) {
      throw Error("deadline", "earlier saves are still being written")
          .with("staged", staged_)
          .with("limit", options.max_staged)
          .subsystem("engine/trainer");
    }
    changed_.wait_for(lock, kLookAtSaves);
  }
  return true;
}

/// In rank 0's process: locks the root and makes the step's directory, whose path all learn.
std::string Saver::begin_step(const SaveJob& job) {
  if (!is_first_process()) return "";
  check_not_pending(job);
  RootWriter* root = find_root(job.root);
  if (root == nullptr) {
    std::unique_ptr<RootWriter> opened = RootWriter::open(
        *options_.env, job.root, random_text(options_.env->entropy), options_.log, 0);
    root = opened.get();
    const std::lock_guard lock(mutex_);
    roots_[job.root] = std::move(opened);
  }
  int64_t states = 0;
  for (const SavedTensor& tensor : job.manifest.tensors) {
    states += static_cast<int64_t>(tensor.states.size());
  }
  const CommitOptions options{job.options.on_existing == ExistingChoice::kReplace,
                              job.options.commit == CommitChoice::kManifestLast};
  return root->begin(job.manifest.progress.step, job.world_bytes() + states * kAlignedBytes,
                     options);
}

/// A step that is still being written is not in its root yet.
void Saver::check_not_pending(const SaveJob& job) {
  const std::lock_guard lock(mutex_);
  const auto is_same = [&](const std::shared_ptr<SaveJob>& other) {
    return other != nullptr && !other->is_settled && other->root == job.root &&
           other->manifest.progress.step == job.manifest.progress.step;
  };
  const bool is_there = is_same(running_) || std::any_of(queue_.begin(), queue_.end(), is_same);
  if (!is_there || job.options.on_existing == ExistingChoice::kReplace) return;
  throw Error("step_exists", "the step is being saved already")
      .with("path", join_path(job.root, step_name(job.manifest.progress.step)));
}

/// What each process must have before anything is copied.
void Saver::prepare_local(SaveJob* job) {
  Files& files = options_.env->files;
  const auto rank = static_cast<int32_t>(options_.world->options().first_rank);
  bool is_seen = false;
  std::string reason = "it is not there";
  try {
    is_seen = files.stat(job->temporary).kind == FileInfo::Kind::kDirectory;
  } catch (const Error& error) {
    reason = error.message();
  }
  if (!is_seen) {
    throw Error("root_not_shared", "a process does not see the directory that rank 0 has made")
        .with("path", job->temporary)
        .with("reason", reason)
        .with("rank", rank)
        .rank(rank)
        .subsystem("engine/trainer");
  }
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    job->shards.push_back(make_save_shard(ranks_.rank(local), job->options.weights_only));
  }
  job->operation->set_progress(0, job->local_bytes());
  start_thread();
  if (job->options.max_staged == 0) return;
  {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) {
      job->staging = std::make_unique<SaveStaging>();
    } else {
      job->staging = std::move(free_.back());
      free_.pop_back();
    }
    free_.reserve(free_.size() + static_cast<size_t>(staged_) + 1);  // settling must not throw
    ++staged_;
  }
  for (size_t local = 0; local < job->shards.size(); ++local) {
    SaveShard& shard = job->shards[local];
    shard.staged = job->staging->take(local, shard.elements);
  }
}

void Saver::snapshot(const SaveJob& job, int64_t local) {
  Rank& rank = ranks_.rank(local);
  check_rounding(rank);
  const SaveShard& shard = job.shards[static_cast<size_t>(local)];
  if (shard.staged != nullptr) stage(rank, shard);
}

std::shared_ptr<AsyncOperation> Saver::start(const std::shared_ptr<SaveJob>& job) {
  std::shared_ptr<AsyncOperation> operation = job->operation;
  const std::lock_guard lock(mutex_);
  if (job->is_skipped) {
    ++counts_.skipped;
    operation->finish(skipped_report(*job));
    return operation;
  }
  queue_.push_back(job);
  job->number = ++started_;
  changed_.notify_all();
  return operation;
}

void Saver::drop(SaveJob& job) {
  {
    const std::lock_guard lock(mutex_);
    // Its memory is not kept: a part of the call may still be copying.
    if (job.staging != nullptr) --staged_;
  }
  RootWriter* const root = job.temporary.empty() ? nullptr : find_root(job.root);
  if (root != nullptr) root->discard(job.temporary);
}

/// In rank 0's process: null before the first save into it. Elsewhere null.
RootWriter* Saver::find_root(const std::string& path) const {
  const std::lock_guard lock(mutex_);
  const auto found = roots_.find(path);
  return found == roots_.end() ? nullptr : found->second.get();
}

void Saver::start_thread() {
  if (thread_.joinable()) return;
  thread_ = start_library_thread([this] {
    constexpr char kName[] = "plait-save";
    enter_library_thread(kName, false);
    if (options_.hooks.start) options_.hooks.start(kName);
    run();
    if (options_.hooks.stop) options_.hooks.stop();
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    changed_.notify_all();
  });
}

void Saver::run() {
  std::unique_lock lock(mutex_);
  for (;;) {
    const auto has_news = [&] { return is_stopping_ || !queue_.empty(); };
    while (!changed_.wait_for(lock, kIdleLook, has_news)) {
    }
    if (queue_.empty()) return;
    running_ = std::move(queue_.front());
    queue_.pop_front();
    const std::shared_ptr<SaveJob> job = running_;
    lock.unlock();
    write(*job);
    lock.lock();
    running_.reset();
    changed_.notify_all();
  }
}

/// Whoever sees an operation ended may save again at once.
void Saver::settle(SaveJob& job, bool is_durable) {
  const std::lock_guard lock(mutex_);
  ++(is_durable ? counts_.durable : counts_.failed);
  job.is_settled = true;
  if (job.staging == nullptr) return;
  free_.push_back(std::move(job.staging));
  --staged_;
  changed_.notify_all();
}

void Saver::write(SaveJob& job) {
  SaveRun::Place place;
  place.engine = &options_;
  place.abandoned = [this] { return abandoned(); };
  place.is_patient = &is_patient_;
  place.settle = [&](bool is_durable) { settle(job, is_durable); };
  place.root = find_root(job.root);
  SaveRun run(job, place);
  run.run();
  std::optional<Error> broken = run.take_broken();
  const std::lock_guard lock(mutex_);
  if (broken && !broken_) broken_ = std::move(broken);
}

bool Saver::wait(int64_t timeout_ms) {
  const int64_t begin = options_.env->clock.now_ns();
  std::unique_lock lock(mutex_);
  while (!is_idle()) {
    const int64_t waited_ms = (options_.env->clock.now_ns() - begin) / kNsOfMs;
    if (timeout_ms >= 0 && waited_ms >= timeout_ms) return false;
    changed_.wait_for(lock, kLookAtSaves);
  }
  return true;
}

std::optional<Error> Saver::abandoned() const {
  const std::lock_guard lock(mutex_);
  return abandoned_;
}

void Saver::hurry() {
  if (is_patient_.load()) options_.world->end_exchange(ExchangeStream::kSaves);
}

void Saver::abandon(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (!abandoned_) abandoned_ = error;
    changed_.notify_all();
  }
  hurry();
}

void Saver::close(int64_t timeout_ms) {
  if (!wait(ranks_.state() == EngineState::kLost ? 0 : timeout_ms)) {
    abandon(Error("deadline", "the engine was closed before the save was durable")
                .with("limit_ms", timeout_ms)
                .subsystem("engine/trainer"));
    const int64_t begin = options_.env->clock.now_ns();
    while (!wait(static_cast<int64_t>(kLookAtSaves.count()))) {
      hurry();
      if (options_.env->clock.now_ns() - begin > kLetGoMs * kNsOfMs) return;
    }
  }
  const std::lock_guard lock(mutex_);
  roots_.clear();
}

SaveCounts Saver::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

}  // namespace plait

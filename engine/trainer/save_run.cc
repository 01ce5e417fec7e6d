#include "engine/trainer/save_run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <utility>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "engine/comm/wire_bytes.h"
#include "engine/trainer/io_threads.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr int64_t kMsInNs = 1'000'000;
/// How long an abandoned save waits for others to hear of it.
constexpr int64_t kFarewellMs = 500;

/// "2026-01-31T12:00:00Z".
std::string utc_text(int64_t wall_ns) {
  const std::chrono::sys_seconds now{std::chrono::seconds(wall_ns / 1'000'000'000)};
  const auto day = std::chrono::floor<std::chrono::days>(now);
  const std::chrono::year_month_day date(day);
  const std::chrono::hh_mm_ss<std::chrono::seconds> time(now - day);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                static_cast<int>(time.seconds().count()));
  return text;
}

std::string encode_files(const std::vector<SavedFile>& files) {
  ByteWriter out;
  for (const SavedFile& file : files) {
    out.number(file.ordinal).number(file.tensor).number(file.pipeline).number(file.data);
    out.number(file.plt_bytes).number(file.idx_bytes);
    out.number(file.idx_hash.low).number(file.idx_hash.high);
  }
  return out.bytes();
}

void decode_files(const std::string& text, std::vector<SavedFile>* files) {
  ByteReader in(text);
  while (!in.rest().empty()) {
    SavedFile file;
    file.ordinal = in.number<uint32_t>();
    file.tensor = in.number<uint32_t>();
    file.pipeline = in.number<uint32_t>();
    file.data = in.number<uint32_t>();
    file.plt_bytes = in.number<int64_t>();
    file.idx_bytes = in.number<int64_t>();
    file.idx_hash.low = in.number<uint64_t>();
    file.idx_hash.high = in.number<uint64_t>();
    check(in.is_good(), "a process tells of whole files");
    files->push_back(file);
  }
}

/// Place of a (tensor, kind) among all of a manifest's.
std::vector<size_t> first_states(const Manifest& manifest) {
  std::vector<size_t> first = {0};
  for (const SavedTensor& tensor : manifest.tensors) {
    first.push_back(first.back() + tensor.states.size());
  }
  return first;
}

size_t state_place(const Manifest& manifest, const std::vector<size_t>& first, const Slice& slice) {
  const std::vector<TensorState>& states = manifest.tensors[slice.tensor].states;
  const auto found = std::find_if(states.begin(), states.end(), [&](const TensorState& state) {
    return state.kind == slice.kind;
  });
  check(found != states.end(), "a slice is of a kind that its tensor has");
  return first[slice.tensor] + static_cast<size_t>(found - states.begin());
}

/// Adds the values of `text` to `sums`.
void add_digests(const std::string& text, std::vector<uint64_t>* sums) {
  check(text.size() == sums->size() * sizeof(uint64_t), "all processes sum up the same states");
  for (size_t i = 0; i < sums->size(); ++i) {
    uint64_t value = 0;
    std::memcpy(&value, text.data() + i * sizeof value, sizeof value);
    (*sums)[i] += value;
  }
}

/// What all gave, or the failure of one, thrown by all.
std::vector<Answer> agreed(std::vector<Answer> answers) {
  if (const Error* error = first_failure(answers)) throw Error(*error);
  return answers;
}

}  // namespace

SaveRun::SaveRun(SaveJob& job, const Place& place)
    : job_(job), place_(place), env_(*place.engine->env), world_(*place.engine->world) {}

SaveRun::~SaveRun() = default;

void SaveRun::run() {
  try {
    const Answer written = answer_of([&] {
      write();
      return digests();
    });
    const std::vector<Answer> all_digests = agreed(round("written", written, true));
    const Answer sealed = answer_of([&] {
      seal(all_digests);
      if (const std::optional<Error> error = trouble()) throw Error(*error);
      return encode_files(files_);
    });
    commit(agreed(round("sealed", sealed, true)));
  } catch (...) {
    end_badly(std::current_exception());
  }
}

void SaveRun::end_badly(std::exception_ptr failure) noexcept {
  writers_.clear();
  if (place_.root != nullptr) place_.root->discard(job_.temporary);
  try {
    const Error error = as_error(failure);
    failure = std::make_exception_ptr(error);
    if (place_.engine->log != nullptr) {
      const bool is_wanted = error.code() == Code::kCancelled;
      place_.engine->log->write(
          is_wanted ? LogLevel::kInfo : LogLevel::kError,
          static_cast<int32_t>(world_.options().first_rank), "checkpoint",
          "a save did not succeed: step=" + std::to_string(job_.manifest.progress.step) +
              " root=" + job_.root + ": " + error.message());
    }
  } catch (...) {
    // No memory for a record: the operation says it all the same.
  }
  place_.settle(false);
  job_.operation->fail(std::move(failure));
}

/// Why this process wants to end the save before its commit.
std::optional<Error> SaveRun::trouble() const {
  if (world_.fabric().is_aborted()) {
    const std::optional<Error> error = world_.fabric().abort_error();
    return error ? *error : Error("aborted", "the engine was lost before the save was durable");
  }
  if (std::optional<Error> error = place_.abandoned()) return error;
  if (job_.operation->cancel_flag().load()) {
    return Error("cancelled", "the save was cancelled").subsystem("engine/trainer");
  }
  if (env_.clock.now_ns() < job_.deadline_ns) return std::nullopt;
  return Error("deadline", "the save did not end within its limit")
      .with("step", job_.manifest.progress.step)
      .with("limit_ms", job_.options.save_timeout_ms)
      .subsystem("engine/trainer");
}

void SaveRun::write() {
  if (const std::optional<Error> error = trouble()) throw Error(*error);
  std::vector<Shape> shapes;
  for (const SavedTensor& tensor : job_.manifest.tensors) shapes.push_back(tensor.shape);
  for (const SaveShard& shard : job_.shards) {
    auto writer =
        std::make_unique<ShardWriter>(env_.files, job_.temporary, shard.place,
                                      job_.manifest.progress.step, shapes, shard.sources());
    if (!writer->is_empty()) writers_.push_back(std::move(writer));
  }
  on_writers([&](ShardWriter& writer) {
    writer.write_slices(&job_.operation->done_bytes(), &is_stopping_);
  });
}

/// Does the work on each writer, some at a time, on threads of their own, while this one looks out
/// for reasons to stop. The first failure counts: it makes the others stop.
void SaveRun::on_writers(FunctionRef<void(ShardWriter&)> work) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto body = [&](size_t i) {
    try {
      work(*writers_[i]);
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (first == nullptr) first = std::current_exception();
      is_stopping_.store(true);
      throw;
    }
  };
  const auto look = [this] {
    try {
      if (trouble()) is_stopping_.store(true);
    } catch (...) {
      is_stopping_.store(true);  // no memory: whoever joins the writers must not throw
    }
  };
  const IoThreads threads(job_.options.io_threads, place_.engine->hooks);
  try {
    threads.run(writers_.size(), body, look);
  } catch (...) {
    if (std::optional<Error> error = trouble()) throw Error(*error);
    if (first == nullptr) throw;
    std::rethrow_exception(first);
  }
}

std::string SaveRun::digests() const {
  const std::vector<size_t> first = first_states(job_.manifest);
  std::vector<uint64_t> sums(first.back(), 0);
  for (const auto& writer : writers_) {
    for (const Slice& slice : writer->slices()) {
      sums[state_place(job_.manifest, first, slice)] += slice.digest;
    }
  }
  return {reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(uint64_t)};
}

void SaveRun::seal(const std::vector<Answer>& digests) {
  Manifest& manifest = job_.manifest;
  std::vector<uint64_t> sums(first_states(manifest).back(), 0);
  for (const Answer& answer : digests) add_digests(answer.text, &sums);
  size_t next = 0;
  for (SavedTensor& tensor : manifest.tensors) {
    for (TensorState& state : tensor.states) state.digest = sums[next++];
  }
  seal_identity(&manifest);
  std::mutex mutex;
  on_writers([&](ShardWriter& writer) {
    const SavedFile file = writer.finish(manifest.save_id);
    const std::lock_guard lock(mutex);
    files_.push_back(file);
  });
}

void SaveRun::commit(const std::vector<Answer>& files) {
  writers_.clear();
  files_.clear();
  const Answer own = answer_of([&] {
    for (const Answer& answer : files) decode_files(answer.text, &files_);
    std::sort(files_.begin(), files_.end(),
              [](const SavedFile& a, const SavedFile& b) { return a.ordinal < b.ordinal; });
    return place_.root != nullptr ? commit_step() : std::string();
  });
  const bool is_committed = place_.root != nullptr && !own.error;
  // What rank 0's process has committed stands, whoever hears of it.
  const auto end_well = [&](const std::string& committed) {
    std::string text = report(committed);
    place_.settle(true);
    job_.operation->finish(std::move(text));
  };
  if (is_committed) end_well(own.text);
  try {
    const std::vector<Answer> ended = round("ended", own, place_.root == nullptr);
    if (ended[0].error) throw Error(*ended[0].error);
    if (!is_committed) end_well(ended[0].text);
  } catch (...) {
    if (!is_committed) throw;
  }
}

/// Proves the step whole, commits it and tidies up. Path and sequence, for all.
std::string SaveRun::commit_step() {
  Manifest& manifest = job_.manifest;
  const Hash128 identity = manifest.save_id;
  manifest.files = files_;
  std::vector<ShardRecord> records;
  for (const SavedFile& file : files_) {
    const std::string path = join_path(job_.temporary, index_name(file.ordinal));
    const std::string text = read_file(env_.files, path, FormatLimits::kIndexBytes);
    records.push_back({file, decode_index(text, path, manifest, file).slices});
  }
  cover(&manifest, records);
  seal_identity(&manifest);
  check(manifest.save_id == identity, "indexes hold the digests that the processes told");
  const CommitOptions options{job_.options.on_existing == ExistingChoice::kReplace,
                              job_.options.commit == CommitChoice::kManifestLast};
  const std::string path = place_.root->commit(job_.temporary, manifest, info(), options);
  place_.root->point_latest(manifest.progress.step);
  if (job_.may_retain) {
    place_.root->retain({job_.options.keep_last, job_.options.keep_every});
  }
  uint64_t sequence = 0;
  try {
    const std::string sealed = join_path(path, "MANIFEST");
    sequence =
        open_sealed(read_file(env_.files, sealed, FormatLimits::kManifestBytes), sealed).sequence;
  } catch (const Error&) {
    // The step is durable; the report does without the number.
  }
  return ByteWriter().number(sequence).raw(path).bytes();
}

std::string SaveRun::info() const {
  const std::string& host = world_.peers()[static_cast<size_t>(world_.own_peer())].host;
  return JsonObject()
             .field("time", utc_text(env_.clock.wall_ns()))
             .field("host", host.substr(0, host.find('/')))
             .field("library", job_.manifest.format.writer)
             .field("world", world_.options().world)
             .text() +
         "\n";
}

std::string SaveRun::report(const std::string& committed) const {
  ByteReader in(committed);
  const auto sequence = in.number<uint64_t>();
  int64_t bytes = 0;
  for (const SavedFile& file : files_) bytes += file.plt_bytes + file.idx_bytes;
  return JsonObject()
      .field("path", in.rest())
      .field("step", job_.manifest.progress.step)
      .field("sequence", sequence)
      .field("bytes", bytes)
      .field("seconds", static_cast<double>(env_.clock.now_ns() - job_.begin_ns) * 1e-9)
      .text();
}

/// One exchange with all processes. Who is too late for others, or gives up while it waits for
/// them, ends its operation and stays to tell them: all must go through the same rounds.
std::vector<Answer> SaveRun::round(const char* phase, Answer own, bool may_give_up) {
  if (world_.peers().size() == 1) return {std::move(own)};
  constexpr int kMostAttempts = 3;
  const std::string name = "checkpoint_save " + std::to_string(job_.number) + " " + phase;
  for (int attempt = 1;; ++attempt) {
    // Whoever abandons the save now ends the exchange, as long as this stands.
    place_.is_patient->store(true);
    const bool is_abandoned = place_.abandoned().has_value();
    if (is_abandoned) place_.is_patient->store(false);
    try {
      const int64_t limit_ms =
          is_abandoned ? kFarewellMs : patience_ms(attempt == 1 && may_give_up && !own.error);
      std::vector<Answer> answers = tell_all(world_, name, own, limit_ms, ExchangeStream::kSaves);
      place_.is_patient->store(false);
      return answers;
    } catch (...) {
      place_.is_patient->store(false);
      const Error error = as_error(std::current_exception());
      if (error.word() != "deadline" || is_abandoned || attempt == kMostAttempts) {
        broken_ = error;
        throw own.error ? *own.error : error;
      }
      if (!may_give_up || own.error) continue;
      const std::optional<Error> why = trouble();
      own.error = why ? *why : error;
      job_.operation->fail(std::make_exception_ptr(*own.error));
    }
  }
}

int64_t SaveRun::patience_ms(bool is_until_deadline) const {
  if (!is_until_deadline) return job_.options.save_timeout_ms;
  return std::max<int64_t>((job_.deadline_ns - env_.clock.now_ns()) / kMsInNs, 1);
}

}  // namespace plait

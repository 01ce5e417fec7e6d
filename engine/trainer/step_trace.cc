#include "engine/trainer/step_trace.h"

#include <algorithm>
#include <utility>

#include "engine/trainer/trace_text.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

/// Most that the traces of a process may take.
constexpr int64_t kMostBytes = int64_t{1} << 30;

/// Room for one step of the global batch. How often ranks speak to each other depends on the model;
/// these are more times than any unit does in a pass, and in the rest of a step.
TraceRoom room_of_step(const Rank& rank, const Schedule& schedule) {
  constexpr int64_t kTensorCalls = 16, kDataCalls = 8, kClosingCalls = 256;
  const Mesh& mesh = rank.mesh();
  size_t units = 0;
  for (const auto& stage : rank.stages()) units = std::max(units, stage->units().size());
  const int64_t calls = (mesh.size(Axis::kTensor) > 1 ? kTensorCalls : 0) +
                        (mesh.size(Axis::kData) > 1 ? kDataCalls : 0);
  TraceRoom room;
  const auto& list = schedule.lists[static_cast<size_t>(rank.at().pipeline)];
  room.instructions = static_cast<int64_t>(list.size());
  if (mesh.world() > 1) {
    room.operations = room.instructions * (calls * static_cast<int64_t>(units) + 2) + kClosingCalls;
  }
  return room;
}

int64_t bytes_of(const TraceRoom& room) {
  return room.instructions * static_cast<int64_t>(sizeof(TraceEvent)) +
         room.operations * static_cast<int64_t>(sizeof(OperationRecord));
}

std::string share_text(const std::optional<double>& share) {
  return share ? json_number(*share) : "null";
}

}  // namespace

StepTrace::StepTrace(Env& env, Log* log, int64_t first_rank)
    : env_(env), log_(log), first_rank_(first_rank) {}

std::string StepTrace::path_in(const std::string& directory) const {
  return join_path(directory, "trace-" + std::to_string(first_rank_) + ".json");
}

void StepTrace::check_directory(const std::string& directory) const {
  if (directory.empty()) return;
  const std::string path = path_in(directory) + ".tmp";
  try {
    env_.files.create(path, false);
    env_.files.unlink(path);
  } catch (Error& error) {
    throw std::move(error).with("key", "trace.directory").subsystem("engine/trainer");
  }
}

void StepTrace::drop(RankSet& ranks) {
  left_ = 0;
  for (int64_t local = 0; local < ranks.size(); ++local) ranks.rank(local).executor().trace({});
}

void StepTrace::begin(RankSet& ranks, int64_t steps) {
  if (steps == 0) {
    if (!is_on()) return;
    drop(ranks);
    const std::lock_guard lock(mutex_);
    is_begun_ = false;
    return;
  }
  const Schedule schedule = make_schedule(ranks.rank(0).shape());
  std::vector<TraceRoom> rooms;
  std::vector<RankPlace> places;
  int64_t bytes = 0;
  for (int64_t local = 0; local < ranks.size(); ++local) {
    const Rank& rank = ranks.rank(local);
    rooms.push_back(room_of_step(rank, schedule));
    places.push_back({rank.rank(), rank.at()});
    bytes += bytes_of(rooms.back());
  }
  if (steps > kMostBytes / bytes) {
    throw Error("too_large", "a trace of so many steps takes too much memory")
        .with("key", "trace.steps")
        .with("value", steps)
        .with("most", kMostBytes / bytes)
        .with("bytes_of_step", bytes)
        .with("limit", kMostBytes)
        .subsystem("engine/trainer")
        .disposition(Disposition::kUnchanged);
  }
  IdleMeter meter(ranks.size(), schedule.shape.pipeline * schedule.shape.chunks);
  drop(ranks);
  try {
    for (int64_t local = 0; local < ranks.size(); ++local) {
      const TraceRoom& room = rooms[static_cast<size_t>(local)];
      ranks.rank(local).executor().trace({room.instructions * steps, room.operations * steps});
    }
    seen_.assign(rooms.size(), 0);
  } catch (...) {
    drop(ranks);
    throw;
  }
  const std::lock_guard lock(mutex_);
  meter_ = std::move(meter);
  places_ = std::move(places);
  steps_ = left_out_ = 0;
  is_begun_ = true;
  is_done_ = false;
  even_share_.reset();
  simulated_share_.reset();
  file_.clear();
  error_.reset();
  left_ = steps;
}

void StepTrace::end_call(RankSet& ranks) {
  const std::lock_guard lock(mutex_);
  for (int64_t local = 0; local < ranks.size(); ++local) {
    const std::vector<TraceEvent>& events = ranks.rank(local).executor().traced();
    size_t& seen = seen_[static_cast<size_t>(local)];
    meter_.add(local, std::span(events).subspan(seen));
    seen = events.size();
  }
  meter_.end_part();
}

void StepTrace::end_step(RankSet& ranks, const std::string& directory) noexcept {
  if (!is_on()) return;
  end_call(ranks);
  {
    const std::lock_guard lock(mutex_);
    ++steps_;
  }
  if (--left_ > 0) return;
  try {
    finish(ranks, directory);
  } catch (const Error& error) {
    fail(error);
  } catch (const std::exception&) {
    fail(Error("no_memory", "the system has no memory left for the file of the trace"));
  }
  const std::lock_guard lock(mutex_);
  is_done_ = true;
}

void StepTrace::finish(RankSet& ranks, const std::string& directory) {
  struct Dropping {
    StepTrace& trace;
    RankSet& ranks;
    ~Dropping() { trace.drop(ranks); }
  } const dropping{*this, ranks};
  std::vector<TraceLane> lanes;
  int64_t left_out = 0;
  for (int64_t local = 0; local < ranks.size(); ++local) {
    const Rank& rank = ranks.rank(local);
    lanes.push_back({rank.rank(), rank.at(), rank.executor().traced(), rank.ring().traced()});
    left_out += rank.executor().untraced() + rank.ring().untraced();
  }
  {
    const std::lock_guard lock(mutex_);
    left_out_ = left_out;
  }
  simulate(ranks);
  if (directory.empty()) return;
  const std::string path = path_in(directory);
  write(path, trace_text(lanes, left_out));
  const std::lock_guard lock(mutex_);
  file_ = path;
}

void StepTrace::simulate(const RankSet& ranks) {
  const std::lock_guard lock(mutex_);
  if (!meter_.has_all_stages()) return;
  const Schedule& schedule = ranks.rank(0).schedule();
  even_share_ = meter_.even_share(schedule);
  simulated_share_ = meter_.simulated_share(schedule);
}

void StepTrace::write(const std::string& path, const std::string& text) {
  const std::string temporary = path + ".tmp";
  try {
    const auto file = env_.files.create(temporary, false);
    file->pwrite(text.data(), static_cast<int64_t>(text.size()), 0);
    file->sync();
    env_.files.rename(temporary, path);
  } catch (...) {
    try {
      env_.files.unlink(temporary);
    } catch (const Error&) {  // the first error is the one to tell
    }
    throw;
  }
}

void StepTrace::fail(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = error;
  }
  if (log_ == nullptr) return;
  log_->write(LogLevel::kWarning, static_cast<int32_t>(first_rank_), "engine/trainer",
              "the trace was not written: " + error.message());
}

std::string StepTrace::report() const {
  const std::lock_guard lock(mutex_);
  JsonArray ranks, files;
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto local = static_cast<int64_t>(i);
    ranks.add(JsonObject()
                  .field("rank", places_[i].rank)
                  .field("tensor", places_[i].at.tensor)
                  .field("pipeline", places_[i].at.pipeline)
                  .field("data", places_[i].at.data)
                  .field("busy_seconds", static_cast<double>(meter_.busy_ns(local)) * 1e-9)
                  .field("idle_share", meter_.idle_share(local))
                  .text());
  }
  if (!file_.empty()) files.add(json_string(file_));
  JsonObject report;
  report.field("state", is_done_    ? "done"
                        : is_begun_ ? "on"
                                    : "none")
      .field("steps", steps_)
      .field("pipeline_seconds", static_cast<double>(meter_.part_ns()) * 1e-9)
      .field("idle_share", meter_.idle_share())
      .raw("formula_idle_share", share_text(even_share_))
      .raw("simulated_idle_share", share_text(simulated_share_))
      .field("left_out", left_out_)
      .raw("ranks", ranks.text())
      .raw("files", files.text());
  if (!error_) return report.raw("error", "null").text();
  return report
      .raw("error", JsonObject()
                        .field("code", static_cast<int32_t>(error_->code()))
                        .field("word", error_->word())
                        .field("message", error_->message())
                        .raw("details", error_->details())
                        .text())
      .text();
}

}  // namespace plait

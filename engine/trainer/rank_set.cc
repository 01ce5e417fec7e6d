#include "engine/trainer/rank_set.h"

#include <algorithm>
#include <utility>

#include "engine/comm/announcement.h"
#include "engine/comm/endpoint.h"
#include "engine/trainer/answers.h"
#include "engine/trainer/row_digests.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

/// How long a call waits for ranks to notice an abort.
constexpr int64_t kAbortGraceMs = 900;

/// How much longer than the limit of a stall a rank waits for a peer.
constexpr int64_t kBlameMs = 2000;

/// How long a link may take to let go of what it was given.
constexpr int64_t kSettleMs = 1000;

/// How long the processes that are left may take to agree on what they report.
constexpr int64_t kVerdictMs = 1200;

/// Groups of one engine: one an axis, and the leaders of processes.
constexpr uint32_t kGroupsOfEngine = kAxes + 1;

int64_t share_of_threads(int64_t threads, int64_t ranks, int64_t local) {
  return std::max<int64_t>(threads / ranks + (local < threads % ranks ? 1 : 0), 1);
}

}  // namespace

RankSet::RankSet(const Settings& settings, const EngineOptions& options)
    : settings_(settings),
      options_(options),
      mesh_(settings.layout.tensor, settings.layout.pipeline, settings.layout.data) {}

RankSet::~RankSet() {
  is_aborted_.store(true);
  const bool is_busy = crew_ != nullptr && !crew_->running().empty();
  if (is_busy) {
    tell(Error("aborted", "the engine was freed")
             .rank(static_cast<int32_t>(options_.world->options().first_rank)));
  }
  crew_.reset();  // ends the parts that may still run
  // A link may look at the ranks' buffers for a moment longer.
  if (options_.world->is_complete()) options_.world->fabric().settle(kSettleMs);
  leaders_.reset();
  ranks_.clear();
}

void RankSet::start(const Config& config, int64_t timeout_ms) {
  const WorldOptions& world = options_.world->options();
  compare_configs(config, timeout_ms);
  first_group_ = options_.world->fabric().take_group_ids(kGroupsOfEngine);
  ranks_.resize(static_cast<size_t>(world.local_ranks));
  RankCrew::Options crew;
  crew.first_rank = world.first_rank;
  crew.local_ranks = world.local_ranks;
  crew.is_flushing = settings_.precision.flush_to_zero;
  crew.hooks = options_.hooks;
  crew.on_failure = [this](int64_t local, const std::exception_ptr& failure) {
    on_failure(local, failure);
  };
  crew_ = std::make_unique<RankCrew>(crew, options_.env->clock);
  Call call;
  call.name = "engine_create";
  call.timeout_ms = timeout_ms;
  call.part = [this](int64_t local) { build(local); };
  begin();
  try {
    run_parts(call);
  } catch (...) {
    end();
    throw;
  }
  end();
}

/// All processes must have been given the same keys, but for local ones.
void RankSet::compare_configs(const Config& config, int64_t timeout_ms) {
  if (is_alone()) return;
  const int64_t limit = timeout_ms > 0 ? timeout_ms : settings_.timeout.init_ms;
  const auto all = world().exchange("engine_create", config.dump_json(true), limit);
  const Config* first_differing = nullptr;
  JsonArray table;
  std::string keys;
  for (size_t peer = 0; peer < all.size(); ++peer) {
    Config other;
    other.load_json(all[peer]);
    for (const KeyDifference& difference : differences(config, other)) {
      keys += (keys.empty() ? "" : ",") + std::string(difference.info->name);
      table.add(JsonObject()
                    .field("key", difference.info->name)
                    .field("rank", world().options().first_rank)
                    .field("value", difference.first)
                    .field("other_rank", world().peers()[peer].first_rank)
                    .field("other_value", difference.second)
                    .text());
      first_differing = &config;
    }
  }
  if (first_differing == nullptr) return;
  throw Error("mismatch", "the processes were given different configurations")
      .with("keys", keys)
      .with_raw("differences", table.text())
      .subsystem("engine/trainer");
}

void RankSet::build(int64_t local) {
  const WorldOptions& world = options_.world->options();
  Fabric& fabric = options_.world->fabric();
  const int64_t threads = settings_.device.threads > 0 ? settings_.device.threads : usable_cores();
  Rank::Place place;
  place.mesh = mesh_;
  place.rank = world.first_rank + local;
  place.threads = static_cast<int>(share_of_threads(threads, world.local_ranks, local));
  place.first_group = first_group_;
  auto rank = std::make_unique<Rank>(settings_, fabric, place, options_.env->clock, options_.hooks,
                                     Rank::Flags{&is_aborted_, &progress_, &is_stop_requested_});
  if (local == 0 && !is_alone()) {
    std::vector<int64_t> firsts;
    for (const WorldPeer& peer : options_.world->peers()) firsts.push_back(peer.first_rank);
    leaders_ =
        std::make_unique<Communicator>(fabric.endpoint(place.rank), "leaders", first_group_ + kAxes,
                                       std::move(firsts), &rank->device().pool());
  }
  rank->draw_weights();
  ranks_[static_cast<size_t>(local)] = std::move(rank);
}

void RankSet::check_usable() const {
  switch (state_.load()) {
    case EngineState::kReady:
      return;
    case EngineState::kRunning:
      throw Error("busy", "another call on this engine is running").subsystem("engine/trainer");
    case EngineState::kClosed:
      throw Error("closed", "the engine is closed").subsystem("engine/trainer");
    case EngineState::kLost:
      break;
  }
  throw Error("aborted", "the engine is lost; free it and its group, make new ones and load")
      .subsystem("engine/trainer")
      .rank(static_cast<int32_t>(world().options().first_rank));
}

void RankSet::begin() {
  EngineState expected = EngineState::kReady;
  if (!state_.compare_exchange_strong(expected, EngineState::kRunning)) check_usable();
  // A peer may have been lost between two calls.
  if (!world().fabric().is_aborted()) return;
  lose();
  throw_failure();
}

void RankSet::end() {
  EngineState running = EngineState::kRunning;
  state_.compare_exchange_strong(running, EngineState::kReady);
}

void RankSet::lose() {
  is_aborted_.store(true);
  state_.store(EngineState::kLost);
}

void RankSet::abort() {
  if (state_.load() == EngineState::kClosed) return;
  const auto rank = static_cast<int32_t>(world().options().first_rank);
  lose();
  tell(Error("aborted", "the engine was aborted").rank(rank));
}

void RankSet::close(int64_t timeout_ms) {
  if (state_.load() == EngineState::kRunning) check_usable();
  const bool is_lost = state_.load() == EngineState::kLost;
  if (!is_lost) state_.store(EngineState::kClosed);
  // A process that goes while others finish a step must not look like one that died.
  if (!is_lost && !is_alone()) {
    world().leave(timeout_ms > 0 ? timeout_ms : settings_.timeout.close_ms);
  }
}

void RankSet::remember_step(double seconds) {
  recent_seconds_[static_cast<size_t>(timed_steps_) % recent_seconds_.size()] = seconds;
  ++timed_steps_;
}

int64_t RankSet::stall_limit_ms() const {
  const TimeoutConfig& t = settings_.timeout;
  if (timed_steps_ < 5) return t.first_steps_ms;
  std::array<double, 9> sorted = recent_seconds_;
  const auto count = static_cast<size_t>(std::min<int64_t>(timed_steps_, 9));
  std::sort(sorted.begin(), sorted.begin() + static_cast<int64_t>(count));
  const double median_ms = 1000.0 * sorted[count / 2];
  return std::max(t.stall_min_ms, static_cast<int64_t>(t.stall_fail * median_ms));
}

/// As the limit, in proportion; 0 as long as no median is known.
int64_t RankSet::stall_warning_ms() const {
  if (timed_steps_ < 5) return 0;
  const TimeoutConfig& t = settings_.timeout;
  return static_cast<int64_t>(static_cast<double>(stall_limit_ms()) * t.stall_warn / t.stall_fail);
}

/// The local half failed or not: every process learns it before any rank computes.
void RankSet::agree(const Call& call) {
  std::optional<Error> failure;
  try {
    if (call.prepare) (*call.prepare)();
  } catch (...) {
    if (is_alone() || call.prepares_together) throw;
    failure = as_error(std::current_exception());
  }
  if (is_alone() || call.prepares_together) return;
  const std::string value = "=" + call.value;
  const std::string own = failure ? "!" + encode_error(*failure) : value + "\n" + call.rows;
  const int64_t limit = call.timeout_ms > 0 ? call.timeout_ms : stall_limit_ms();
  const auto all = world().exchange(call.name, own, limit);
  for (const std::string& value : all) {
    if (value[0] != '!') continue;
    Error error("invariant", "a process failed and could not say why");
    decode_error(std::string_view(value).substr(1), &error);
    throw error;
  }
  JsonArray table;
  bool differs = false;
  std::vector<std::string_view> rows;
  for (size_t peer = 0; peer < all.size(); ++peer) {
    const std::string_view text = all[peer];
    const size_t end = text.find('\n');
    differs = differs || text.substr(0, end) != value;
    rows.push_back(text.substr(std::min(end, text.size() - 1) + 1));
    table.add(JsonObject()
                  .field("rank", world().peers()[peer].first_rank)
                  .field("call", call.name)
                  .field("value", text.substr(1, end - 1))
                  .text());
  }
  if (!differs) return compare_rows(rows, world().peers());
  throw Error("mismatch", "the processes made the same call with different arguments")
      .with("call", call.name)
      .with_raw("calls", table.text())
      .subsystem("engine/trainer");
}

void RankSet::run(const Call& call) {
  begin();
  try {
    agree(call);
  } catch (const Error& error) {
    if (error.disposition() >= Disposition::kEngineLost || world().fabric().is_aborted()) lose();
    end();
    throw;
  } catch (...) {
    end();
    throw;
  }
  try {
    run_parts(call);
  } catch (...) {
    end();  // unless the engine is lost
    throw;
  }
  end();
}

void RankSet::run_parts(const Call& call) {
  const int64_t stall = stall_limit_ms();
  // The process whose rank computes without end knows it. The others only see whom they wait for,
  // who may be waiting too: they leave it the time to say so.
  if (!is_alone()) world().fabric().set_wait_limit_ms(stall + kBlameMs);
  RankCrew::Limits limits;
  limits.timeout_ms = call.timeout_ms;
  limits.stall_ms = stall;
  if (!is_alone()) limits.is_stalled = [this] { return !suspect().is_waiting; };
  limits.warn_ms = stall_warning_ms();
  limits.on_slow = [this, &call](int64_t waited_ms) { warn_of_standstill(call, waited_ms); };
  limits.progress = &progress_;
  const RankCrew::End end = crew_->run(call.part, limits);
  if (end != RankCrew::End::kDone) throw_late(end, call);
  if (crew_->failure() != nullptr) throw_failure();
}

/// Ends the waits of all ranks. A single rank waits for nobody, and its group stays good.
void RankSet::tell(const Error& error) {
  if (mesh_.world() > 1) world().abort(error);
}

/// On the failing rank's thread: peers must not wait for it.
void RankSet::on_failure(int64_t local, const std::exception_ptr& failure) {
  if (mesh_.world() == 1) return;
  Error error = as_error(failure);
  const auto own = static_cast<int32_t>(world().options().first_rank + local);
  const int32_t rank = error.rank() < 0 ? own : error.rank();
  is_aborted_.store(true);
  tell(std::move(error).rank(rank).disposition(Disposition::kEngineLost));
}

void RankSet::throw_failure() {
  if (world().fabric().is_aborted()) {
    lose();
    // Several processes may have met different errors; all of them report one.
    std::optional<Error> verdict = world().verdict(kVerdictMs);
    if (!verdict) verdict = world().fabric().abort_error();
    throw Error(*verdict);
  }
  const std::exception_ptr failure = crew_->failure();
  const Error error = as_error(failure);
  const bool is_lost = error.disposition() >= Disposition::kEngineLost ||
                       error.word() == "invariant" || is_aborted_.load();
  if (is_lost) lose();
  end();
  std::rethrow_exception(failure);
}

RankSet::Suspect RankSet::suspect() const {
  Suspect found;
  found.rank = static_cast<int32_t>(world().options().first_rank);
  for (const int64_t local : crew_->running()) {
    if (ranks_[static_cast<size_t>(local)] == nullptr) continue;
    const int64_t number = world().options().first_rank + local;
    const auto records = ranks_[static_cast<size_t>(local)]->ring().recent();
    // Records do not tell: a collective that was begun earlier may be what is waited for.
    const bool is_waiting = world().fabric().endpoint(number).is_waiting();
    if (!found.phase.empty() && is_waiting) continue;
    found = {static_cast<int32_t>(number), records.empty() ? "" : records.back().name, is_waiting};
    if (!is_waiting) break;
  }
  return found;
}

void RankSet::warn_of_standstill(const Call& call, int64_t waited_ms) const {
  if (options_.log == nullptr) return;
  try {
    const Suspect slow = suspect();
    options_.log->write(LogLevel::kWarning, slow.rank, "engine/trainer",
                        "no progress for " + std::to_string(waited_ms) + " ms in " + call.name +
                            ": rank " + std::to_string(slow.rank) +
                            (slow.is_waiting ? " waits in " : " is busy in ") +
                            (slow.phase.empty() ? call.name : slow.phase));
  } catch (const std::bad_alloc&) {
    // The parts still run: no warning is worth leaving them.
  }
}

void RankSet::throw_late(RankCrew::End end, const Call& call) {
  lose();
  const bool is_timeout = end == RankCrew::End::kTimeout;
  const auto [rank, phase, is_waiting] = suspect();
  Error error =
      Error(is_timeout ? "deadline" : "stalled",
            is_timeout ? "the call did not end within its limit" : "a rank makes no progress")
          .with("rank", rank)
          .with("phase", phase.empty() ? call.name : phase.c_str())
          .with("limit_ms", is_timeout ? call.timeout_ms : stall_limit_ms())
          .rank(rank)
          .subsystem("engine/trainer")
          .disposition(Disposition::kEngineLost);
  tell(error);
  crew_->wait(kAbortGraceMs);
  throw error;
}

}  // namespace plait

#include "engine/trainer/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "engine/comm/endpoint.h"
#include "engine/config/checks.h"
#include "engine/config/settings.h"
#include "engine/planner/job.h"
#include "engine/trainer/answers.h"
#include "engine/trainer/measure_compute.h"
#include "engine/trainer/measure_links.h"
#include "engine/trainer/measure_rank.h"
#include "engine/trainer/measure_text.h"
#include "engine/trainer/rank_crew.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr const char* kMeasureCall = "group_measure";
/// How often the call looks at its limit and its stop.
constexpr int64_t kLookMs = 100;
/// How long ranks may take to the next point where they agree, and then to notice an abort.
constexpr int64_t kAgreeMs = 500, kGoMs = 900;
/// How long a link may take to let go of what it was given.
constexpr int64_t kForgetMs = 1000;

/// What a CPU does in a few seconds.
constexpr MeasureEffort kLinkEffort = {5, 20, 0.05, 0.25};
constexpr MeasureEffort kComputeEffort = {2, 10, 0.3, 2};
constexpr double kComputeSeconds = 15;
/// Share of a rank's memory that is taken.
constexpr int64_t kMemoryShare = 8;
constexpr int64_t kUnknownMemory = int64_t{1} << 30;

/// Ranks of a machine, where runs of so many consecutive ranks share one; 1 where they do not.
int64_t ranks_of_machines(const World& world) {
  std::vector<const std::string*> hosts;
  for (const WorldPeer& peer : world.peers()) {
    hosts.insert(hosts.end(), static_cast<size_t>(peer.local_ranks), &peer.host);
  }
  const auto count = static_cast<int64_t>(hosts.size());
  for (int64_t devices = count; devices > 1; --devices) {
    if (count % devices != 0) continue;
    bool shares = true;
    for (int64_t rank = 0; rank < count && shares; ++rank) {
      shares = *hosts[static_cast<size_t>(rank)] ==
               *hosts[static_cast<size_t>(rank / devices * devices)];
    }
    if (shares) return devices;
  }
  return 1;
}

std::string day_text(int64_t wall_ns) {
  const std::chrono::sys_seconds now{std::chrono::seconds(wall_ns / 1'000'000'000)};
  const std::chrono::year_month_day date(std::chrono::floor<std::chrono::days>(now));
  char text[32];
  std::snprintf(text, sizeof text, "%04d-%02u-%02u", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()));
  return text;
}

class Measurement {
 public:
  Measurement(const Config& config, const MeasureOptions& options, MeasureScope scope,
              int64_t timeout_ms)
      : config_(config),
        options_(options),
        scope_(scope),
        timeout_ms_(timeout_ms),
        timeout_(make_timeout(config)),
        begin_ns_(options.env->clock.now_ns()) {}
  ~Measurement();

  Outcome run(std::string* fragment);

 private:
  World& world() const { return *options_.world; }
  const WorldOptions& place() const { return options_.world->options(); }
  bool is_alone() const { return world().peers().size() == 1; }
  int64_t passed_ms() const { return (options_.env->clock.now_ns() - begin_ns_) / 1'000'000; }
  int64_t left_ms() const;
  bool is_late() const { return timeout_ms_ > 0 && passed_ms() >= timeout_ms_; }
  bool is_asked_to_stop() const { return options_.is_stop_wanted->load() || is_late(); }

  void prepare();
  void prepare_compute();
  void set_memory(int64_t bytes);
  void agree_on_call();
  void compare(const std::vector<Answer>& answers) const;
  void measure_all();
  void measure_local(int64_t local);
  bool has_waited_enough();
  [[noreturn]] void give_up(RankCrew& crew);
  [[noreturn]] void throw_own_end(Disposition disposition) const;
  void give_back();
  std::string text() const;

  const Config& config_;
  const MeasureOptions& options_;
  const MeasureScope scope_;
  const int64_t timeout_ms_;
  const TimeoutConfig timeout_;
  const int64_t begin_ns_;
  DeviceOptions device_;
  LinkProbe links_;
  ComputeProbe compute_;
  MachineFacts facts_;
  int64_t node_devices_ = 1;
  uint32_t first_group_ = 0, groups_ = 0;
  std::atomic<bool> is_stopping_{false}, is_aborted_{false};
  std::optional<int64_t> asked_ms_;  // when the end was asked for
  bool is_stopped_ = false;          // at a point that all agreed on
  // By local rank. Peers may look into a rank's buffers until all ranks are out of their calls.
  std::vector<std::unique_ptr<MeasureRank>> ranks_;
  MeasuredHardware result_;  // written by local rank 0
};

Measurement::~Measurement() {
  if (!ranks_.empty()) world().fabric().settle(kForgetMs);
}

int64_t Measurement::left_ms() const {
  const int64_t limit = timeout_ms_ > 0 ? timeout_ms_ : timeout_.first_steps_ms;
  return std::max<int64_t>(limit - passed_ms(), 1);
}

/// Everything that can be wrong with the arguments.
void Measurement::prepare() {
  const DeviceConfig device = make_device(config_);
  const int64_t threads = device.threads > 0 ? device.threads : usable_cores();
  device_.kind = device.device;
  device_.isa = device.isa;
  device_.hooks = options_.hooks;
  device_.is_flushing = config_.get_boolean("precision.flush_to_zero");
  device_.threads = 1;
  plait::make_device(device_);  // tried before anybody measures
  device_.threads = static_cast<int>(std::max<int64_t>(threads / place().local_ranks, 1));
  node_devices_ = ranks_of_machines(world());
  facts_ = machine_facts(options_.env->files);
  if (scope_ != MeasureScope::kLinks) prepare_compute();
}

/// The same on all ranks: the machine with the least memory decides.
void Measurement::set_memory(int64_t bytes) {
  facts_.memory_bytes = bytes;
  const int64_t memory = bytes > 0 ? bytes : kUnknownMemory;
  compute_.most_bytes = memory / (kMemoryShare * node_devices_);
  if (scope_ == MeasureScope::kCompute) return;
  links_.effort = kLinkEffort;
  links_.tilings = group_tilings(place().world, node_devices_);
  int64_t message = 0;
  for (const ComputeCase& at : compute_.cases) {
    const Job& job = *compute_.job;
    message = std::max(message, at.micro_batch * job.train.sequence_length * job.model.hidden *
                                    dtype_size(compute_.dtype));
  }
  links_.sizes = message_sizes(compute_.most_bytes / 2, message);
}

void Measurement::prepare_compute() {
  const PrecisionConfig precision = make_precision(config_);
  compute_.dtype = precision.compute;
  compute_.effort = kComputeEffort;
  compute_.most_seconds = kComputeSeconds;
  if (!config_.is_set("model.hidden")) return;
  check_model(config_);
  check_train(config_);
  Job job;
  job.model = make_model(config_);
  job.precision = precision;
  job.train = make_train(config_);
  job.profile = find_profile("plait");
  compute_.cases = compute_cases(job, make_layout(config_), place().world);
  compute_.job = std::move(job);
}

/// All processes measure the same, or none does.
void Measurement::agree_on_call() {
  const Answer own = answer_of([&] {
    prepare();
    return std::to_string(facts_.memory_bytes) + " " + measure_scope_name(scope_) + "\n" +
           config_.dump_json(true);
  });
  if (is_alone()) {
    if (own.error) throw Error(*own.error);
    return set_memory(facts_.memory_bytes);
  }
  const auto answers = tell_all(world(), kMeasureCall, own, left_ms());
  if (const Error* error = first_error(answers, [](const Error&) { return true; })) {
    throw Error(*error);
  }
  compare(answers);
  int64_t memory = facts_.memory_bytes;
  for (const Answer& answer : answers) {
    memory = std::min<int64_t>(memory, std::strtoll(answer.text.c_str(), nullptr, 10));
  }
  set_memory(memory);
}

void Measurement::compare(const std::vector<Answer>& answers) const {
  JsonArray table;
  bool differs = false;
  for (size_t peer = 0; peer < answers.size(); ++peer) {
    const std::string& text = answers[peer].text;
    const size_t space = text.find(' '), end = text.find('\n');
    const std::string scope = text.substr(space + 1, end - space - 1);
    differs = differs || scope != measure_scope_name(scope_);
    JsonObject row;
    row.field("rank", world().peers()[peer].first_rank).field("what", scope);
    Config other;
    other.load_json(text.substr(end + 1));
    for (const KeyDifference& difference : differences(config_, other)) {
      differs = true;
      row.field(difference.info->name, difference.second);
    }
    table.add(row.text());
  }
  if (!differs) return;
  throw Error("mismatch", "the processes measure different things")
      .with("call", kMeasureCall)
      .with_raw("calls", table.text())
      .subsystem("engine/trainer");
}

/// On the thread of a rank.
void Measurement::measure_local(int64_t local) {
  MeasureRank::Place at;
  at.rank = place().first_rank + local;
  at.group = first_group_;
  ranks_[static_cast<size_t>(local)] =
      std::make_unique<MeasureRank>(world().fabric(), at, device_, options_.env->clock,
                                    MeasureRank::Flags{&is_stopping_, &is_aborted_});
  MeasureRank& rank = *ranks_[static_cast<size_t>(local)];
  std::optional<LinkCosts> links;
  std::optional<ComputeCosts> compute;
  try {
    if (scope_ != MeasureScope::kCompute) links = measure_links(rank, links_);
    if (scope_ != MeasureScope::kLinks) compute = measure_compute(rank, compute_);
    rank.agree({});
  } catch (const MeasureStopped&) {
    if (local == 0) is_stopped_ = true;
    return;
  }
  if (local != 0) return;
  result_.links = std::move(links);
  result_.compute = std::move(compute);
  result_.isa = isa_name(rank.device().isa());
  result_.units = rank.device().pool().threads();
}

/// Every 100 ms on the thread of the call. True: the end was asked for, and the ranks do not come
/// to the point where they would agree on it.
bool Measurement::has_waited_enough() {
  if (!is_asked_to_stop()) return false;
  is_stopping_.store(true);
  if (!asked_ms_) asked_ms_ = passed_ms();
  return passed_ms() - *asked_ms_ >= kAgreeMs;
}

void Measurement::throw_own_end(Disposition disposition) const {
  const auto rank = static_cast<int32_t>(place().first_rank);
  if (options_.is_stop_wanted->load()) {
    throw Error("aborted", "the measurement was ended by its host")
        .rank(rank)
        .subsystem("engine/trainer")
        .disposition(disposition);
  }
  throw Error("deadline", "the measurement did not end within its limit")
      .with("limit_ms", timeout_ms_)
      .rank(rank)
      .subsystem("engine/trainer")
      .disposition(disposition);
}

void Measurement::give_up(RankCrew& crew) {
  is_aborted_.store(true);
  const bool has_peers = place().world > 1;
  const Disposition disposition = has_peers ? Disposition::kEngineLost : Disposition::kUnchanged;
  try {
    throw_own_end(disposition);
  } catch (const Error& error) {
    if (has_peers) world().abort(error);
    crew.wait(kGoMs);
    throw;
  }
}

void Measurement::measure_all() {
  ranks_.resize(static_cast<size_t>(place().local_ranks));
  RankCrew::Options options;
  options.first_rank = place().first_rank;
  options.local_ranks = place().local_ranks;
  options.is_flushing = device_.is_flushing;
  options.hooks = options_.hooks;
  options.on_failure = [this](int64_t local, const std::exception_ptr& failure) {
    is_aborted_.store(true);
    if (place().world == 1) return;
    const auto rank = static_cast<int32_t>(place().first_rank + local);
    world().abort(as_error(failure).rank(rank).disposition(Disposition::kEngineLost));
  };
  if (!is_alone()) world().fabric().set_wait_limit_ms(timeout_.first_steps_ms);
  RankCrew crew(options, options_.env->clock);
  RankCrew::Limits limits;
  limits.stall_ms = kLookMs;
  limits.is_stalled = [this] { return has_waited_enough(); };
  const RankCrew::End end = crew.run([this](int64_t local) { measure_local(local); }, limits);
  if (end != RankCrew::End::kDone) give_up(crew);
  if (crew.failure() == nullptr) return;
  if (place().world > 1) {
    // Several ranks may have met different errors; all processes report one.
    if (const auto verdict = world().verdict(kGoMs)) throw Error(*verdict);
  }
  std::rethrow_exception(crew.failure());
}

/// What the fabric kept of the groups that are gone.
void Measurement::give_back() {
  Fabric& fabric = world().fabric();
  fabric.settle(kForgetMs);
  ranks_.clear();
  for (int64_t local = 0; local < place().local_ranks; ++local) {
    fabric.endpoint(place().first_rank + local).give_back(first_group_, groups_);
  }
}

std::string Measurement::text() const {
  MeasuredHardware hardware = result_;
  hardware.kind = device_.kind;
  hardware.model = facts_.model;
  hardware.memory_bytes = facts_.memory_bytes / node_devices_;
  hardware.node_devices = node_devices_;
  hardware.dtype = compute_.dtype;
  const std::string peak =
      std::string("hardware.device.peak_flops_per_second.") + dtype_name(compute_.dtype);
  if (config_.is_set(peak)) hardware.given_peak = config_.get_real(peak);
  const int64_t ranks = place().world;
  hardware.provenance = "measured " + day_text(options_.env->clock.wall_ns()) + " by version " +
                        PLAIT_VERSION + ": measure-links --what " + measure_scope_name(scope_) +
                        ", " + std::to_string(ranks) + (ranks == 1 ? " rank" : " ranks");
  return hardware_text(hardware);
}

Outcome Measurement::run(std::string* fragment) {
  try {
    agree_on_call();
  } catch (const Error& error) {
    const bool is_ended = error.word() == "deadline" && options_.is_stop_wanted->load();
    if (is_ended) throw_own_end(Disposition::kUnchanged);
    throw;
  }
  Fabric& fabric = world().fabric();
  groups_ = 1 + links_.groups_needed();
  first_group_ = fabric.take_group_ids(groups_);
  links_.first_group = first_group_ + 1;
  measure_all();
  give_back();
  if (is_stopped_) {
    if (is_asked_to_stop()) throw_own_end(Disposition::kUnchanged);
    return Outcome::kStopped;
  }
  *fragment = text();
  if (is_alone()) return Outcome::kDone;
  Answer own;
  own.text = *fragment;
  *fragment = tell_all(world(), kMeasureCall, own, left_ms()).front().text;
  return Outcome::kDone;
}

}  // namespace

const char* measure_scope_name(MeasureScope scope) {
  switch (scope) {
    case MeasureScope::kLinks:
      return "links";
    case MeasureScope::kCompute:
      return "compute";
    case MeasureScope::kAll:
      break;
  }
  return "all";
}

Outcome measure(const Config& config, const MeasureOptions& options, MeasureScope scope,
                int64_t timeout_ms, std::string* fragment) {
  if (!options.world->is_complete()) {
    throw Error("missing_ranks", "the group is not complete: join it before it is measured")
        .with("world", options.world->options().world)
        .with("local_ranks", options.world->options().local_ranks)
        .subsystem("engine/trainer");
  }
  return Measurement(config, options, scope, timeout_ms).run(fragment);
}

}  // namespace plait

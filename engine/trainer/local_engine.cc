// Life of the engine and its calls on the rank's thread.
#include "engine/trainer/local_engine.h"

#include <algorithm>
#include <utility>

#include "engine/config/checks.h"
#include "engine/trainer/tensor_access.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

/// How long a call waits for the rank to notice an abort.
constexpr int64_t kAbortGraceMs = 900;

void check_trace(const TraceConfig& trace) {
  if (trace.steps == 0 && trace.directory.empty()) return;
  throw Error("not_built", "traces of steps are not part of this build")
      .with("feature", "trace")
      .with("key", trace.steps != 0 ? "trace.steps" : "trace.directory");
}

/// What the engine can not do yet is refused by name, before anything is made.
void check_built(const Settings& settings, const EngineOptions& options) {
  check_trace(settings.trace);
  const LayoutConfig& layout = settings.layout;
  for (const std::string& key : layout.auto_keys) {
    throw Error("not_built",
                "the planner that fills this key is not part of this build; give a value")
        .with("key", key)
        .with("value", "auto");
  }
  const int64_t ranks = layout.tensor * layout.pipeline * layout.data;
  if (options.world != 1) {
    throw Error("not_built", "worlds of several ranks are not part of this build")
        .with("world", options.world)
        .with("supported", 1);
  }
  if (ranks != options.world) {
    throw Error("topology", "tensor · pipeline · data must equal the number of ranks")
        .with("layout.tensor", layout.tensor)
        .with("layout.pipeline", layout.pipeline)
        .with("layout.data", layout.data)
        .with("world", options.world);
  }
}

}  // namespace

std::unique_ptr<Engine> Engine::create(const Config& config, const EngineOptions& options,
                                       int64_t timeout_ms) {
  plait::check(config);
  auto engine = std::make_unique<LocalEngine>(config, options);
  engine->start(timeout_ms);
  return engine;
}

LocalEngine::LocalEngine(const Config& config, const EngineOptions& options)
    : config_(config), settings_(make_settings(config)), options_(options) {
  check_built(settings_, options);
}

LocalEngine::~LocalEngine() {
  is_aborted_.store(true);
  thread_.reset();  // ends the task that may still run
  rank_.reset();
}

void LocalEngine::start(int64_t timeout_ms) {
  thread_ = std::make_unique<RankThread>(options_.rank, options_.env->clock, options_.hooks,
                                         settings_.precision.flush_to_zero);
  const int64_t limit = timeout_ms > 0 ? timeout_ms : -1;
  call(
      [this] {
        rank_ = std::make_unique<Rank>(settings_, options_.env->clock, options_.hooks,
                                       Rank::Flags{&is_aborted_, &progress_});
        rank_->draw_weights();
      },
      limit);
  last_loss_scale_ = rank_->loss_scale();
  entries_ = list_tensors(*rank_, settings_.precision.compute);
  generator_ = std::make_unique<Generator>(settings_.model.vocab_size);
  make_reports();
  if (options_.log != nullptr) {
    options_.log->write(LogLevel::kInfo, options_.rank, "engine/trainer",
                        "engine ready: " + std::to_string(count_parameters(settings_.model)) +
                            " parameters, " + std::to_string(rank_->ledger().total()) + " bytes");
  }
}

void LocalEngine::check_usable() const {
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
      .rank(options_.rank);
}

void LocalEngine::lose() {
  is_aborted_.store(true);
  state_.store(EngineState::kLost);
}

void LocalEngine::abort() {
  if (state_.load() != EngineState::kClosed) lose();
}

int64_t LocalEngine::stall_limit_ms() const {
  const TimeoutConfig& t = settings_.timeout;
  if (timed_steps_ < 5) return t.first_steps_ms;
  std::array<double, 9> sorted = recent_seconds_;
  const auto count = static_cast<size_t>(std::min<int64_t>(timed_steps_, 9));
  std::sort(sorted.begin(), sorted.begin() + static_cast<int64_t>(count));
  const double median_ms = 1000.0 * sorted[count / 2];
  return std::max(t.stall_min_ms, static_cast<int64_t>(t.stall_fail * median_ms));
}

void LocalEngine::call(std::function<void()> task, int64_t timeout_ms) {
  EngineState expected = EngineState::kReady;
  if (!state_.compare_exchange_strong(expected, EngineState::kRunning)) check_usable();
  const auto ready = [this] {
    EngineState running = EngineState::kRunning;
    state_.compare_exchange_strong(running, EngineState::kReady);
  };
  RankThread::End end = RankThread::End::kDone;
  try {
    end = thread_->run(std::move(task), {timeout_ms, stall_limit_ms(), &progress_});
  } catch (const Error& error) {
    if (error.disposition() >= Disposition::kEngineLost) lose();
    ready();
    throw;
  } catch (...) {
    lose();
    throw;
  }
  ready();
  if (end == RankThread::End::kDone) return;
  lose();
  thread_->wait(kAbortGraceMs);
  const bool is_timeout = end == RankThread::End::kTimeout;
  throw Error(is_timeout ? "deadline" : "stalled",
              is_timeout ? "the call did not end within its limit" : "a rank makes no progress")
      .with("rank", options_.rank)
      .with("limit_ms", is_timeout ? timeout_ms : stall_limit_ms())
      .rank(options_.rank)
      .subsystem("engine/trainer")
      .disposition(Disposition::kEngineLost);
}

void LocalEngine::close(int64_t timeout_ms) {
  (void)timeout_ms;
  if (state_.load() == EngineState::kRunning) check_usable();
  if (state_.load() != EngineState::kLost) state_.store(EngineState::kClosed);
}

void LocalEngine::attach_dataset(std::string_view role, std::shared_ptr<const Dataset> dataset,
                                 int64_t timeout_ms) {
  check_usable();
  (void)timeout_ms;
  if (role != "train" && role != "evaluate") {
    throw Error("argument", "a dataset is attached as train or as evaluate").with("role", role);
  }
  Rows& rows = role == "train" ? train_ : evaluate_;
  if (dataset != nullptr && dataset->sequence_length() != settings_.train.sequence_length) {
    throw Error("argument", "the dataset was opened for another sequence length")
        .with("role", role)
        .with("dataset", dataset->sequence_length())
        .with("train.sequence_length", settings_.train.sequence_length);
  }
  if (dataset != nullptr && dataset->options().vocab_size > settings_.model.vocab_size) {
    throw Error("argument", "the dataset was opened for a larger vocabulary")
        .with("role", role)
        .with("dataset", dataset->options().vocab_size)
        .with("model.vocab_size", settings_.model.vocab_size);
  }
  const bool is_present = dataset != nullptr;
  rows.dataset = std::move(dataset);
  if (!is_present) return;
  const auto size =
      static_cast<size_t>(settings_.train.global_batch * (settings_.train.sequence_length + 1));
  rows.tokens.resize(size);
  if (rows.dataset->isolates_documents()) rows.documents.resize(size);
}

void LocalEngine::set(std::string_view key, const char* value) {
  check_usable();
  if (!is_mutable(key)) {
    throw Error("argument", "this key can not change while an engine runs").with("key", key);
  }
  Config changed = config_;
  changed.set(key, value);
  plait::check(changed);
  Settings settings = make_settings(changed);
  check_trace(settings.trace);
  const std::lock_guard lock(mutex_);
  config_ = std::move(changed);
  settings_.evaluate = settings.evaluate;
  settings_.generate = settings.generate;
  settings_.checkpoint = settings.checkpoint;
}

void LocalEngine::set_property(Property property) {
  check_usable();
  constexpr size_t kLongestName = 128, kLongestText = 65536, kMostProperties = 4096;
  const bool is_named =
      !property.name.empty() && property.name.size() <= kLongestName &&
      std::all_of(property.name.begin(), property.name.end(), [](char c) {
        return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
      });
  if (!is_named || property.text.size() > kLongestText) {
    throw Error("argument", "a property has a name of [a-z0-9_.-] and text of at most 64 KiB")
        .with("name", property.name)
        .with("text_bytes", property.text.size());
  }
  const std::lock_guard lock(mutex_);
  if (properties_.size() >= kMostProperties && properties_.count(property.name) == 0) {
    throw Error("too_large", "too many properties").with("limit", kMostProperties);
  }
  std::string name = property.name;
  properties_[std::move(name)] = std::move(property);
}

}  // namespace plait

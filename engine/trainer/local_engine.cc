// Life of the engine and its calls on the rank's thread.
#include "engine/trainer/local_engine.h"

#include <algorithm>
#include <set>
#include <utility>

#include "engine/config/checks.h"
#include "engine/planner/fill_layout.h"
#include "engine/trainer/tensor_access.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

/// What the engine can not do is refused by name, before anything is made.
void check_ranks(const Settings& settings, const World& world) {
  const LayoutConfig& layout = settings.layout;
  if (!world.is_complete()) {
    throw Error("missing_ranks", "the group is not complete: join it before an engine is made")
        .with("world", world.options().world)
        .with("local_ranks", world.options().local_ranks);
  }
  const int64_t ranks = layout.tensor * layout.pipeline * layout.data;
  if (ranks != world.options().world) {
    throw Error("topology", "tensor · pipeline · data must equal the number of ranks")
        .with("layout.tensor", layout.tensor)
        .with("layout.pipeline", layout.pipeline)
        .with("layout.data", layout.data)
        .with("world", world.options().world);
  }
}

/// Coordinates on the data axis that ranks [first, first + count) have, ascending.
std::vector<int64_t> data_coordinates(const LayoutConfig& layout, const WorldOptions& world) {
  const Mesh mesh(layout.tensor, layout.pipeline, layout.data);
  std::set<int64_t> found;
  for (int64_t local = 0; local < world.local_ranks; ++local) {
    found.insert(mesh.coordinates(world.first_rank + local).data);
  }
  return {found.begin(), found.end()};
}

}  // namespace

std::unique_ptr<Engine> Engine::create(const Config& config, const EngineOptions& options,
                                       int64_t timeout_ms) {
  plait::check(config);
  const FilledLayout filled = fill_layout(config, options.world->options().world);
  if (options.log != nullptr && !filled.layout.empty()) {
    options.log->write(LogLevel::kInfo, static_cast<int32_t>(options.world->options().first_rank),
                       "engine/trainer",
                       "layout chosen by the planner: " + filled.layout + "; best of " +
                           std::to_string(filled.tried));
  }
  auto engine = std::make_unique<LocalEngine>(filled.config, options);
  engine->start(timeout_ms);
  return engine;
}

LocalEngine::LocalEngine(const Config& config, const EngineOptions& options)
    : config_(config),
      settings_(make_settings(config)),
      options_(options),
      watch_(Mesh(settings_.layout.tensor, settings_.layout.pipeline, settings_.layout.data)),
      trace_(*options.env, options.log, options.world->options().first_rank),
      ranks_(settings_, options),
      saver_(ranks_, options_) {
  check_ranks(settings_, *options.world);
  if (settings_.trace.steps > 0) trace_.check_directory(settings_.trace.directory);
  local_data_ = data_coordinates(settings_.layout, options.world->options());
  rows_.reserve(settings_.train.global_batch * (settings_.train.sequence_length + 1));
}

LocalEngine::~LocalEngine() = default;

void LocalEngine::start(int64_t timeout_ms) {
  ranks_.start(config_, timeout_ms);
  times_.resize(static_cast<size_t>(ranks_.size()));
  compute_seconds_.resize(times_.size());
  entries_ = list_tensors(ranks_.rank(0), settings_.precision.compute);
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    generators_.emplace_back(ranks_.rank(local).holds_loss() ? settings_.model.vocab_size : 0);
  }
  make_reports();
  if (settings_.trace.steps > 0) trace_.begin(ranks_, settings_.trace.steps);
  if (options_.log == nullptr) return;
  options_.log->write(
      LogLevel::kInfo, static_cast<int32_t>(ranks_.rank(0).rank()), "engine/trainer",
      "engine ready: " + std::to_string(count_parameters(settings_.model)) + " parameters, " +
          std::to_string(largest(&MemoryLedger::total)) + " bytes");
}

void LocalEngine::check_dataset(std::string_view role, const Dataset* dataset) const {
  if (role != "train" && role != "evaluate") {
    throw Error("argument", "a dataset is attached as train or as evaluate").with("role", role);
  }
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
}

void LocalEngine::attach_dataset(std::string_view role, std::shared_ptr<const Dataset> dataset,
                                 int64_t timeout_ms) {
  ranks_.check_usable();
  check_dataset(role, dataset.get());
  RankSet::Call call;
  call.name = "engine_attach_dataset";
  call.value = std::string(role);
  if (dataset != nullptr) call.value += " " + std::to_string(dataset->fingerprint());
  const bool is_resumed = role == "train" && dataset != nullptr && resumed_data_.has_value();
  const auto prepare = [&] {
    if (is_resumed) compare_resumed(*dataset);
  };
  call.prepare = prepare;
  call.part = [](int64_t) {};
  call.timeout_ms = timeout_ms;
  ranks_.run(call);
  if (is_resumed) resumed_data_.reset();
  (role == "train" ? train_ : evaluate_) = std::move(dataset);
}

void LocalEngine::set(std::string_view key, const char* value) {
  ranks_.check_usable();
  if (!is_mutable(key)) {
    throw Error("argument", "this key can not change while an engine runs").with("key", key);
  }
  Config changed = config_;
  changed.set(key, value);
  plait::check(changed);
  Settings settings = make_settings(changed);
  const bool begins_trace = key == "trace.steps";
  const bool is_traced = begins_trace ? settings.trace.steps > 0 : trace_.is_on();
  if (is_traced) trace_.check_directory(settings.trace.directory);
  if (begins_trace) trace_.begin(ranks_, settings.trace.steps);
  const std::lock_guard lock(mutex_);
  config_ = std::move(changed);
  settings_.evaluate = settings.evaluate;
  settings_.generate = settings.generate;
  settings_.trace = settings.trace;
  settings_.checkpoint = settings.checkpoint;
}

void LocalEngine::set_property(Property property) {
  ranks_.check_usable();
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

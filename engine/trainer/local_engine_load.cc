// Loading a checkpoint into the live engine.
#include <algorithm>
#include <limits>
#include <memory>
#include <utility>

#include "engine/trainer/local_engine.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr const char* kLoadCall = "checkpoint_load";

/// What the ranks take besides tensors.
struct LoadedRun {
  bool is_weights_only = true;
  int64_t updates = 0;
  std::optional<LossScale::State> scale;
};

LoadedRun loaded_run(const Loader& loader) {
  LoadedRun run;
  run.is_weights_only = loader.decision().is_weights_only;
  const Manifest* file = loader.source().manifest();
  if (run.is_weights_only || file == nullptr) return run;
  run.updates = file->progress.updates;
  const SavedScaler& scaler = file->scaler;
  if (scaler.is_present) {
    run.scale = LossScale::State{scaler.scale, scaler.good_steps, scaler.hysteresis_left};
  }
  return run;
}

SavedProperty saved_property(const Property& property) {
  return {property.name, static_cast<SavedProperty::Type>(property.type), property.integer,
          property.real, property.text};
}

Property live_property(const SavedProperty& property) {
  return {property.name, static_cast<Property::Type>(property.type), property.integer,
          property.real, property.text};
}

}  // namespace

RunPosition LocalEngine::position() const {
  const Rank& rank = ranks_.rank(0);
  RunPosition position;
  position.progress = {totals_.step,    rank.updates(),    totals_.samples, totals_.tokens,
                       totals_.skipped, totals_.overflows, totals_.lr};
  if (rank.scaler().is_dynamic()) {
    constexpr int64_t kLeast = std::numeric_limits<int32_t>::min();
    const LossScale::State state = rank.scaler().state();
    position.scaler = {true, state.scale, static_cast<int32_t>(state.good_steps),
                       static_cast<int32_t>(std::max(state.hysteresis_left, kLeast))};
  }
  const std::lock_guard lock(mutex_);
  for (const auto& [name, property] : properties_) {
    position.properties.push_back(saved_property(property));
  }
  return position;
}

Manifest LocalEngine::describe() const {
  return describe_run(config_, settings_, position(), train_.get(),
                      numerics_text(settings_, isa_name(ranks_.rank(0).device().isa())));
}

Outcome LocalEngine::load(const std::string& path, int64_t timeout_ms, std::string* report) {
  ranks_.check_usable();
  check_no_pending("load");
  saver_.wait(settings_.checkpoint.save_timeout_ms);
  const int64_t most_ms = settings_.checkpoint.load_timeout_ms;
  const int64_t limit_ms = timeout_ms > 0 ? std::min(timeout_ms, most_ms) : most_ms;
  const Manifest expected = describe();
  const LoadingRun run{&config_, &settings_, &expected, train_.get()};
  Loader loader(ranks_, options_, {kLoadCall, path, run, is_fresh_, limit_ms});
  const auto loaded = std::make_shared<LoadedRun>();
  const auto prepare = [&] {
    loader.run();
    *loaded = loaded_run(loader);
  };
  RankSet::Call call;
  call.name = kLoadCall;
  call.prepare = prepare;
  call.prepares_together = true;
  call.timeout_ms = limit_ms;
  call.part = [this, loaded](int64_t local) {
    Rank& rank = ranks_.rank(local);
    if (loaded->is_weights_only) {
      rank.restart();
    } else {
      rank.resume(loaded->updates, loaded->scale);
    }
    rank.masters_changed();
    const std::optional<Divergence> found = rank.find_divergence();
    if (!found) return;
    throw divergence_error(*found, rank.tensors()[static_cast<size_t>(found->tensor)].name,
                           totals_.step);
  };
  try {
    ranks_.run(call);
  } catch (const Error& error) {
    give_up_load(loader, limit_ms);
    if (take_stop(error.word() == "cancelled")) return Outcome::kStopped;
    throw;
  } catch (...) {
    give_up_load(loader, limit_ms);
    throw;
  }
  take_loaded(loader);
  if (report != nullptr) *report = load_report(loader, path);
  return Outcome::kDone;
}

/// After a failure: what was written to is drawn again, or the engine is lost.
void LocalEngine::give_up_load(const Loader& loader, int64_t limit_ms) {
  if (!loader.is_touched() || ranks_.state() != EngineState::kReady) return;
  if (!loader.must_undo()) return ranks_.abort();
  RankSet::Call call;
  call.name = "checkpoint_load_undo";
  call.timeout_ms = limit_ms;
  call.part = [this](int64_t local) {
    ranks_.rank(local).restart();
    ranks_.rank(local).draw_weights();
  };
  try {
    ranks_.run(call);
  } catch (...) {
    ranks_.abort();
    throw;
  }
}

void LocalEngine::take_loaded(const Loader& loader) {
  const Manifest* file = loader.source().manifest();
  const bool is_whole = !loader.decision().is_weights_only && file != nullptr;
  is_fresh_ = false;
  resumed_data_.reset();
  if (is_whole && train_ == nullptr) {
    resumed_data_ = ResumedData{file->data, file->progress.samples};
  }
  const std::lock_guard lock(mutex_);
  totals_ = {};
  if (is_whole) {
    const SavedProgress& progress = file->progress;
    totals_.step = progress.step;
    totals_.samples = progress.samples;
    totals_.tokens = progress.tokens;
    totals_.skipped = progress.skipped;
    totals_.overflows = progress.overflows;
    totals_.lr = progress.lr;
    properties_.clear();
  }
  for (const SavedProperty& property : loader.source().properties()) {
    // Those of the library describe the model, whoever trains it.
    if (is_whole || property.name.starts_with("hf.")) {
      properties_[property.name] = live_property(property);
    }
  }
}

void LocalEngine::warn_of_load(const std::string& text) const {
  if (options_.log == nullptr) return;
  options_.log->write(LogLevel::kWarning, static_cast<int32_t>(ranks_.rank(0).rank()), "checkpoint",
                      text);
}

std::string LocalEngine::load_report(const Loader& loader, const std::string& path) const {
  JsonArray skipped, warnings;
  for (const SkippedStep& step : loader.skipped()) {
    skipped.add(JsonObject()
                    .field("name", step.name)
                    .field("word", step.word)
                    .field("reason", step.reason)
                    .text());
    warn_of_load("skipped " + step.name + ": " + step.reason);
  }
  for (const std::string& warning : loader.decision().warnings) {
    warnings.add(json_string(warning));
    warn_of_load(warning);
  }
  JsonObject report;
  report.field("path", path);
  loader.source().report(&report);
  return report.raw("skipped", skipped.text()).raw("warnings", warnings.text()).text();
}

/// The data of the loaded run against a dataset that is attached only now.
void LocalEngine::compare_resumed(const Dataset& dataset) const {
  const ResumedData& resumed = *resumed_data_;
  const SavedData own = describe_data(settings_.seed, resumed.samples, &dataset);
  if (compare_data(resumed.data, own, dataset.options().paths, settings_.checkpoint)) {
    seek_data(dataset, resumed.data, resumed.samples);
  } else {
    warn_of_load("the training data is not that of the checkpoint");
  }
}

}  // namespace plait

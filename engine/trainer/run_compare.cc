// What of a run a resume may change.
#include <algorithm>
#include <map>
#include <optional>

#include "engine/trainer/run_state.h"
#include "engine/trainer/state_map.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

/// Everything in which a file and a run differ and must not, for one error.
class DifferenceTable {
 public:
  void add(const std::string& key, const std::string& file, const std::string& run,
           const char* resume) {
    keys_ += (keys_.empty() ? "" : ",") + key;
    rows_.add(JsonObject()
                  .field("key", key)
                  .field("file", file)
                  .field("run", run)
                  .field("resume", resume)
                  .text());
  }
  bool is_empty() const { return keys_.empty(); }
  [[noreturn]] void refuse() const {
    throw Error("config_mismatch",
                "the checkpoint belongs to another run; what may change must be named in "
                "checkpoint.allow_change")
        .with("keys", keys_)
        .with_raw("differences", rows_.text())
        .subsystem("engine/trainer");
  }

 private:
  std::string keys_;
  JsonArray rows_;
};

using ConfigPairs = std::vector<std::pair<std::string, std::string>>;

/// Keys of a model that weights do not depend on.
bool is_free_of_weights(const std::string& key, const Settings& settings) {
  const bool has_position_table = settings.model.family == FamilyChoice::kGpt2;
  return key == "model.initial_std" || (key == "model.sequence_length" && !has_position_table);
}

/// Whether a model key differs.
bool compare_configs(const ConfigPairs& file, const ConfigPairs& run, const Settings& settings,
                     DifferenceTable* table, std::vector<std::string>* warnings) {
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const auto& [key, value] : run) values[key] = {"", value};
  for (const auto& [key, value] : file) values[key].first = value;
  bool has_other_model = false;
  for (const auto& [key, pair] : values) {
    const auto& [in_file, in_run] = pair;
    if (in_file == in_run) continue;
    const KeyInfo* info = find_key(key);
    if (info == nullptr) {
      warnings->push_back("the checkpoint holds a key that this library does not know: " + key);
      continue;
    }
    const bool is_model = key.starts_with("model.");
    if (settings.checkpoint.weights_only && (!is_model || is_free_of_weights(key, settings))) {
      continue;
    }
    // An older library did not write the key: it ran with what is the default now.
    if (in_file.empty() && in_run == info->default_text) continue;
    if (info->resume == Resume::kFree) continue;
    if (info->resume == Resume::kAsk && may_change(settings.checkpoint, key)) {
      warnings->push_back("a key has changed: " + key + " from " + in_file + " to " + in_run);
      continue;
    }
    table->add(key, in_file, in_run, resume_name(info->resume));
    has_other_model = has_other_model || is_model;
  }
  return has_other_model;
}

std::string states_text(const SavedTensor& tensor) {
  std::string text = tensor.shape.text();
  for (const TensorState& state : tensor.states) {
    text += std::string(" ") + state_kind_name(state.kind) + ":" + dtype_name(state.dtype);
  }
  return text;
}

void compare_tensors(const Manifest& file, const Manifest& run, DifferenceTable* table) {
  constexpr const char* kSame = "same";
  for (const SavedTensor& wanted : run.tensors) {
    const int64_t found = file.find(wanted.name);
    if (found < 0) {
      table->add(wanted.name, "none", states_text(wanted), kSame);
      continue;
    }
    const SavedTensor& saved = file.tensors[static_cast<size_t>(found)];
    bool is_right = saved.shape == wanted.shape;
    for (const TensorState& state : wanted.states) {
      is_right = is_right && stored_state(file, found, state.kind) != nullptr;
    }
    if (!is_right) table->add(wanted.name, states_text(saved), states_text(wanted), kSame);
  }
  for (const SavedTensor& saved : file.tensors) {
    if (run.find(saved.name) < 0) table->add(saved.name, states_text(saved), "none", kSame);
  }
}

void compare_random(const SavedRandom& file, const SavedRandom& run, DifferenceTable* table) {
  const auto text = [](const SavedRandom& random) {
    return random.algorithm + " " + std::to_string(random.key_version) + " " +
           std::to_string(random.seed);
  };
  if (text(file) != text(run)) table->add("random", text(file), text(run), "same");
}

std::map<std::string, std::string> numerics_lines(const std::string& text) {
  std::map<std::string, std::string> lines;
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const size_t equals = std::min(line.find('='), line.size());
    if (!line.empty())
      lines[line.substr(0, equals)] = line.substr(std::min(equals + 1, line.size()));
    begin = end + 1;
  }
  return lines;
}

void compare_numerics(const std::string& file, const std::string& run, NumericsChoice choice,
                      std::vector<std::string>* warnings) {
  std::map<std::string, std::pair<std::string, std::string>> values;
  for (const auto& [key, value] : numerics_lines(run)) values[key].second = value;
  for (const auto& [key, value] : numerics_lines(file)) values[key].first = value;
  std::string changed;
  JsonArray rows;
  for (const auto& [key, pair] : values) {
    if (pair.first == pair.second) continue;
    changed += (changed.empty() ? "" : ", ") + key + " from " + pair.first + " to " + pair.second;
    rows.add(
        JsonObject().field("key", key).field("file", pair.first).field("run", pair.second).text());
  }
  if (changed.empty()) return;
  if (choice == NumericsChoice::kWarn) {
    warnings->push_back("numerics have changed, so the run may differ in rounding: " + changed);
    return;
  }
  throw Error("numerics_changed", "the checkpoint was made with other numerics")
      .with("key", "checkpoint.numerics")
      .with_raw("differences", rows.text())
      .subsystem("engine/trainer");
}

bool has_moments(const Manifest& file) {
  for (const SavedTensor& tensor : file.tensors) {
    for (const TensorState& state : tensor.states) {
      if (state.kind == StateKind::kMoment1 || state.kind == StateKind::kMoment2) return true;
    }
  }
  return false;
}

std::string part_text(const SavedDataset& part) {
  return "fingerprint:" + std::to_string(part.fingerprint) +
         " tokens:" + std::to_string(part.tokens) + " weight:" + std::to_string(part.weight);
}

std::string order_text(const SavedData& data) {
  return data.order + " " + std::to_string(data.order_version) + " " + std::to_string(data.seed);
}

}  // namespace

const TensorState* stored_state(const Manifest& file, int64_t tensor, StateKind kind) {
  const bool is_weight = kind == StateKind::kParam || kind == StateKind::kMaster;
  if (!is_weight) {
    const TensorState* moment = file.state(tensor, kind);
    return moment != nullptr && moment->dtype == DType::kFloat32 ? moment : nullptr;
  }
  const TensorState* master = file.state(tensor, StateKind::kMaster);
  if (master != nullptr && master->dtype == DType::kFloat32) return master;
  const TensorState* param = file.state(tensor, StateKind::kParam);
  const bool is_real =
      param != nullptr && (param->dtype == DType::kFloat32 || param->dtype == DType::kBFloat16 ||
                           param->dtype == DType::kFloat16);
  return is_real ? param : nullptr;
}

bool may_change(const CheckpointConfig& checkpoint, std::string_view key) {
  return std::any_of(
      checkpoint.allow_change.begin(), checkpoint.allow_change.end(),
      [&](const std::string& name) { return key == name || key.starts_with(name + '.'); });
}

bool compare_data(const SavedData& file, const SavedData& run, std::span<const std::string> paths,
                  const CheckpointConfig& checkpoint) {
  JsonArray rows;
  int64_t differences = 0;
  const auto add = [&](JsonObject row, const std::string& in_file, const std::string& in_run) {
    rows.add(row.field("file", in_file).field("run", in_run).text());
    ++differences;
  };
  if (order_text(file) != order_text(run)) {
    add(JsonObject().field("part", "order"), order_text(file), order_text(run));
  }
  for (size_t i = 0; i < std::max(file.parts.size(), run.parts.size()); ++i) {
    const auto text = [i](const SavedData& data) {
      return i < data.parts.size() ? part_text(data.parts[i]) : std::string("none");
    };
    if (text(file) == text(run)) continue;
    JsonObject row;
    row.field("part", i);
    if (i < paths.size()) row.field("path", paths[i]);
    add(row, text(file), text(run));
  }
  if (differences == 0) return true;
  if (may_change(checkpoint, "data")) return false;
  throw Error("dataset_changed", "the training data is not that of the checkpoint")
      .with("checkpoint.allow_change", "data")
      .with_raw("differences", rows.text())
      .subsystem("engine/trainer");
}

ResumeDecision compare_runs(const Manifest& file, const Manifest& expected, const Config& config,
                            const Settings& settings) {
  ResumeDecision decision;
  decision.is_weights_only = settings.checkpoint.weights_only;
  if (!decision.is_weights_only && !has_moments(file)) {
    throw Error("weights_only", "the checkpoint holds weights alone: a load must ask for that")
        .with("key", "checkpoint.weights_only")
        .with("value", "false")
        .subsystem("engine/trainer");
  }
  DifferenceTable table;
  const bool has_other_model =
      compare_configs(file.config, expected.config, settings, &table, &decision.warnings);
  // The tensors of another model differ by its keys.
  if (!has_other_model) compare_tensors(file, expected, &table);
  if (!decision.is_weights_only) compare_random(file.random, expected.random, &table);
  if (!table.is_empty()) table.refuse();
  if (decision.is_weights_only) return decision;
  if (!expected.data.parts.empty() &&
      !compare_data(file.data, expected.data, config.get_texts("data.train"),
                    settings.checkpoint)) {
    decision.warnings.push_back("the training data is not that of the checkpoint");
  }
  compare_numerics(file.format.numerics, expected.format.numerics, settings.checkpoint.numerics,
                   &decision.warnings);
  return decision;
}

}  // namespace plait

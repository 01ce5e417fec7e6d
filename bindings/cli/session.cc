#include "bindings/cli/session.h"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "bindings/cli/checkpoint_tables.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

using Json = nlohmann::ordered_json;

Config empty_config(const Context& context) {
  return make<Config>([&](plait_config** out, plait_error** err) {
    return plait_config_create(context.get(), out, err);
  });
}

void load_file(const Config& config, const std::string& path) {
  const std::string json = read_file(path);
  try {
    call([&](plait_error** err) {
      return plait_config_load(config.get(), json.data(), static_cast<int64_t>(json.size()), err);
    });
  } catch (Failure& failure) {
    failure.add("path", path);
    throw;
  }
}

void apply_setting(const Config& config, const std::string& setting) {
  const size_t equals = setting.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw usage_failure("--set takes key=value").with("got", setting);
  }
  const std::string key = setting.substr(0, equals), value = setting.substr(equals + 1);
  call([&](plait_error** err) {
    return plait_config_set(config.get(), key.c_str(), value.c_str(), err);
  });
}

Json keys_that_are_set(const Config& config) {
  return Json::parse(make_text([&](plait_bytes** out, plait_error** err) {
    return plait_config_dump(config.get(), 0, out, err);
  }));
}

/// The model.* keys of an open checkpoint.
Json model_keys_of(const Context& context, const std::string& path) {
  const Checkpoint checkpoint = open_checkpoint(context, path);
  return Json::parse(make_text([&](plait_bytes** out, plait_error** err) {
           return plait_checkpoint_report(checkpoint.get(), out, err);
         }))
      .at("model");
}

void set_key(const Config& config, const std::string& key, const Json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  call([&](plait_error** err) {
    return plait_config_set(config.get(), key.c_str(), text.c_str(), err);
  });
}

/// The model.* keys that the configuration leaves out, of the root that a run resumes from. What
/// contradicts is found when its state is loaded, together with all other differences.
void fill_model_keys(const Context& context, const Config& config, const std::string& root) {
  list_steps(context, root);  // no directory is no checkpoint
  const Json given = keys_that_are_set(config), model = model_keys_of(context, root);
  for (const auto& [key, value] : model.items()) {
    if (!given.contains(key)) set_key(config, key, value);
  }
}

/// The model.* keys of what --load names. What is no checkpoint is refused here, before anything is
/// built on it.
void load_model_keys(const Context& context, const Config& config, const std::string& path) {
  const Json model = model_keys_of(context, path);
  const auto load = [&](const Config& into) {
    for (const auto& [key, value] : model.items()) set_key(into, key, value);
  };
  const Config loaded = empty_config(context);
  load(loaded);
  const Json given = keys_that_are_set(config), read = keys_that_are_set(loaded);
  Failure contradiction = usage_failure(
      "the configuration contradicts the model that is loaded: leave these keys out or correct "
      "them");
  bool is_contradicted = false;
  for (const auto& [key, value] : read.items()) {
    if (!given.contains(key)) continue;
    const std::string want = get_text(config, key), got = get_text(loaded, key);
    if (want == got) continue;
    contradiction.add(key, want);
    contradiction.add(key + ".loaded", got);
    is_contradicted = true;
  }
  if (is_contradicted) throw std::move(contradiction).with("path", path);
  load(config);
}

/// --hardware: a file with keys hardware.*, or else the name of a description that is built in, in
/// place of what CONFIG says of hardware but for failures and the price.
void load_hardware(const Config& config, const std::string& hardware) {
  const Json given = keys_that_are_set(config);
  for (const auto& [name, value] : given.items()) {
    const std::string& key = name;  // what a lambda may capture
    const bool is_kept = !key.starts_with("hardware.") || key.starts_with("hardware.failures.") ||
                         key == "hardware.price_per_device_hour";
    if (is_kept) continue;
    call([&](plait_error** err) {
      return plait_config_set(config.get(), key.c_str(), nullptr, err);
    });
  }
  if (hardware.find('/') != std::string::npos || hardware.ends_with(".json") ||
      access(hardware.c_str(), F_OK) == 0) {
    return load_file(config, hardware);
  }
  call([&](plait_error** err) {
    return plait_config_set(config.get(), "hardware.name", hardware.c_str(), err);
  });
}

/// What the engine chose for keys that are `auto`.
void note_layout(Host& host, const Engine& engine, const Config& config) {
  std::string chosen;
  const Json effective = Json::parse(make_text([&](plait_bytes** out, plait_error** err) {
    return plait_engine_report(engine.get(), "config", out, err);
  }));
  for (const auto& [key, value] : effective.items()) {
    if (!key.starts_with("layout.") || get_text(config, key) != "auto") continue;
    chosen += " " + key + "=" + (value.is_string() ? value.get<std::string>() : value.dump());
  }
  if (!chosen.empty()) host.note("chosen for auto:" + chosen);
}

std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr || value[0] == '\0') return std::nullopt;
  return value;
}

}  // namespace

Config make_config(const Host& host, const Context& context) {
  Config config = empty_config(context);
  const Options& options = host.options;
  if (!options.config_path.empty()) load_file(config, options.config_path);
  if (!options.hardware.empty()) load_hardware(config, options.hardware);
  for (const std::string& setting : options.settings) apply_setting(config, setting);
  if (!options.tokens.empty()) apply_setting(config, "planner.tokens=" + options.tokens);
  if (!options.load_path.empty()) load_model_keys(context, config, options.load_path);
  const std::string root = options.is_resume ? get_text(config, "run.checkpoint") : "";
  if (!root.empty()) fill_model_keys(context, config, root);
  return config;
}

void print_config(Host& host, const Config& config) {
  const std::string json = make_text([&](plait_bytes** out, plait_error** err) {
    return plait_config_dump(config.get(), 1, out, err);
  });
  if (host.options.is_json) return host.print(json);
  const Json keys = Json::parse(json);
  std::string text;
  for (const auto& [key, value] : keys.items()) {
    text += (text.empty() ? "{\n  " : ",\n  ") + json_text(key) + ": " + value.dump();
  }
  host.print(text + "\n}");
}

std::string read_file(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"),
                                                             std::fclose);
  if (file == nullptr) throw file_failure(errno, "open", path);
  std::string text;
  char buffer[1 << 16];
  for (size_t got; (got = std::fread(buffer, 1, sizeof buffer, file.get())) > 0;) {
    text.append(buffer, got);
  }
  if (std::ferror(file.get()) != 0) throw file_failure(errno, "read", path);
  return text;
}

int32_t layout_ranks(const Config& config) {
  int64_t ranks = 1;
  for (const char* key : {"layout.tensor", "layout.pipeline", "layout.data"}) {
    if (get_text(config, key) == "auto") return 1;
    const int64_t degree = get_integer(config, key);
    if (degree > INT32_MAX / ranks) throw usage_failure("too many ranks").with("key", key);
    ranks *= degree;
  }
  return static_cast<int32_t>(ranks);
}

Place find_place(const Host& host, const Config& config) {
  const Options& options = host.options;
  PlaceWishes found;
  if (!options.launcher.empty()) {
    found = place_from_environment(options.launcher, options.place, environment);
  }
  return choose_place(options.place, found, layout_ranks(config));
}

Group make_group(const Context& context, const Config& config, const Place& place) {
  Group group = make<Group>([&](plait_group** out, plait_error** err) {
    return plait_group_create(context.get(), config.get(), place.rank, place.local_ranks,
                              place.world, out, err);
  });
  if (place.local_ranks < place.world) {
    call([&](plait_error** err) {
      return plait_group_join_tcp(group.get(), place.join.c_str(), -1, err);
    });
  }
  return group;
}

Engine make_engine(Host& host, const Group& group, const Config& config) {
  Engine engine = make<Engine>([&](plait_engine** out, plait_error** err) {
    return plait_engine_create(group.get(), config.get(), -1, out, err);
  });
  note_layout(host, engine, config);
  return engine;
}

std::string load_state(const Engine& engine, const std::string& path) {
  return make_text([&](plait_bytes** out, plait_error** err) {
    return plait_checkpoint_load(engine.get(), path.c_str(), -1, out, err);
  });
}

void prefer_weights_only(const Config& config) {
  if (keys_that_are_set(config).contains("checkpoint.weights_only")) return;
  call([&](plait_error** err) {
    return plait_config_set(config.get(), "checkpoint.weights_only", "true", err);
  });
}

Tokenizer open_tokenizer(const Host& host, const Context& context) {
  const Options& options = host.options;
  if (options.tokenizer == "gpt2" && options.vocab.empty()) {
    throw usage_failure("--tokenizer gpt2 needs --vocab DIR, with vocab.bpe and encoder.json");
  }
  const char* directory = options.vocab.empty() ? nullptr : options.vocab.c_str();
  return make<Tokenizer>([&](plait_tokenizer** out, plait_error** err) {
    return plait_tokenizer_open(context.get(), options.tokenizer.c_str(), directory, out, err);
  });
}

std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text) {
  const Bytes ids = make<Bytes>([&](plait_bytes** out, plait_error** err) {
    return plait_tokenizer_encode(tokenizer.get(), text.data(), static_cast<int64_t>(text.size()),
                                  out, err);
  });
  const auto* first = static_cast<const int32_t*>(plait_bytes_data(ids.get()));
  return std::vector<int32_t>(first, first + plait_bytes_size(ids.get()) / 4);
}

std::string continue_text(const Engine& engine, const Tokenizer& tokenizer,
                          const std::vector<int32_t>& prompt, int64_t max_tokens,
                          bool* is_stopped) {
  const Bytes ids = make<Bytes>([&](plait_bytes** out, plait_error** err) {
    return plait_engine_generate(engine.get(), prompt.data(), static_cast<int64_t>(prompt.size()),
                                 max_tokens, -1, out, err);
  });
  *is_stopped = ids == nullptr;
  if (*is_stopped) return "";
  const auto* tokens = static_cast<const int32_t*>(plait_bytes_data(ids.get()));
  const int64_t count = plait_bytes_size(ids.get()) / 4;
  return make_text([&](plait_bytes** out, plait_error** err) {
    return plait_tokenizer_decode(tokenizer.get(), tokens, count, out, err);
  });
}

bool has_evaluation_data(const Config& config) {
  if (!get_text(config, "data.evaluate").empty()) return true;
  const Json split = Json::parse(get_text(config, "data.split"), nullptr, false);
  return split.is_array() && split.size() > 1 && split[1].is_number() && split[1].get<double>() > 0;
}

Dataset open_dataset(const Context& context, const Config& config, const char* role) {
  return make<Dataset>([&](plait_dataset** out, plait_error** err) {
    return plait_dataset_open(context.get(), config.get(), role, out, err);
  });
}

void attach(const Engine& engine, const char* role, const Dataset& dataset) {
  call([&](plait_error** err) {
    return plait_engine_attach_dataset(engine.get(), role, dataset.get(), -1, err);
  });
}

}  // namespace plait::cli

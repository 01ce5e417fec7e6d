#include "capi/src/config.h"

#include <string>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"
#include "checkpoint/hf_config.h"
#include "engine/config/checks.h"
#include "engine/config/keys.h"

using plait::guard;
using plait::Held;
using plait::Use;

int32_t plait_config_create(plait_context* context, plait_config** config, plait_error** err) {
  const plait::HandleOut<plait_config> out(config, "config");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    out.set(new plait_config(held.ref()));
  });
}

int32_t plait_config_set(plait_config* config, const char* key, const char* value,
                         plait_error** err) {
  return guard(err, [&] {
    const Held<plait_config> held(config, "config", Use::kExclusive);
    const std::string name = plait::text_argument(key, "key");
    const std::string text = plait::optional_text(value, "value");
    held->value.set(name, value == nullptr ? nullptr : text.c_str());
  });
}

int32_t plait_config_get(const plait_config* config, const char* key, plait_bytes** value,
                         plait_error** err) {
  const plait::BytesOut out(value, "value");
  return guard(err, [&] {
    out.check();
    const Held<plait_config> held(config, "config", Use::kExclusive);
    out.set(held->value.get(plait::text_argument(key, "key")));
  });
}

int32_t plait_config_load(plait_config* config, const void* json, int64_t bytes,
                          plait_error** err) {
  return guard(err, [&] {
    const Held<plait_config> held(config, "config", Use::kExclusive);
    held->value.load_json(plait::bytes_argument(json, bytes, "json"));
  });
}

int32_t plait_config_load_hf(plait_config* config, const char* directory, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_config> held(config, "config", Use::kExclusive);
    const std::string path = plait::text_argument(directory, "directory");
    plait::Env& env = held->context->env;
    const plait::HfConfig read = plait::read_hf_config(env.files, path);
    plait::Config changed = held->value;
    for (const auto& [key, text] : read.keys) changed.set(key, text);
    held->value = std::move(changed);
    for (const std::string& warning : read.warnings) {
      held->context->log().write(plait::LogLevel::kWarning, -1, "checkpoint",
                                 warning + "; path=" + path);
    }
  });
}

int32_t plait_config_dump(const plait_config* config, int32_t is_complete, plait_bytes** json,
                          plait_error** err) {
  const plait::BytesOut out(json, "json");
  return guard(err, [&] {
    out.check();
    const Held<plait_config> held(config, "config", Use::kExclusive);
    out.set(held->value.dump_json(is_complete != 0));
  });
}

int32_t plait_config_check(const plait_config* config, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_config> held(config, "config", Use::kExclusive);
    plait::check(held->value);
  });
}

int64_t plait_config_key_count(const plait_config* config) {
  if (!plait::may_answer() || !plait::is_live(config)) return 0;
  return static_cast<int64_t>(plait::all_keys().size());
}

int32_t plait_config_key_at(const plait_config* config, int64_t index, plait_key_info* info,
                            plait_error** err) {
  plait::StructOut<plait_key_info> out(info, "plait_key_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_config> held(config, "config");
    const auto& keys = plait::all_keys();
    plait::check_index(index, static_cast<int64_t>(keys.size()));
    const plait::KeyInfo& key = keys[static_cast<size_t>(index)];
    plait_key_info value{};
    value.valid = PLAIT_VALID_ALL;
    value.key = key.name;
    value.type = plait::type_name(key.type);
    value.default_value = key.default_text;
    value.minimum = key.minimum;
    value.maximum = key.maximum;
    value.choices = key.choices;
    value.unit = key.unit;
    value.doc = key.doc;
    value.resume = plait::resume_name(key.resume);
    value.flags = key.flags;
    out.write(value);
  });
}

void plait_config_free(plait_config* config) {
  plait::guard_void([&] { plait::free_handle(config); });
}

// Configurations as JSON text, in and out.
#include <set>
#include <string>
#include <utility>

#include "engine/config/config.h"
#include "engine/config/json_tree.h"
#include "engine/config/number_text.h"
#include "engine/config/rule.h"
#include "kernels/base/error.h"
#include "kernels/base/json_end.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

using Json = nlohmann::json;

/// Text of a JSON value for `info`; throws where its JSON type is not that of the key.
std::string text_of(const KeyInfo& info, const Json& value) {
  const bool is_text =
      info.type == KeyType::kWord || info.type == KeyType::kText || info.type == KeyType::kPath;
  const bool is_number = info.type == KeyType::kInteger || info.type == KeyType::kReal;
  const bool is_list = info.type == KeyType::kList || info.has(kTraitOneOrList);
  if (value.is_string()) {
    const std::string& text = value.get_ref<const std::string&>();
    if (is_text || (info.element != KeyType::kWord && has_choice(info.choices, text))) return text;
  }
  if (is_number && value.is_number_float()) return json_number(value.get<double>());
  if ((is_number && value.is_number()) || (info.type == KeyType::kBoolean && value.is_boolean()) ||
      (is_list && value.is_array())) {
    return value.dump();
  }
  Error error = Error("argument", "a configuration value has the wrong JSON type")
                    .with("key", info.name)
                    .with("expected", type_name(info.type))
                    .with("found", value.type_name())
                    .subsystem("config");
  if (!info.has(kTraitSecret)) {
    error = with_field(std::move(error), "value", value.dump().substr(0, kLongestShown));
  }
  if (info.choices[0] != '\0') error = with_field(std::move(error), "choices", info.choices);
  throw error;
}

/// Walks nested objects and sets their leaves in `config`.
class Merge {
 public:
  explicit Merge(Config* config) : config_(config) {}

  void object(const std::string& prefix, const Json& object) {
    for (const auto& [name, value] : object.items()) member(prefix + name, value);
  }

 private:
  void member(const std::string& name, const Json& value) {
    const KeyInfo* info = find_key(name);
    if (info == nullptr) {
      const bool is_group = value.is_object() && (!value.empty() || is_prefix(name));
      if (!is_group) key_info(name);
      object(name + '.', value);
      return;
    }
    if (!seen_.insert(info->name).second) {
      throw Error("argument", "the configuration gives a key twice")
          .with("key", info->name)
          .subsystem("config");
    }
    if (value.is_null()) {
      config_->set(name, nullptr);
    } else {
      config_->set(name, text_of(*info, value));
    }
  }

  static bool is_prefix(const std::string& name) {
    for (const KeyInfo& info : all_keys()) {
      if (std::string_view(info.name).starts_with(name + '.')) return true;
    }
    return false;
  }

  Config* config_;
  std::set<std::string_view> seen_;
};

/// Canonical text of a value as JSON.
std::string json_of(const KeyInfo& info, const std::string& text) {
  const bool is_bare = info.type == KeyType::kInteger || info.type == KeyType::kReal ||
                       info.type == KeyType::kBoolean || info.type == KeyType::kList;
  if (info.has(kTraitOneOrList) && text.starts_with('[')) return text;
  return is_bare && !has_choice(info.choices, text) ? text : json_string(text);
}

}  // namespace

void Config::load_json(std::string_view text) {
  Json tree = parse_json(text);
  const TreeEnd end(tree);
  if (!tree.is_object()) {
    throw Error("argument", "a configuration must be a JSON object")
        .with("found", tree.type_name())
        .subsystem("config");
  }
  Config merged = *this;
  Merge(&merged).object("", tree);
  *this = std::move(merged);
}

std::string Config::dump_json(bool complete) const {
  JsonObject object;
  for (const KeyInfo& info : all_keys()) {
    if (info.has(kTraitSecret)) continue;
    const bool is_given = is_set(info.name);
    if (!is_given && !complete) continue;
    const std::string value = get(info.name);
    if (is_given || !value.empty()) object.raw(info.name, json_of(info, value));
  }
  return object.text();
}

}  // namespace plait

#include "engine/config/config.h"

#include <charconv>
#include <set>
#include <utility>

#include "engine/config/json_tree.h"
#include "engine/config/rule.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace plait {
namespace {

using Json = nlohmann::json;

constexpr size_t kLongestShown = 120;

bool is_compared(const KeyInfo& info) {
  return (info.flags & kKeyLocal) == 0 && !info.has(kTraitSecret);
}

template <class Number>
bool parse_whole(const std::string& text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

[[noreturn]] void refuse_value(const KeyInfo& info, const std::string& value) {
  Error error = Error("argument", value.empty() ? "a configuration key has no value"
                                                : "a configuration key does not hold a number yet")
                    .with("key", info.name)
                    .subsystem("config");
  if (!value.empty()) error = with_field(std::move(error), "value", value);
  throw error;
}

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

Config::Config() : values_(all_keys().size()) {}

void Config::set(std::string_view key, const char* text) {
  if (text == nullptr) {
    values_[key_index(key_info(key))].reset();
  } else {
    set(key, std::string_view(text));
  }
}

void Config::set(std::string_view key, std::string_view text) {
  const KeyInfo& info = key_info(key);
  values_[key_index(info)] = canonical_value(info, text);
}

bool Config::is_set(std::string_view key) const {
  return values_[key_index(key_info(key))].has_value();
}

bool Config::is_auto(std::string_view key) const { return get(key) == "auto"; }

std::string Config::get(std::string_view key) const {
  const KeyInfo& info = key_info(key);
  const std::optional<std::string>& value = values_[key_index(info)];
  if (value) return *value;
  return info.has(kTraitDerived) ? derive(info) : info.default_text;
}

std::string Config::derive(const KeyInfo& info) const {
  const std::string_view key = info.name;
  if (key == "model.key_value_heads") return get("model.heads");
  if (key == "train.sequence_length") return get("model.sequence_length");
  if (key == "train.attention_dropout") return get("train.dropout");
  if (key == "layout.schedule") {
    const std::string interleave = get("layout.interleave");
    if (interleave == "auto") return interleave;
    return interleave == "1" ? "one_forward_one_backward" : "interleaved";
  }
  if (key == "model.tied") {
    const std::string family = get("model.family");
    return family.empty() ? "" : family == "gpt2" ? "true" : "false";
  }
  int64_t hidden = 0, heads = 0;
  if (!parse_whole(get("model.hidden"), &hidden)) return "";
  if (key == "model.feed_forward") return std::to_string(4 * hidden);
  if (!parse_whole(get("model.heads"), &heads) || hidden % heads != 0) return "";
  return std::to_string(hidden / heads);  // model.head_size
}

int64_t Config::get_integer(std::string_view key) const {
  const std::string text = get(key);
  int64_t value = 0;
  if (!parse_whole(text, &value)) refuse_value(key_info(key), text);
  return value;
}

double Config::get_real(std::string_view key) const {
  const std::string text = get(key);
  double value = 0;
  if (!parse_whole(text, &value)) refuse_value(key_info(key), text);
  return value;
}

bool Config::get_boolean(std::string_view key) const {
  const std::string text = get(key);
  if (text != "true" && text != "false") refuse_value(key_info(key), text);
  return text == "true";
}

namespace {

template <class Element>
std::vector<Element> elements_of(std::string_view key, const std::string& text) {
  if (text.empty()) return {};
  if (!text.starts_with('[')) refuse_value(key_info(key), text);
  return parse_json(text).get<std::vector<Element>>();
}

}  // namespace

std::vector<int64_t> Config::get_integers(std::string_view key) const {
  return elements_of<int64_t>(key, get(key));
}

std::vector<double> Config::get_reals(std::string_view key) const {
  return elements_of<double>(key, get(key));
}

std::vector<std::string> Config::get_texts(std::string_view key) const {
  const std::string text = get(key);
  const bool is_single = key_info(key).type == KeyType::kPath && !text.starts_with('[');
  if (is_single && !text.empty()) return {text};
  return elements_of<std::string>(key, text);
}

void Config::load_json(std::string_view text) {
  const Json tree = parse_json(text);
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
    const bool is_given = values_[key_index(info)].has_value();
    if (!is_given && !complete) continue;
    const std::string value = get(info.name);
    if (is_given || !value.empty()) object.raw(info.name, json_of(info, value));
  }
  return object.text();
}

uint64_t fingerprint(const Config& config) {
  std::string text;
  for (const KeyInfo& info : all_keys()) {
    if (!is_compared(info)) continue;
    text.append(info.name).push_back('\0');
    text.append(config.get(info.name)).push_back('\0');  // values hold no NUL
  }
  return XXH3_64bits(text.data(), text.size());
}

std::vector<KeyDifference> differences(const Config& first, const Config& second) {
  std::vector<KeyDifference> result;
  for (const KeyInfo& info : all_keys()) {
    if (!is_compared(info)) continue;
    std::string a = first.get(info.name), b = second.get(info.name);
    if (a != b) result.push_back({&info, std::move(a), std::move(b)});
  }
  return result;
}

}  // namespace plait

#include "engine/config/config.h"

#include <nlohmann/json.hpp>
#include <type_traits>
#include <utility>

#include "engine/config/number_text.h"
#include "engine/config/rule.h"
#include "kernels/base/error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace plait {
namespace {

bool is_compared(const KeyInfo& info) {
  return (info.flags & kKeyLocal) == 0 && !info.has(kTraitSecret);
}

[[noreturn]] void refuse_value(const KeyInfo& info, const std::string& value) {
  Error error = Error("argument", value.empty() ? "a configuration key has no value"
                                                : "a configuration key does not hold a number yet")
                    .with("key", info.name)
                    .subsystem("config");
  if (!value.empty()) error = with_field(std::move(error), "value", value);
  throw error;
}

// Collects the elements of a canonical list. A tree of the list would not do: destroying one
// allocates, which ends the process where memory has run out.
template <class Element>
class ListReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  std::vector<Element> elements;

  bool null() override { return false; }
  bool boolean(bool) override { return false; }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(value); }
  bool binary(binary_t&) override { return false; }
  bool start_object(std::size_t) override { return false; }
  bool key(string_t&) override { return false; }
  bool end_object() override { return false; }
  bool start_array(std::size_t) override { return true; }
  bool end_array() override { return true; }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  template <class Value>
  bool add(const Value& value) {
    constexpr bool kIsText = std::is_same_v<Element, std::string>;
    if constexpr (kIsText == std::is_same_v<Value, std::string>) {
      elements.push_back(static_cast<Element>(value));
      return true;
    }
    return false;
  }
};

template <class Element>
std::vector<Element> elements_of(std::string_view key, const std::string& text) {
  if (text.empty()) return {};
  if (!text.starts_with('[')) refuse_value(key_info(key), text);
  ListReader<Element> reader;
  const bool is_read = nlohmann::json::sax_parse(text, &reader);
  check(is_read, "a list in canonical form has elements of its type");
  return std::move(reader.elements);
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
    if (interleave == "auto") return "auto";
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

// Canonical text of one value: type, range and choices of its row.
#include <cmath>
#include <string>

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

constexpr double kExactInteger = 0x1p53;  // below it a double names one integer

Error refuse(const KeyInfo& info, std::string_view text, const char* sentence) {
  Error error = Error("argument", sentence).with("key", info.name).subsystem("config");
  return info.has(kTraitSecret) ? std::move(error)
                                : std::move(error).with("value", text.substr(0, kLongestShown));
}

[[noreturn]] void refuse_type(const KeyInfo& info, std::string_view text) {
  Error error = refuse(info, text, "a configuration value has the wrong form")
                    .with("expected", type_name(info.type));
  if (info.choices[0] != '\0') error = with_field(std::move(error), "choices", info.choices);
  throw error;
}

[[noreturn]] void refuse_range(const KeyInfo& info, std::string_view text, bool is_low) {
  const bool is_open = info.has(is_low ? kTraitAboveMinimum : kTraitBelowMaximum);
  const char* name = is_low ? (is_open ? "above" : "minimum") : (is_open ? "below" : "maximum");
  throw refuse(info, text, "a configuration value is out of range")
      .with_raw(name, is_low ? info.minimum : info.maximum);
}

double limit_of(const char* text) {
  double limit = 0;
  parse_whole(text, &limit);
  return limit;
}

/// Text of an integer beyond 64 bits, so that its error is one of range, not of form.
bool is_digits(std::string_view text) {
  if (text.starts_with('-')) text.remove_prefix(1);
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

std::string canonical_integer(const KeyInfo& info, std::string_view text) {
  int64_t value = 0;
  if (!parse_whole(text, &value)) {
    if (is_digits(text)) refuse_range(info, text, text.starts_with('-'));
    double real = 0;
    const bool is_real = parse_whole(text, &real) && std::isfinite(real);
    if (!is_real || real != std::trunc(real)) refuse_type(info, text);
    if (std::abs(real) > kExactInteger) refuse_range(info, text, real < 0);
    value = static_cast<int64_t>(real);
  }
  int64_t limit = 0;
  if (parse_whole(info.minimum, &limit) && value < limit) {
    refuse_range(info, text, true);
  }
  if (parse_whole(info.maximum, &limit) && value > limit) {
    refuse_range(info, text, false);
  }
  return std::to_string(value);
}

std::string canonical_real(const KeyInfo& info, std::string_view text) {
  double value = 0;
  if (!parse_whole(text, &value) || !std::isfinite(value)) refuse_type(info, text);
  if (info.minimum[0] != '\0') {
    const double limit = limit_of(info.minimum);
    if (value < limit || (value == limit && info.has(kTraitAboveMinimum))) {
      refuse_range(info, text, true);
    }
  }
  if (info.maximum[0] != '\0') {
    const double limit = limit_of(info.maximum);
    if (value > limit || (value == limit && info.has(kTraitBelowMaximum))) {
      refuse_range(info, text, false);
    }
  }
  return json_number(value == 0 ? 0.0 : value);  // one text for both zeros
}

std::string canonical_text(const KeyInfo& info, std::string_view text) {
  if (!is_utf8(text)) refuse_type(info, text);
  if (text.find('\0') != std::string_view::npos) {
    throw refuse(info, text, "a configuration value holds a NUL character");
  }
  return std::string(text);
}

/// One element of a list as JSON text.
std::string canonical_element(const KeyInfo& info, const Json& element, std::string_view text) {
  if (info.has(kTraitAnyElement)) return element.dump();
  switch (info.element) {
    case KeyType::kInteger:
      if (!element.is_number()) refuse_type(info, text);
      return canonical_integer(info, element.dump());
    case KeyType::kReal:
      if (!element.is_number()) refuse_type(info, text);
      return canonical_real(info, element.dump());
    default:
      break;
  }
  if (!element.is_string()) refuse_type(info, text);
  const std::string& word = element.get_ref<const std::string&>();
  if (info.element == KeyType::kWord && !has_choice(info.choices, word)) refuse_type(info, word);
  if (word.empty()) refuse_type(info, text);
  return json_string(canonical_text(info, word));
}

Json parse_list(const KeyInfo& info, std::string_view text) {
  Json list;
  try {
    list = parse_json(text);
  } catch (const Error& error) {
    if (error.word() != "argument") throw;
    refuse_type(info, text);
  }
  if (list.is_array()) return list;
  empty_tree(list);
  refuse_type(info, text);
}

std::string canonical_list(const KeyInfo& info, std::string_view text) {
  JsonArray array;
  Json list = parse_list(info, text);
  const TreeEnd end(list);
  for (const Json& element : list) {
    array.add(canonical_element(info, element, text));
  }
  return array.text();
}

std::string canonical_path(const KeyInfo& info, std::string_view text) {
  if (!info.has(kTraitOneOrList) || !text.starts_with('[')) return canonical_text(info, text);
  Json list = parse_list(info, text);
  const TreeEnd end(list);
  std::string canonical = canonical_list(info, text);
  if (list.empty()) return "";
  if (list.size() > 1) return canonical;
  const std::string& only = list[0].get_ref<const std::string&>();
  return only.starts_with('[') ? canonical : only;
}

}  // namespace

std::string canonical_value(const KeyInfo& info, std::string_view text) {
  const bool takes_elements = info.type == KeyType::kList && info.element == KeyType::kWord;
  if (!takes_elements && has_choice(info.choices, text)) return std::string(text);
  switch (info.type) {
    case KeyType::kInteger:
      return canonical_integer(info, text);
    case KeyType::kReal:
      return canonical_real(info, text);
    case KeyType::kBoolean:
      if (text != "true" && text != "false") refuse_type(info, text);
      return std::string(text);
    case KeyType::kWord:
      throw refuse(info, text, "a configuration value is none of its choices")
          .with("choices", info.choices);
    case KeyType::kText:
      return canonical_text(info, text);
    case KeyType::kPath:
      return canonical_path(info, text);
    case KeyType::kList:
      return canonical_list(info, text);
  }
  return std::string(text);
}

}  // namespace plait

// A configuration: dotted keys of the table mapped to canonical text.
//
// A plain value: copy it, compare it; one thread at a time. What is stored is what was set; `get`
// adds the defaults, also those that follow from other keys.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/config/keys.h"

namespace plait {

class Config {
 public:
  Config();

  /// Checks `text` against type, range and choices of `key` and stores its canonical form; null
  /// returns the key to its default. Throws `argument`: unknown key (fields key, nearest), wrong
  /// type or choice (key, value, expected, choices), out of range (key, value, minimum or maximum).
  /// The value of a secret key is never quoted. On error nothing has changed.
  void set(std::string_view key, const char* text);
  void set(std::string_view key, std::string_view text);

  /// Effective value: set, else default, else derived from other keys. Empty when there is none.
  /// Throws `argument` for an unknown key.
  std::string get(std::string_view key) const;

  /// True when the key was set (to whatever value). Throws `argument` for an unknown key.
  bool is_set(std::string_view key) const;

  /// True when the effective value is the word `auto`.
  bool is_auto(std::string_view key) const;

  /// Effective value by type. Throw `argument` naming the key when there is no value, or when it is
  /// a word (`auto`) and no number.
  int64_t get_integer(std::string_view key) const;
  double get_real(std::string_view key) const;
  bool get_boolean(std::string_view key) const;
  /// Lists: empty when the value is empty. A single path is a list of one.
  std::vector<int64_t> get_integers(std::string_view key) const;
  std::vector<double> get_reals(std::string_view key) const;
  std::vector<std::string> get_texts(std::string_view key) const;

  /// Merges a JSON object into this configuration. Nested objects and dotted keys are the same;
  /// null returns a key to its default. All or nothing: on error nothing has changed. Throws
  /// `argument` for text that is no JSON (field offset), a key given twice, too deep nesting, and
  /// all that `set` refuses.
  void load_json(std::string_view text);

  /// One JSON object of dotted keys in the order of the table: what was set, or, when complete,
  /// every key with an effective value. Numbers, booleans and lists are JSON values. Secrets never
  /// appear. load_json of the result gives the same configuration.
  std::string dump_json(bool complete) const;

  bool operator==(const Config&) const = default;

 private:
  std::string derive(const KeyInfo& info) const;

  std::vector<std::optional<std::string>> values_;  // by key_index
};

/// Canonical form of `text` for `info`; throws as Config::set.
std::string canonical_value(const KeyInfo& info, std::string_view text);

/// XXH3-64 over the effective values of all keys that are neither local nor secret.
uint64_t fingerprint(const Config& config);

struct KeyDifference {
  const KeyInfo* info = nullptr;
  std::string first, second;  ///< effective values
};

/// The keys that the fingerprint covers and whose effective values differ, in table order.
std::vector<KeyDifference> differences(const Config& first, const Config& second);

}  // namespace plait

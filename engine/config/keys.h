// The table of configuration keys: the one authority for names, types, defaults and ranges.
//
// Values travel as text. Canonical text of a type:
//   integer  decimal; real  shortest decimal that reads back; boolean  `true` or `false`;
//   word, text, path  as they are; list  compact JSON.
// A key may admit words in place of a number or a list (`auto`, `dynamic`): see `choices`.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace plait {

enum class KeyType : int32_t { kInteger, kReal, kBoolean, kWord, kText, kPath, kList };

/// What a resumed run may do to a key: nothing, change it when allowed by name, change it freely.
enum class Resume : int32_t { kSame, kAsk, kFree };

/// Bits of KeyInfo::flags, with the numbers of the C ABI.
inline constexpr int64_t kKeyMutable = 1;   ///< may change while an engine runs
inline constexpr int64_t kKeyLocal = 2;     ///< may differ between processes
inline constexpr int64_t kKeyHostOnly = 4;  ///< the engine never reads it

/// Bits of KeyInfo::traits, internal to the library.
inline constexpr int64_t kTraitRequired = 1;      ///< has no default and must be given
inline constexpr int64_t kTraitDerived = 2;       ///< the default follows from other keys
inline constexpr int64_t kTraitAboveMinimum = 4;  ///< the minimum itself is outside
inline constexpr int64_t kTraitBelowMaximum = 8;  ///< the maximum itself is outside
inline constexpr int64_t kTraitSecret = 16;       ///< never dumped, compared, saved or logged
inline constexpr int64_t kTraitOneOrList = 32;    ///< a path, or a list of paths
inline constexpr int64_t kTraitAnyElement = 64;   ///< a list whose elements are any JSON

/// One row. All text is static and never null; an empty text means "none".
struct KeyInfo {
  const char* name = "";
  KeyType type = KeyType::kText;
  KeyType element = KeyType::kText;  ///< of lists: type of the elements
  const char* default_text = "";     ///< canonical; empty where required, derived or absent
  const char* minimum = "";          ///< of the number, or of each number of a list
  const char* maximum = "";
  /// Comma-separated words. Of a word, and of a list of words: all that are legal (the elements').
  /// Of any other type: words that may stand in place of the value.
  const char* choices = "";
  const char* unit = "";
  const char* doc = "";  ///< one sentence
  Resume resume = Resume::kFree;
  int64_t flags = 0;
  int64_t traits = 0;

  bool has(int64_t trait) const { return (traits & trait) != 0; }
};

/// All keys in their fixed order; grouped by prefix.
const std::vector<KeyInfo>& all_keys();

/// The row of `name`, null when there is none.
const KeyInfo* find_key(std::string_view name);

/// The row of `name`; throws `argument` with fields `key` and `nearest` when there is none.
const KeyInfo& key_info(std::string_view name);

/// Position of `info` (a row of all_keys()) in all_keys().
size_t key_index(const KeyInfo& info);

/// The known key with the least edit distance to `name`; one that ends in `.name` comes first.
const KeyInfo& nearest_key(std::string_view name);

/// Insertions, deletions and replacements that turn `a` into `b` (Levenshtein).
size_t edit_distance(std::string_view a, std::string_view b);

/// True for keys that may change while an engine runs. Throws as key_info.
bool is_mutable(std::string_view name);

/// True when `word` is one of the comma-separated `choices`.
bool has_choice(std::string_view choices, std::string_view word);

/// Position of `word` in the comma-separated `choices`, −1 when it is not there.
int32_t choice_index(std::string_view choices, std::string_view word);

/// "integer", "real", "boolean", "word", "text", "path" or "list".
const char* type_name(KeyType type);

/// "same", "ask" or "free".
const char* resume_name(Resume resume);

}  // namespace plait

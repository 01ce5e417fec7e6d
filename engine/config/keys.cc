#include "engine/config/keys.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>

#include "engine/config/key_groups.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr size_t kLongestName = 96;  // bounds the work and the message for hostile keys

std::vector<KeyInfo> join_groups() {
  std::vector<KeyInfo> keys;
  for (const auto group :
       {model_keys(), layout_keys(), train_keys(), run_keys(), system_keys(), planner_keys()}) {
    keys.insert(keys.end(), group.begin(), group.end());
  }
  return keys;
}

std::unordered_map<std::string_view, size_t> index_names() {
  std::unordered_map<std::string_view, size_t> index;
  const std::vector<KeyInfo>& keys = all_keys();
  for (size_t i = 0; i < keys.size(); ++i) index.emplace(keys[i].name, i);
  return index;
}

bool is_tail_of(std::string_view name, std::string_view key) {
  return !name.empty() && key.size() > name.size() && key.ends_with(name) &&
         key[key.size() - name.size() - 1] == '.';
}

}  // namespace

const std::vector<KeyInfo>& all_keys() {
  static const std::vector<KeyInfo> keys = join_groups();
  return keys;
}

const KeyInfo* find_key(std::string_view name) {
  static const std::unordered_map<std::string_view, size_t> index = index_names();
  const auto found = index.find(name);
  return found == index.end() ? nullptr : &all_keys()[found->second];
}

const KeyInfo& key_info(std::string_view name) {
  if (const KeyInfo* info = find_key(name)) return *info;
  throw Error("argument", "no such configuration key")
      .with("key", name.substr(0, kLongestName))
      .with("nearest", nearest_key(name).name)
      .subsystem("config");
}

size_t key_index(const KeyInfo& info) { return static_cast<size_t>(&info - all_keys().data()); }

size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0]++;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, diagonal + 1});
    }
  }
  return row.back();
}

const KeyInfo& nearest_key(std::string_view name) {
  name = name.substr(0, kLongestName);
  const KeyInfo* nearest = nullptr;
  size_t least = 0;
  for (const KeyInfo& info : all_keys()) {
    if (is_tail_of(name, info.name)) return info;
    const size_t distance = edit_distance(name, info.name);
    if (nearest == nullptr || distance < least) {
      nearest = &info;
      least = distance;
    }
  }
  return *nearest;
}

bool is_mutable(std::string_view name) { return (key_info(name).flags & kKeyMutable) != 0; }

int32_t choice_index(std::string_view choices, std::string_view word) {
  if (word.empty() || word.find(',') != std::string_view::npos) return -1;
  for (int32_t index = 0; !choices.empty(); ++index) {
    const size_t comma = std::min(choices.find(','), choices.size());
    if (choices.substr(0, comma) == word) return index;
    choices.remove_prefix(std::min(comma + 1, choices.size()));
  }
  return -1;
}

bool has_choice(std::string_view choices, std::string_view word) {
  return choice_index(choices, word) >= 0;
}

const char* type_name(KeyType type) {
  switch (type) {
    case KeyType::kInteger:
      return "integer";
    case KeyType::kReal:
      return "real";
    case KeyType::kBoolean:
      return "boolean";
    case KeyType::kWord:
      return "word";
    case KeyType::kText:
      return "text";
    case KeyType::kPath:
      return "path";
    case KeyType::kList:
      return "list";
  }
  return "unknown";
}

const char* resume_name(Resume resume) {
  switch (resume) {
    case Resume::kSame:
      return "same";
    case Resume::kAsk:
      return "ask";
    case Resume::kFree:
      return "free";
  }
  return "unknown";
}

}  // namespace plait

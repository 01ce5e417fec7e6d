#include "checkpoint/hf_index.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>

#include "checkpoint/hf_keys.h"
#include "checkpoint/json_guard.h"
#include "kernels/base/error.h"
#include "kernels/base/json_end.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

using Json = nlohmann::json;

bool is_plain_shard_name(std::string_view name) {
  constexpr std::string_view kEnd = ".safetensors";
  constexpr size_t kMostBytes = 255;
  if (name.size() < kEnd.size() || name.size() > kMostBytes) return false;
  if (name.substr(name.size() - kEnd.size()) != kEnd) return false;
  return std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-';
  });
}

std::string read_text(Files& files, const std::string& path) {
  const std::unique_ptr<File> file = files.open_read(path);
  const int64_t bytes = file->size();
  if (bytes > HfLimits::kIndexBytes) {
    throw Error("invalid_field", "the file is too large for an index")
        .with("file", path)
        .with("field", "file bytes")
        .with("value", bytes)
        .with("limit", HfLimits::kIndexBytes);
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  file->read_exactly(text.data(), bytes, 0, "invalid_field");
  return text;
}

void read_total_size(const Json& root, HfIndex* index) {
  const auto metadata = root.find("metadata");
  if (metadata == root.end() || !metadata->is_object()) return;
  const auto total = metadata->find("total_size");
  if (total == metadata->end() || !total->is_number()) return;
  index->has_total_size = true;
  index->total_size = total->get<double>();
}

}  // namespace

HfIndex read_hf_index(Files& files, const std::string& directory) {
  const std::string path = join_path(directory, kHfIndexFile);
  const std::string text = read_text(files, path);
  JsonLimits limits;
  limits.values = SafetensorsLimits::kTensors + 1024;
  guard_json(text, limits, path);
  Json root = Json::parse(text);
  const TreeEnd end(root);
  const auto weight_map = root.find("weight_map");
  if (weight_map == root.end() || !weight_map->is_object()) {
    throw Error("invalid_field", "the index has no table weight_map")
        .with("file", path)
        .with("field", "weight_map");
  }
  HfIndex index;
  std::map<std::string, size_t> places;
  for (const auto& [name, shard] : weight_map->items()) {
    if (!shard.is_string() || !is_plain_shard_name(shard.get_ref<const std::string&>())) {
      throw Error("invalid_field", "not the base name of a .safetensors file")
          .with("file", path)
          .with("field", "weight_map." + shorten(name))
          .with_raw("value", json_excerpt(shard.dump(-1, ' ', true)));
    }
    places.emplace(shard.get_ref<const std::string&>(), 0);
  }
  if (static_cast<int64_t>(places.size()) > HfLimits::kShards) {
    throw Error("invalid_field", "the index names too many shards")
        .with("file", path)
        .with("field", "weight_map")
        .with("value", places.size())
        .with("limit", HfLimits::kShards);
  }
  for (auto& [shard, place] : places) {
    place = index.shards.size();
    index.shards.push_back(shard);
  }
  for (const auto& [name, shard] : weight_map->items()) {
    index.shard_of.emplace(name, places.at(shard.get_ref<const std::string&>()));
  }
  read_total_size(root, &index);
  return index;
}

void check_hf_index(const HfIndex& index,
                    const std::vector<std::unique_ptr<SafetensorsFile>>& files,
                    const std::string& directory) {
  constexpr int64_t kMostNames = 4096;
  int64_t count = 0;
  JsonArray differences;
  const auto add = [&](const std::string& name, const std::string& shard, const char* what) {
    if (++count > kMostNames) return;
    differences.add(JsonObject()
                        .field("tensor", shorten(name))
                        .field("shard", shard)
                        .field("difference", what)
                        .text());
  };
  for (size_t i = 0; i < files.size(); ++i) {
    for (const SafetensorsEntry& entry : files[i]->entries()) {
      const auto place = index.shard_of.find(entry.name);
      if (place == index.shard_of.end()) {
        add(entry.name, index.shards[i], "in the shard, not in the index");
      } else if (place->second != i) {
        add(entry.name, index.shards[i], "in a shard that the index does not name for it");
      }
    }
  }
  for (const auto& [name, shard] : index.shard_of) {
    if (files[shard]->find(name) == nullptr) {
      add(name, index.shards[shard], "in the index, not in the shard");
    }
  }
  if (count == 0) return;
  throw Error("invalid_field", "index and shards disagree")
      .with("file", join_path(directory, kHfIndexFile))
      .with("field", "weight_map")
      .with("count", count)
      .with_raw("differences", differences.text());
}

}  // namespace plait

#include "checkpoint/hf_directory.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "checkpoint/hf_index.h"
#include "checkpoint/hf_keys.h"
#include "checkpoint/hf_names.h"
#include "checkpoint/json_guard.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

const char kConfigName[] = "config.json";
const char kEmbedding[] = "embedding.token.weight";
const char kHead[] = "lm_head.weight";
constexpr size_t kMostNames = 4096;  // in one message; the counts are always complete

using FilePlace = std::pair<const SafetensorsFile*, const SafetensorsEntry*>;

std::string name_list(const std::vector<std::string>& names) {
  JsonArray list;
  for (size_t i = 0; i < std::min(names.size(), kMostNames); ++i) {
    list.add(json_string(shorten(names[i])));
  }
  return list.text();
}

void check_names(const std::string& directory, const std::vector<std::string>& missing,
                 const std::vector<std::string>& unexpected) {
  if (missing.empty() && unexpected.empty()) return;
  throw Error("name_mismatch", "the files' tensors are not those of the model")
      .with("directory", directory)
      .with("missing_count", missing.size())
      .with_raw("missing", name_list(missing))
      .with("unexpected_count", unexpected.size())
      .with_raw("unexpected", name_list(unexpected));
}

/// Collects shapes that differ, to be reported together.
class ShapeCheck {
 public:
  void compare(const SafetensorsEntry& entry, const Shape& shape) {
    if (entry.has_shape(shape)) return;
    ++count_;
    if (count_ > kMostNames) return;
    differences_.add(JsonObject()
                         .field("tensor", shorten(entry.name))
                         .raw("file", json_string(entry.shape_text()))
                         .raw("config", json_string(shape.text()))
                         .text());
  }
  void require_none(const std::string& directory) const {
    if (count_ == 0) return;
    throw Error("config_mismatch", "tensor shapes are not those of config.json")
        .with("directory", directory)
        .with("count", count_)
        .with_raw("differences", differences_.text());
  }

 private:
  size_t count_ = 0;
  JsonArray differences_;
};

void check_type(const SafetensorsEntry& entry) {
  if (entry.dtype != FileDType::kOther) return;
  throw Error("unsupported_model", "an element type that no model is read from")
      .with("tensor", shorten(entry.name))
      .with("dtype", entry.type_name());
}

/// Place of the first difference; `count` when there is none.
template <class T>
int64_t first_difference(const T* a, const T* b, int64_t count) {
  if (std::memcmp(a, b, static_cast<size_t>(count) * sizeof(T)) == 0) return count;
  int64_t i = 0;
  while (std::memcmp(a + i, b + i, sizeof(T)) == 0) ++i;
  return i;
}

}  // namespace

bool HfDirectory::is_one(Files& files, const std::string& directory) {
  return files.exists(join_path(directory, kConfigName)) &&
         (files.exists(join_path(directory, kHfSingleFile)) ||
          files.exists(join_path(directory, kHfIndexFile)));
}

HfDirectory HfDirectory::open(Files& files, const std::string& directory) {
  HfDirectory result;
  result.directory_ = directory;
  result.config_ = read_hf_config(files, directory);
  result.warnings_ = result.config_.warnings;
  result.open_files(files, directory);
  result.resolve();
  return result;
}

void HfDirectory::open_files(Files& files, const std::string& directory) {
  const std::string single = join_path(directory, kHfSingleFile);
  if (files.exists(single)) {
    files_.push_back(std::make_unique<SafetensorsFile>(files, single));
  } else if (files.exists(join_path(directory, kHfIndexFile))) {
    open_shards(files, directory);
  } else {
    throw Error("no_checkpoint", "neither model.safetensors nor its index is there")
        .with("directory", directory);
  }
  for (const auto& file : files_) {
    for (const SafetensorsEntry& entry : file->entries()) data_bytes_ += entry.bytes;
  }
}

void HfDirectory::open_shards(Files& files, const std::string& directory) {
  const HfIndex index = read_hf_index(files, directory);
  int64_t tensors = 0, bytes = 0;
  for (const std::string& shard : index.shards) {
    const std::string path = join_path(directory, shard);
    if (!files.exists(path)) {
      throw Error("missing_shard", "a shard that the index names is not there").with("path", path);
    }
    files_.push_back(std::make_unique<SafetensorsFile>(files, path));
    tensors += static_cast<int64_t>(files_.back()->entries().size());
    for (const SafetensorsEntry& entry : files_.back()->entries()) bytes += entry.bytes;
    if (tensors > SafetensorsLimits::kTensors) {
      throw Error("invalid_field", "the shards have too many tensors")
          .with("directory", directory)
          .with("field", "tensors")
          .with("value", tensors)
          .with("limit", SafetensorsLimits::kTensors);
    }
  }
  check_hf_index(index, files_, directory);
  if (index.has_total_size && index.total_size != static_cast<double>(bytes)) {
    std::string& warning = warnings_.emplace_back(kHfIndexFile);
    warning += ": total_size is " + json_number(index.total_size);
    warning += ", the tensors have " + std::to_string(bytes) + " bytes";
  }
}

void HfDirectory::resolve() {
  const ModelFacts& facts = config_.facts;
  std::unordered_map<std::string_view, FilePlace> places;
  std::vector<std::string> missing, unexpected;
  for (const auto& file : files_) {
    for (const SafetensorsEntry& entry : file->entries()) {
      const std::string_view name = strip_hf_prefix(facts.family, entry.name);
      if (is_ignored_hf_tensor(name)) continue;
      if (!places.emplace(name, FilePlace{file.get(), &entry}).second) {
        unexpected.push_back(entry.name);
      }
    }
  }
  tensors_ = logical_tensors(facts);
  sources_.resize(tensors_.size());
  for (size_t i = 0; i < tensors_.size(); ++i) index_.emplace(tensors_[i].name, i);
  ShapeCheck shapes;
  for (const HfTensor& wanted : hf_tensors(facts)) {
    const auto place = places.find(strip_hf_prefix(facts.family, wanted.name));
    if (place == places.end()) {
      missing.push_back(wanted.name);
      continue;
    }
    const auto [file, entry] = place->second;
    places.erase(place);
    shapes.compare(*entry, wanted.shape);
    for (const HfPart& part : wanted.parts) {
      sources_[index_.at(part.tensor.name)] = {file, entry, part.first, wanted.transposed};
    }
  }
  FilePlace head{nullptr, nullptr};
  if (const auto place = places.find(kHead); facts.tied && place != places.end()) {
    head = place->second;
    shapes.compare(*head.second, {facts.vocab_size, facts.hidden});
    places.erase(place);
  }
  for (const auto& [name, place] : places) unexpected.push_back(place.second->name);
  std::sort(unexpected.begin(), unexpected.end());
  check_names(directory_, missing, unexpected);
  shapes.require_none(directory_);
  for (const HfSource& source : sources_) check_type(*source.entry);
  if (head.second != nullptr) check_tied(*head.first, *head.second);
}

void HfDirectory::check_tied(const SafetensorsFile& file, const SafetensorsEntry& head) const {
  check_type(head);
  const HfSource& table = sources_[index_of(kEmbedding)];
  constexpr int64_t kChunk = 1 << 17;
  const int64_t count = tensors_[index_of(kEmbedding)].shape.elements();
  const bool is_same_type = head.dtype == table.entry->dtype;
  const int64_t size = head.element_bytes();
  std::vector<char> raw(is_same_type ? static_cast<size_t>(2 * kChunk * size) : 0);
  std::vector<float> wide(is_same_type ? 0 : 2 * kChunk);
  for (int64_t done = 0; done < count; done += kChunk) {
    const int64_t part = std::min(kChunk, count - done);
    int64_t equal = part;
    if (is_same_type) {
      char* other = raw.data() + kChunk * size;
      file.read_bytes(head, done * size, part * size, raw.data());
      table.file->read_bytes(*table.entry, done * size, part * size, other);
      equal = first_difference(raw.data(), other, part * size) / size;
    } else {
      float* other = wide.data() + kChunk;
      file.read(head, done, part, wide.data());
      table.file->read(*table.entry, done, part, other);
      equal = first_difference(wide.data(), other, part);
    }
    if (equal == part) continue;
    throw Error("tied_mismatch", "the head of a tied model differs from its embedding")
        .with("tensor", head.name)
        .with("embedding", table.entry->name)
        .with("index", done + equal);
  }
}

size_t HfDirectory::index_of(std::string_view name) const {
  const auto place = index_.find(std::string(name));
  if (place != index_.end()) return place->second;
  throw Error("argument", "no tensor of this name").with("name", shorten(name));
}

const CheckpointTensor* HfDirectory::find(std::string_view name) const {
  const auto place = index_.find(std::string(name));
  return place == index_.end() ? nullptr : &tensors_[place->second];
}

const char* HfDirectory::type_name(std::string_view name) const {
  return sources_[index_of(name)].entry->type_name();
}

void HfDirectory::check_matches(const ModelFacts& run) const {
  auto in_file = model_keys(facts()), in_run = model_keys(run);
  JsonArray differences;
  int64_t count = 0;
  for (size_t i = 0; i < std::min(in_file.size(), in_run.size()); ++i) {
    const auto& [key, value] = in_file[i];
    const bool is_free =
        key == "model.sequence_length" && facts().family == ModelFacts::Family::kLlama;
    if (is_free || value == in_run[i].second) continue;
    ++count;
    differences.add(JsonObject()
                        .field("field", key)
                        .field("file", value)
                        .field("run", in_run[i].second)
                        .text());
  }
  if (count == 0) return;
  throw Error("config_mismatch", "the model in the files is not that of the run")
      .with("directory", directory_)
      .with("count", count)
      .with_raw("differences", differences.text());
}

void HfDirectory::read(std::string_view name, const Box& box, float* out) const {
  const size_t i = index_of(name);
  const HfSource& source = sources_[i];
  const Shape& shape = tensors_[i].shape;
  check(box.dims == shape.dims(), "a box has the dims of its tensor");
  for (int dim = 0; dim < box.dims; ++dim) {
    const auto d = static_cast<size_t>(dim);
    check(box.first[d] >= 0 && box.size[d] >= 0 && box.first[d] <= shape[dim] - box.size[d],
          "a box lies within its tensor");
  }
  FileRectangle rectangle{0, 1, source.first + box.first[0], box.size[0]};
  if (box.dims == 2 && source.transposed) {
    rectangle = {box.first[1], box.size[1], source.first + box.first[0], box.size[0]};
  } else if (box.dims == 2) {
    rectangle = {source.first + box.first[0], box.size[0], box.first[1], box.size[1]};
  }
  source.file->read_rectangle(*source.entry, rectangle, source.transposed, out);
}

}  // namespace plait

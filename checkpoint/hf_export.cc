#include "checkpoint/hf_export.h"

#include <algorithm>
#include <cstdio>
#include <exception>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "checkpoint/hf_config.h"
#include "checkpoint/hf_index.h"
#include "checkpoint/hf_names.h"
#include "checkpoint/safetensors_writer.h"
#include "kernels/base/error.h"
#include "kernels/base/json_end.h"

namespace plait {
namespace {

/// A directory being written beside its target. Unless published it is removed with all in it.
class HiddenDirectory {
 public:
  HiddenDirectory(Env& env, const std::string& target) : files_(env.files) {
    target_ = target;
    while (target_.size() > 1 && target_.back() == '/') target_.pop_back();
    const size_t slash = target_.rfind('/');
    const std::string name = slash == std::string::npos ? target_ : target_.substr(slash + 1);
    parent_ = slash == std::string::npos ? "." : slash == 0 ? "/" : target_.substr(0, slash);
    if (name.empty() || name == "." || name == "..") {
      throw Error("argument", "not a path to make a directory at").with("path", target);
    }
    if (files_.exists(target_)) {
      throw Error("target_exists", "the target of an export exists already").with("path", target_);
    }
    char random[17];
    std::snprintf(random, sizeof random, "%016llx",
                  static_cast<unsigned long long>(env.entropy.next()));
    path_ = join_path(parent_, "." + name + ".tmp-" + random);
    files_.make_directory(path_);
    is_open_ = true;
  }

  ~HiddenDirectory() {
    if (!is_open_) return;
    for (const std::string& name : names_) {
      quietly([&] { files_.unlink(join_path(path_, name)); });
    }
    quietly([&] { files_.remove_directory(path_); });
  }
  HiddenDirectory(const HiddenDirectory&) = delete;
  HiddenDirectory& operator=(const HiddenDirectory&) = delete;

  std::unique_ptr<File> create(const std::string& name) {
    names_.push_back(name);
    return files_.create(join_path(path_, name), true);
  }

  void write_text(const std::string& name, const std::string& text) {
    const std::unique_ptr<File> file = create(name);
    file->pwrite(text.data(), static_cast<int64_t>(text.size()), 0);
    file->sync();
  }

  /// A rename that cannot be made durable is taken back, so that an error always means: nothing.
  void publish() {
    files_.sync_directory(path_);
    files_.rename_noreplace(path_, target_);
    try {
      files_.sync_directory(parent_);
    } catch (...) {
      quietly([&] { files_.rename_noreplace(target_, path_); });
      throw;
    }
    is_open_ = false;
  }

 private:
  template <class Action>
  static void quietly(const Action& action) {
    try {
      action();
    } catch (const std::exception&) {
      return;  // the first error is the one to report
    }
  }

  Files& files_;
  std::string target_, parent_, path_;
  std::vector<std::string> names_;
  bool is_open_ = false;
};

/// Tensors of one weight file, by name.
struct ShardPlan {
  std::vector<const HfTensor*> tensors;
  int64_t data_bytes = 0;
};

std::vector<ShardPlan> plan_shards(const std::vector<HfTensor>& tensors, DType dtype,
                                   int64_t max_shard_bytes) {
  std::vector<ShardPlan> shards;
  SafetensorsSize size(dtype);
  for (const HfTensor& tensor : tensors) {
    SafetensorsSize larger = size;
    larger.add({tensor.name, tensor.shape});
    if (shards.empty() || larger.file_bytes() > max_shard_bytes) {
      if (shards.empty() || !shards.back().tensors.empty()) shards.emplace_back();
      larger = SafetensorsSize(dtype);
      larger.add({tensor.name, tensor.shape});
    }
    shards.back().tensors.push_back(&tensor);
    shards.back().data_bytes = larger.data_bytes();
    size = larger;
  }
  return shards;
}

std::string shard_name(size_t index, size_t count) {
  if (count == 1) return kHfSingleFile;
  char name[64];
  std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", index + 1, count);
  return name;
}

std::string index_text(const std::vector<ShardPlan>& shards, int64_t bytes) {
  nlohmann::json root;
  const TreeEnd end(root);
  root["metadata"]["total_size"] = bytes;
  root["weight_map"] = nlohmann::json::object();
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const HfTensor* tensor : shards[i].tensors) {
      root["weight_map"][tensor->name] = shard_name(i, shards.size());
    }
  }
  return root.dump(2) + "\n";
}

/// Brings a file tensor together from its logical parts, in `whole`; `part` is scratch.
class Assembler {
 public:
  explicit Assembler(const TensorSource& source) : source_(source) {}

  const float* assemble(const HfTensor& tensor) {
    whole_.resize(static_cast<size_t>(tensor.shape.elements()));
    const int64_t row = tensor.shape.dims() == 2 && !tensor.transposed ? tensor.shape[1] : 1;
    for (const HfPart& part : tensor.parts) {
      if (!tensor.transposed) {
        source_(part.tensor, whole_.data() + part.first * row);
        continue;
      }
      part_.resize(static_cast<size_t>(part.tensor.shape.elements()));
      source_(part.tensor, part_.data());
      transpose(part, tensor.shape[1]);
    }
    return whole_.data();
  }

 private:
  void transpose(const HfPart& part, int64_t stride) {
    constexpr int64_t kTile = 32;
    const int64_t rows = part.tensor.shape[0], columns = part.tensor.shape[1];
    float* to = whole_.data() + part.first;
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
        for (int64_t c = c0; c < std::min(c0 + kTile, columns); ++c) {
          for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) {
            to[c * stride + r] = part_[static_cast<size_t>(r * columns + c)];
          }
        }
      }
    }
  }

  const TensorSource& source_;
  std::vector<float> whole_, part_;
};

/// Counts bytes and stops when asked to.
class Progress {
 public:
  Progress(const HfExportOptions& options, int64_t total) : options_(options), total_(total) {}
  void add(int64_t bytes) {
    done_ += bytes;
    if (options_.on_progress) options_.on_progress(done_, total_);
    stop_if_asked();
  }
  void stop_if_asked() const {
    if (options_.cancel == nullptr || !options_.cancel->load()) return;
    throw Error("cancelled", "the export was cancelled").with("bytes", done_).with("total", total_);
  }

 private:
  const HfExportOptions& options_;
  int64_t done_ = 0, total_;
};

void write_shard(HiddenDirectory& directory, const std::string& name, const ShardPlan& shard,
                 DType dtype, Assembler& assembler, Progress& progress) {
  std::vector<SafetensorsSpec> specs;
  for (const HfTensor* tensor : shard.tensors) specs.push_back({tensor->name, tensor->shape});
  const std::unique_ptr<File> file = directory.create(name);
  SafetensorsWriter writer(*file, std::move(specs), dtype,
                           [&](int64_t bytes) { progress.add(bytes); });
  for (const HfTensor* tensor : shard.tensors) {
    progress.stop_if_asked();
    writer.write(tensor->name, assembler.assemble(*tensor));
  }
  writer.finish();
}

void check_options(const HfExportOptions& options) {
  if (options.max_shard_bytes < 1) {
    throw Error("argument", "a shard must hold at least one byte")
        .with("key", "export.max_shard_bytes")
        .with("value", options.max_shard_bytes)
        .with("minimum", 1);
  }
  if (options.dtype != DType::kFloat32 && options.dtype != DType::kBFloat16 &&
      options.dtype != DType::kFloat16) {
    throw Error("argument", "weights are written as float32, bfloat16 or float16")
        .with("key", "export.dtype")
        .with("value", dtype_name(options.dtype));
  }
}

}  // namespace

HfExportResult export_hf(Env& env, const ModelFacts& facts, const TensorSource& source,
                         const HfExportOptions& options, const std::string& directory) {
  check_options(options);
  std::vector<HfTensor> tensors = hf_tensors(facts);
  std::sort(tensors.begin(), tensors.end(),
            [](const HfTensor& a, const HfTensor& b) { return a.name < b.name; });
  const std::string config = write_hf_config(facts, options.dtype, options.original_config);
  const std::vector<ShardPlan> shards =
      plan_shards(tensors, options.dtype, options.max_shard_bytes);
  HfExportResult result;
  result.weight_files = static_cast<int64_t>(shards.size());
  result.tensors = static_cast<int64_t>(tensors.size());
  for (const ShardPlan& shard : shards) result.bytes += shard.data_bytes;

  HiddenDirectory hidden(env, directory);
  Progress progress(options, result.bytes);
  Assembler assembler(source);
  for (size_t i = 0; i < shards.size(); ++i) {
    const std::string name = shard_name(i, shards.size());
    write_shard(hidden, name, shards[i], options.dtype, assembler, progress);
  }
  if (shards.size() > 1) hidden.write_text(kHfIndexFile, index_text(shards, result.bytes));
  hidden.write_text("config.json", config);
  progress.stop_if_asked();
  hidden.publish();
  return result;
}

}  // namespace plait

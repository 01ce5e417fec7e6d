// Hugging Face directories made by hand, and a second reader, independent of the ones under test.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/model_facts.h"
#include "kernels/base/error.h"

namespace plait {

/// A directory of the running system that disappears with this.
class TempDirectory {
 public:
  TempDirectory();
  ~TempDirectory();
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  std::string path(const std::string& name = "") const;
  /// Writes a file, making its directory; returns its path.
  std::string write(const std::string& name, const std::string& bytes) const;
  std::vector<std::string> names() const;  ///< sorted, hidden ones too

 private:
  std::string path_;
};

struct RawTensor {
  std::string name;
  std::string dtype;
  std::vector<int64_t> shape;
  std::string bytes;
};

/// A safetensors file of this header text and data.
std::string safetensors_file(const std::string& header, const std::string& data);
/// A safetensors file of these tensors in this order; `spaces` follow the header's text.
std::string safetensors_file(const std::vector<RawTensor>& tensors, int spaces = 0);

/// Reads a file back by the format's definition with a DOM parser.
std::map<std::string, RawTensor> read_safetensors(const std::string& path);
std::string read_text(const std::string& path);

/// Deterministic finite values of a tensor, all bits in use; F64 values fit in F32 but are not all
/// exact there.
RawTensor random_tensor(const std::string& name, const std::string& dtype,
                        const std::vector<int64_t>& shape);

/// Element i as fp32, by the definition of each type (no code under test).
float element(const RawTensor& tensor, int64_t i);

ModelFacts gpt2_facts();   ///< 2 layers, hidden 12, 3 heads, 37 words, 20 feed-forward
ModelFacts llama_facts();  ///< 2 layers, hidden 12, 3·4 heads of 6 over 2, untied, 41 words

std::string config_text(const ModelFacts& facts);

/// Every tensor of such a model under the names of its files. `prefix` is gpt2's.
std::vector<RawTensor> model_tensors(const ModelFacts& facts, const std::string& dtype,
                                     const std::string& prefix = "transformer.");

/// Writes config.json and one model.safetensors into `directory`/`name`.
std::string write_model(const TempDirectory& directory, const std::string& name,
                        const ModelFacts& facts, const std::vector<RawTensor>& tensors);

/// The same over `shards` files with their index; tensor i goes to shard i mod `shards`.
std::string write_sharded_model(const TempDirectory& directory, const std::string& name,
                                const ModelFacts& facts, const std::vector<RawTensor>& tensors,
                                int shards);

/// Runs `action` and requires an Error of this word whose message holds every one of `parts`.
void require_error(const std::function<void()>& action, const std::string& word,
                   const std::vector<std::string>& parts = {});

}  // namespace plait

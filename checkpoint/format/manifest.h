// What one step of a checkpoint holds, as plain values, and the two sealed FlatBuffers that carry
// it: MANIFEST (identifier "PLCM") and one index of each shard (sNNNNN.idx, "PLSI").
//
// Encoding is a pure function of the values: equal values give equal bytes. Decoding takes hostile
// bytes: it proves trailer, buffer and meaning before it returns (see `decode_manifest`).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/box.h"
#include "kernels/base/dtype.h"
#include "kernels/base/tensor.h"

namespace plait {

/// Which values of a logical tensor; numbers of the C ABI and of the files.
enum class StateKind : uint16_t { kParam = 1, kMaster = 2, kMoment1 = 3, kMoment2 = 4, kExtra = 5 };

const char* state_kind_name(StateKind kind);  ///< "param", "master", "moment1", "moment2", "extra"

struct Hash128 {
  uint64_t low = 0;
  uint64_t high = 0;
  bool operator==(const Hash128& other) const = default;
};

/// This build's format. Another major is refused; a newer minor is read where it says that an
/// older reader may.
inline constexpr int kFormatMajor = 0;
inline constexpr int kFormatMinor = 1;

/// Limits of a step, the same for writers (too_large) and readers (invalid_field).
struct FormatLimits {
  static constexpr int64_t kManifestBytes = int64_t{64} << 20;
  static constexpr int64_t kIndexBytes = int64_t{256} << 20;
  static constexpr int64_t kTensors = int64_t{1} << 18;
  static constexpr int64_t kFiles = int64_t{1} << 16;
  static constexpr int64_t kSlices = int64_t{1} << 21;  ///< of one index
  static constexpr int64_t kNameBytes = 256;
  static constexpr int64_t kProperties = 4096;
  static constexpr int64_t kPropertyBytes = int64_t{1} << 20;  ///< all names and texts together
  static constexpr int64_t kPropertyTextBytes = int64_t{64} << 10;
};

struct SavedFormat {
  int major = kFormatMajor;
  int minor = kFormatMinor;
  int min_reader_minor = kFormatMinor;
  uint64_t required = 0;  ///< feature bits that a reader must know
  uint64_t optional = 0;  ///< feature bits that a reader may ignore
  std::string writer;     ///< library and version
  std::string numerics;   ///< canonical `key=value` text: device, instruction set, dtypes, modes
  int align_log2 = 12;    ///< of slices in shards
};

struct SavedLayout {
  int64_t tensor = 1, pipeline = 1, data = 1, interleave = 1;
  int64_t zero = 0;
  bool sequence_parallel = false;
  std::vector<int64_t> stage_layers;  ///< layers of each virtual stage
};

struct SavedProgress {
  int64_t step = 0, updates = 0, samples = 0, tokens = 0, skipped = 0, overflows = 0;
  double lr = 0;  ///< of the last update
};

/// Dynamic loss scale; `is_present` only where the run has one.
struct SavedScaler {
  bool is_present = false;
  double scale = 0;
  int32_t good_steps = 0;
  int32_t hysteresis_left = 0;  ///< may be negative
};

struct SavedRandom {
  std::string algorithm;
  int key_version = 0;
  uint64_t seed = 0;
};

struct SavedDataset {
  uint64_t fingerprint = 0;
  uint64_t tokens = 0;
  uint64_t drawn = 0;   ///< ordinal of the next sample of this dataset
  uint64_t weight = 0;  ///< of the blend
  int64_t credit = 0;
};

/// Order and position of training data; no parts where the host feeds batches.
struct SavedData {
  std::string order;
  int order_version = 0;
  uint64_t seed = 0;
  std::vector<SavedDataset> parts;
};

/// Parameters that one optimizer setting applies to.
struct SavedGroup {
  std::string name;
  std::string algorithm;
  double lr_scale = 1, weight_decay = 0, beta1 = 0, beta2 = 0, epsilon = 0;
};

struct TensorState {
  StateKind kind = StateKind::kParam;
  DType dtype = DType::kFloat32;
  /// Every bit is zero; slices are there all the same. A writer may leave it out, as this build's
  /// do: it saves no reading, since what is used is hashed. A reader that finds it proves it.
  bool is_zero = false;
  int64_t elements = 0;  ///< of the whole logical tensor
  uint64_t digest = 0;   ///< sum over all elements, see digest.h
};

struct SavedTensor {
  std::string name;
  Shape shape;                      ///< 1 to 4 dims, no layout changes it
  std::vector<TensorState> states;  ///< by ascending kind
  int group = 0;                    ///< index in the groups; 0 where there are none
};

struct SavedFile {
  uint32_t ordinal = 0;  ///< global rank; names the pair sNNNNN.plt, sNNNNN.idx
  uint32_t tensor = 0, pipeline = 0, data = 0;
  int64_t plt_bytes = 0, idx_bytes = 0;
  Hash128 idx_hash;  ///< as in the trailer of the index
};

struct SavedProperty {
  enum class Type : uint8_t { kInteger = 1, kReal = 2, kText = 3 };
  std::string name;
  Type type = Type::kInteger;
  int64_t integer = 0;
  double real = 0;  ///< any bits, NaN included
  std::string text;
};

struct Manifest {
  SavedFormat format;
  Hash128 save_id, state_digest;
  SavedLayout layout;
  std::vector<std::pair<std::string, std::string>> config;  ///< effective keys, sorted
  SavedProgress progress;
  SavedScaler scaler;
  SavedRandom random;
  SavedData data;
  std::vector<SavedGroup> groups;
  std::vector<SavedTensor> tensors;       ///< sorted by name bytes, names unique
  std::vector<SavedFile> files;           ///< by ordinal
  std::vector<SavedProperty> properties;  ///< sorted by name

  /// Index of a tensor, −1: there is none.
  int64_t find(std::string_view name) const;
  /// Null: the tensor has no such kind.
  const TensorState* state(int64_t tensor, StateKind kind) const;
};

/// A row-major box of one (tensor, kind) in a shard.
struct Slice {
  uint32_t tensor = 0;  ///< index in Manifest::tensors
  StateKind kind = StateKind::kParam;
  DType dtype = DType::kFloat32;
  Box box;               ///< never empty
  int64_t position = 0;  ///< in the .plt file, a multiple of the alignment
  int64_t bytes = 0;
  uint64_t hash = 0;    ///< XXH3-64, seed 0, of the stored bytes
  uint64_t digest = 0;  ///< of its elements at their places in the whole tensor
};

struct ShardIndex {
  int major = kFormatMajor, minor = kFormatMinor;
  Hash128 save_id;
  uint32_t ordinal = 0;
  std::vector<Slice> slices;  ///< by (tensor, kind, first of the box)
};

/// MANIFEST with its trailer. Throws `too_large` past a limit.
std::string encode_manifest(const Manifest& manifest, uint64_t sequence);
/// sNNNNN.idx with its trailer, whose hash is `*hash`. Throws `too_large` past a limit.
std::string encode_index(const ShardIndex& index, Hash128* hash);

/// Proves and reads a whole MANIFEST file: trailer (`corrupt` with path and offset), identifier,
/// FlatBuffer verification with bounded depth and tables, then every field: enums known, sizes and
/// products in range, names sorted and unique, UTF-8, doubles finite, no unknown required bit
/// (`format`; also another major, or a minor that does not let this reader in). What is wrong is
/// `invalid_field` with path, field path, value and limit. `data` must be 16-byte aligned.
Manifest decode_manifest(std::string_view data, const std::string& path, uint64_t* sequence);

/// Likewise for an index, against the manifest that names it: save id (`save_id_mismatch`),
/// ordinal, tensors, kinds, dtypes, boxes inside shapes, bytes = volume · size, positions aligned,
/// ascending, apart, and inside the shard file.
ShardIndex decode_index(std::string_view data, const std::string& path, const Manifest& manifest,
                        const SavedFile& file);

/// Fills state_digest, and save_id from it, from all other fields.
void seal_identity(Manifest* manifest);

}  // namespace plait

// Reading a step: proof of its manifest and indexes when it is opened, of every byte that is used
// when it is read. Needs no engine, no device, no lock.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/root.h"
#include "kernels/base/env.h"
#include "kernels/base/function_ref.h"

namespace plait {

/// Where a part of a logical tensor goes.
struct ReadTarget {
  int64_t tensor = 0;                  ///< index in the manifest
  StateKind kind = StateKind::kParam;  ///< as it is stored
  Box box;                             ///< may be empty
  DType dtype = DType::kFloat32;       ///< of `data`: the stored one, or float32 (widened exactly)
  void* data = nullptr;  ///< row-major box; null: the bytes are read and proved, and go nowhere
  /// Of the *stored* bits of the box, filled in by the read.
  uint64_t digest = 0;
};

/// How the bytes of shards come into memory. kMap: by mappings where the system gives them, for
/// storage that the host trusts (see FileMapping).
enum class ShardAccess { kRead, kMap };

struct Damage {
  std::string file;    ///< relative to the step's directory
  int64_t offset = 0;  ///< of the first byte of what is damaged
  std::string what;    ///< one line
};

/// Calls work(i) for i in [0, count), begun in this order, maybe on several threads; returns when
/// all that were begun have ended, and throws what the lowest i that failed has thrown.
using ReadCrew = std::function<void(size_t count, FunctionRef<void(size_t)> work)>;

class StepReader {
 public:
  /// Opens files inside `directory` without following links, checks kinds and sizes, decodes
  /// MANIFEST and all indexes, and proves that the slices of all shards hold each element of each
  /// (tensor, kind) once (`invalid_field` with tensor, kind and box). Other errors are those of
  /// decode_manifest and decode_index, and `missing_shard` (ordinal, file), `corrupt` for a file of
  /// another size, `save_id_mismatch`, `invalid_file`, `no_checkpoint`. Holds a shared lock on
  /// MANIFEST while it lives, where the file system has locks (`locked`: it is being removed).
  static std::unique_ptr<StepReader> open(Files& files, const std::string& directory,
                                          ShardAccess access = ShardAccess::kRead);
  ~StepReader();

  const std::string& directory() const;
  const Manifest& manifest() const;
  uint64_t sequence() const;
  const std::vector<ShardIndex>& indexes() const;  ///< by ordinal

  /// Fills the targets from the slices that meet them: ascending passes over each shard, in chunks
  /// of 8 MiB through a buffer for each thread of `crew` (null: this one), hashing each slice
  /// whole. Throws `corrupt` (file, offset, tensor, kind) for a slice whose hash differs
  /// (`save_id_mismatch` where the shard's header names another save), `invariant` unless each
  /// element of each target was filled exactly once. Adds to `bytes_done`; `cancelled` soon after
  /// `is_cancelled` turns true. Both may be null. The error is that of the first slice in order,
  /// however many threads there are. Several threads may read at a time.
  void read(std::span<ReadTarget> targets, std::atomic<int64_t>* bytes_done = nullptr,
            const std::atomic<bool>* is_cancelled = nullptr, const ReadCrew* crew = nullptr) const;

  /// Whole tensors: reads one into `data` [elements, stored dtype] and proves its digest
  /// (`digest_mismatch` with tensor and kind). Null: it is proved, and goes nowhere.
  void read_whole(int64_t tensor, StateKind kind, void* data) const;

  /// Likewise, but shows the file itself, whatever the access: null where the tensor is not one
  /// slice, or files cannot be mapped. For storage that the host trusts.
  std::unique_ptr<FileMapping> map_whole(int64_t tensor, StateKind kind) const;

  /// Everything: hashes of all slices, coverage and digest of every (tensor, kind), state digest
  /// and save id; `is_full`: shard headers, gaps, sizes, and files that no one names. Damage, in
  /// file order; nothing when all is well.
  std::vector<Damage> verify(bool is_full, std::atomic<int64_t>* bytes_done = nullptr,
                             const std::atomic<bool>* is_cancelled = nullptr) const;

  int64_t data_bytes() const;  ///< of all slices

 private:
  struct State;
  explicit StepReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Steps that were tried before the one that was opened, and why they were left.
struct SkippedStep {
  std::string name;
  std::string word;  ///< of the error
  std::string reason;
};

/// What `path` holds: a root, whose steps are tried newest first (`is_falling_back`: else the
/// newest alone), or one step directory. `no_checkpoint` when there is none, with what was skipped.
struct OpenedStep {
  std::unique_ptr<StepReader> reader;
  std::vector<SkippedStep> skipped;
};
OpenedStep open_checkpoint(Files& files, const std::string& path, bool is_falling_back);

/// Whether `path` is a root or a step directory of this format (and no Hugging Face directory).
bool is_native_checkpoint(Files& files, const std::string& path);

/// The first element in which two steps differ, of each (tensor, kind), in name and kind order;
/// then other fields: progress, scaler, random, data, properties.
struct StateDifference {
  std::string what;   ///< tensor and kind, or the field
  std::string where;  ///< index "[3,17]", or empty
  std::string a, b;   ///< both values
};
std::vector<StateDifference> compare_steps(const StepReader& a, const StepReader& b);

}  // namespace plait

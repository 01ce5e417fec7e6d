// What an open step is made of, shared by the sources that read, verify and compare it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/store/step_reader.h"
#include "kernels/base/error.h"

namespace plait {

/// A slice by its place in the indexes.
struct SliceRef {
  uint32_t file = 0;   ///< in OpenStep::indexes
  uint32_t slice = 0;  ///< in that index
};

/// Does not change once it is open, so any thread may use it.
struct OpenStep {
  Files* files = nullptr;
  std::string directory;
  ShardAccess access = ShardAccess::kRead;
  std::unique_ptr<File> manifest_file;  ///< holds the shared lock
  Manifest manifest;
  uint64_t sequence = 0;
  std::vector<ShardIndex> indexes;  ///< by ordinal, as Manifest::files
  /// Parallel to `indexes`; null where each pass opens its own, which saves descriptors.
  std::vector<std::shared_ptr<File>> shards;
  std::vector<SliceRef> order;  ///< all slices by (tensor, kind, first of the box)

  const Slice& slice(SliceRef ref) const { return indexes[ref.file].slices[ref.slice]; }
  const Shape& shape(const Slice& slice) const { return manifest.tensors[slice.tensor].shape; }
  /// By first of the box.
  std::span<const SliceRef> slices_of(int64_t tensor, StateKind kind) const;
  /// The shard of `indexes[file]`, of the size that the manifest says. `missing_shard`,
  /// `invalid_file`, `save_id_mismatch`, `corrupt`.
  std::shared_ptr<File> open_shard(size_t file) const;
  std::string shard_file(size_t file) const;  ///< its name
  /// Throws `save_id_mismatch` if `shard` has the header of another save; what it cannot read is
  /// no proof.
  void refuse_other_save(File& shard, size_t file) const;
};

struct StepReader::State : OpenStep {};

/// Adds tensor, kind, slice and box.
Error name_slice(Error error, const OpenStep& step, SliceRef ref);
std::string hash_text(const Hash128& hash);  ///< 32 hex digits, high word first

}  // namespace plait

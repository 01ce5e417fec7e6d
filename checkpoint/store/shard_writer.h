// One rank's shard and index of a step. The writer needs no peer: what ranks must agree on (save
// id, manifest) comes from outside.
//
//   ShardWriter writer(files, directory, place, step, shapes, sources);
//   writer.write_slices(&bytes_done);          // data, hashed and digested on the way
//   … digests of all ranks make the save id …
//   SavedFile file = writer.finish(save_id);   // header last, F1; index, F2
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "kernels/base/env.h"

namespace plait {

/// Values of one slice in memory, row-major; borrowed until the write has ended.
struct SliceSource {
  uint32_t tensor = 0;  ///< index in the manifest's sorted tensors
  StateKind kind = StateKind::kParam;
  DType dtype = DType::kFloat32;
  Box box;
  const void* data = nullptr;
};

/// Coordinates of the rank that owns the slices.
struct ShardPlace {
  uint32_t ordinal = 0;
  uint32_t tensor = 0, pipeline = 0, data = 0;
};

class ShardWriter {
 public:
  /// `directory`: the step's temporary one, there already. `sources` are sorted here by (tensor,
  /// kind, first of the box); empty boxes are left out. `shapes`: of the manifest's tensors.
  /// Throws `too_large` past a limit.
  ShardWriter(Files& files, std::string directory, const ShardPlace& place, int64_t step,
              std::span<const Shape> shapes, std::vector<SliceSource> sources);
  ~ShardWriter();

  bool is_empty() const;       ///< nothing to write: no pair of files, and finish may not be called
  int64_t file_bytes() const;  ///< of the shard

  /// Creates the shard (it must be new), asks for its space, and writes gaps and slices in chunks
  /// of 8 MiB, from one pass over memory that also hashes and digests. Adds bytes of slices to
  /// `bytes_done`; ends with `cancelled` soon after `is_cancelled` turns true. Both may be null.
  /// After a failure, here or in finish, the files are dead and the writer does nothing more.
  void write_slices(std::atomic<int64_t>* bytes_done, const std::atomic<bool>* is_cancelled);
  /// With hash and digest, once written. By (tensor, kind, first of the box).
  const std::vector<Slice>& slices() const;

  /// Header, F1 (data of the shard), index, F2 (data of the index); checks sizes and closes.
  SavedFile finish(const Hash128& save_id);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// One shard's contribution to the whole: what rank 0 collects.
struct ShardRecord {
  SavedFile file;
  std::vector<Slice> slices;
};

/// Step 6 of a save: proves that the slices of all shards hold each element of each (tensor, kind)
/// of the manifest exactly once (else `invariant` naming tensor, kind and box), fills in elements
/// and digests of its states and `files` (records without slices have none). The states' kinds and
/// dtypes are there already, and `is_zero` stays what it is.
void cover(Manifest* manifest, std::span<const ShardRecord> records);

}  // namespace plait

// One save of this process: what it writes, from where, and how far it is.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/shard_writer.h"
#include "engine/config/settings.h"
#include "engine/trainer/rank.h"
#include "engine/trainer/state_map.h"
#include "kernels/base/async_operation.h"
#include "kernels/device/memory.h"

namespace plait {

/// Memory for the values of one save, kept from save to save.
class SaveStaging {
 public:
  /// At least `elements` for local rank `local`; what was there is lost. Throws `no_memory`.
  float* take(size_t local, int64_t elements);

 private:
  std::vector<Buffer> buffers_;  // by local rank
};

/// What one local rank owns.
struct SaveShard {
  ShardPlace place;
  std::vector<StatePiece> pieces;  ///< owned ones, where they live
  float* staged = nullptr;         ///< piece after piece; null: written from where they live
  int64_t elements = 0;

  std::vector<SliceSource> sources() const;
};

struct SaveJob {
  uint64_t number = 0;  ///< the same in every process
  std::string root, temporary;
  Manifest manifest;  ///< no digests, files and identity until the writer knows them
  CheckpointConfig options;
  bool may_retain = true;
  bool is_skipped = false;  ///< on_busy: nothing is to be done
  bool is_settled = false;  ///< nothing of it is written any more; guarded by the saver
  int64_t begin_ns = 0, deadline_ns = 0;
  std::vector<SaveShard> shards;         ///< by local rank
  std::unique_ptr<SaveStaging> staging;  ///< null: the call waits, and live values stand still
  std::shared_ptr<AsyncOperation> operation;

  int64_t local_bytes() const;  ///< of values that this process writes
  int64_t world_bytes() const;  ///< of values of the whole step
};

/// Copies what the rank owns to its staging. On the rank's thread.
void stage(Rank& rank, const SaveShard& shard);

/// Local rank of a process: what it owns, not yet staged.
SaveShard make_save_shard(Rank& rank, bool weights_only);

}  // namespace plait

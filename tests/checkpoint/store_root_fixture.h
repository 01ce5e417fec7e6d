// A small state that three ranks save, and a save of it by the protocol, all in one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/store/root.h"
#include "checkpoint/store/shard_writer.h"
#include "kernels/base/env.h"

namespace plait::test {

/// The path of all roots in simulated files.
inline const std::string kRootPath = "/runs/ckpt";

/// Tensors of several dims and dtypes, each cut in flat ranges over `ranks`. Values depend on the
/// step alone.
class SmallState {
 public:
  SmallState(int64_t step, int64_t ranks);
  SmallState(const SmallState&) = delete;
  SmallState& operator=(const SmallState&) = delete;

  /// All but files, digests and identity.
  const Manifest& manifest() const { return manifest_; }
  std::vector<Shape> shapes() const;
  std::vector<SliceSource> sources(int64_t rank) const;
  ShardPlace place(int64_t rank) const;
  int64_t ranks() const { return ranks_; }
  int64_t bytes() const;  ///< of all tensors

 private:
  struct Cut {
    int64_t rank = 0;
    SliceSource source;
  };
  void fill();

  int64_t ranks_ = 0;
  Manifest manifest_;
  std::vector<std::vector<char>> values_;
  std::vector<Cut> cuts_;
};

/// What one rank writes, and through which files.
struct RankShard {
  Files* files = nullptr;
  ShardPlace place;
  std::vector<SliceSource> sources;
};
/// Steps 4 to 6: shards of all ranks in `directory`; the manifest that a commit takes.
Manifest write_shards(std::span<const RankShard> ranks, const std::string& directory,
                      Manifest manifest);
Manifest write_shards(Files& files, const std::string& directory, const SmallState& state);

struct SavePlan {
  int64_t step = 0;
  CommitOptions commit;
  RetentionOptions retention;
  std::function<void()> acknowledged;  ///< called once the commit has returned; may be empty
};
/// Steps 1 to 10. What fails is discarded and thrown on. The step's path is returned.
std::string save_step(RootWriter& root, Files& files, const SavePlan& plan);
/// The same by a process for each rank, through its files. `root` is of the first, which hears of
/// the end of any other.
std::string save_step(RootWriter& root, std::span<Files* const> ranks, const SavePlan& plan);

/// An Env of these files with the running system's clock and entropy.
Env env_of(Files& files);

/// What a load would take: the newest step whose manifest, indexes and bytes are right; step and
/// sequence 0: none. What else is wrong with the root is appended to `*faults`: steps that do not
/// verify, a LATEST that names no step.
StepEntry find_newest(Files& files, const std::string& root, std::string* faults);
int64_t newest_step(Files& files, const std::string& root, std::string* faults);

/// Names in the root that are neither LOCK, LATEST nor a step.
std::vector<std::string> other_names(Files& files, const std::string& root);

}  // namespace plait::test

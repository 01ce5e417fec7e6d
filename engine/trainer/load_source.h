// What a load takes values from: one step of the native format, or the weights of a Hugging Face
// directory. One process's view; nothing here knows of peers.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/config/settings.h"
#include "engine/data/sampler.h"
#include "engine/trainer/run_state.h"
#include "engine/trainer/state_map.h"
#include "kernels/base/env.h"
#include "kernels/base/json_text.h"
#include "kernels/device/thread_pool.h"

namespace plait {

/// The run that loads. Borrowed until the load has ended.
struct LoadingRun {
  const Config* config = nullptr;
  const Settings* settings = nullptr;
  const Manifest* expected = nullptr;  ///< see compare_runs; its tensors number the pieces
  const Dataset* train = nullptr;      ///< null: none is attached
};

/// Sums of digests, mod 2^64, by tensor and kind of the pieces: see `digest_slot`.
using DigestSums = std::vector<uint64_t>;
inline constexpr int64_t kDigestKinds = 4;  ///< param, master and both moments
size_t digest_slot(int64_t tensor, StateKind kind);

class LoadSource {
 public:
  virtual ~LoadSource() = default;

  /// Equal text in two processes: they see the same values.
  virtual std::string identity() const = 0;
  /// Throws what forbids the run to take the values; brings the data of a run to its position.
  virtual ResumeDecision compare(const LoadingRun& run) = 0;
  /// Reads and proves every piece: into its memory when `is_live`, else nowhere. Returns the sums
  /// of what is owned. Throws `corrupt` and the like, `nonfinite_weights`, `cancelled`.
  virtual DigestSums read(std::span<const StatePiece> pieces, bool is_live,
                          const std::atomic<bool>& is_cancelled) = 0;
  /// Proves the whole source, whatever a run needs of it.
  virtual void verify(const std::atomic<bool>& is_cancelled) = 0;
  /// Compares the sums of the world with what was saved: `digest_mismatch` with tensor and kind.
  virtual void prove(const DigestSums& sums) const = 0;
  /// Null where the source has weights alone.
  virtual const Manifest* manifest() const = 0;
  virtual std::vector<SavedProperty> properties() const = 0;
  virtual void report(JsonObject* report) const = 0;
};

std::unique_ptr<LoadSource> open_step_source(Files& files, const std::string& directory,
                                             const CheckpointConfig& checkpoint,
                                             const ThreadHooks& hooks);
std::unique_ptr<LoadSource> open_hugging_face_source(Files& files, const std::string& directory);

/// Throws `nonfinite_weights` (tensor, index in it) unless all values of the piece are finite.
void check_finite_values(const StatePiece& piece, const float* values, const SavedTensor& tensor);

}  // namespace plait

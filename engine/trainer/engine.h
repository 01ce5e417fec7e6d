// The composition root: one engine drives the local ranks of a process through training steps.
//
// Calls block until the rank threads are done; one call at a time, except where "any thread"
// stands. Every call but state, counter, report and the stops throws ABORTED/aborted once the
// engine is lost. `timeout_ms` > 0 limits the call; −1 leaves it to the configured deadlines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/world.h"
#include "engine/config/config.h"
#include "engine/data/sampler.h"
#include "engine/trainer/batch.h"
#include "engine/trainer/metrics.h"
#include "kernels/base/async_operation.h"
#include "kernels/base/env.h"
#include "kernels/base/log.h"
#include "kernels/base/tensor.h"
#include "kernels/device/thread_pool.h"

namespace plait {

enum class EngineState : int32_t { kReady = 1, kRunning = 2, kLost = 3, kClosed = 4 };

/// Which values of a logical tensor: numbers of the C ABI.
enum class TensorKind : int32_t {
  kParam = 1,
  kMaster = 2,
  kMoment1 = 3,
  kMoment2 = 4,
  kGradient = 64
};

/// One (logical tensor, kind).
struct TensorEntry {
  std::string name;
  TensorKind kind = TensorKind::kParam;
  DType dtype = DType::kFloat32;
  Shape shape;
};

/// A host's own value that travels with the state.
struct Property {
  enum class Type : int32_t { kInteger = 1, kReal = 2, kText = 3 };
  std::string name;
  Type type = Type::kInteger;
  int64_t integer = 0;
  double real = 0;
  std::string text;
};

enum class Outcome { kDone, kStopped };

struct EngineOptions {
  Env* env = nullptr;  ///< outlives the engine
  Log* log = nullptr;  ///< outlives the engine
  ThreadHooks hooks;
  World* world = nullptr;  ///< complete; outlives the engine; at most one engine at a time
};

class Engine {
 public:
  /// Checks the configuration, allocates everything a step needs and draws the weights. Throws
  /// `argument` and the like with nothing left behind.
  static std::unique_ptr<Engine> create(const Config& config, const EngineOptions& options,
                                        int64_t timeout_ms);
  virtual ~Engine() = default;

  virtual EngineState state() const = 0;  ///< any thread
  virtual BatchSpec batch_spec() const = 0;
  /// Run `index` of this process's rows in a global batch of `global_rows`.
  virtual void batch_span(int64_t global_rows, int64_t index, int64_t* first,
                          int64_t* count) const = 0;

  /// One whole optimizer step on `batch`, or on the next batch of the "train" dataset when null.
  virtual Outcome step(const Batch* batch, int64_t timeout_ms, Metrics* metrics) = 0;
  virtual Outcome forward_backward(const Batch& batch, int64_t timeout_ms, Metrics* metrics) = 0;
  virtual Outcome optimizer_step(int64_t timeout_ms, Metrics* metrics) = 0;
  /// Loss without dropout and without effect on the state; null: the "evaluate" dataset.
  virtual Outcome evaluate(const Batch* batch, int64_t timeout_ms, Metrics* metrics) = 0;
  /// losses [rows, s] float32: −log p(target), 0 where ignored; bytes must fit exactly.
  virtual Outcome score(const Batch& batch, int64_t timeout_ms, float* losses, int64_t bytes) = 0;
  virtual Outcome generate(const int32_t* prompt, int64_t prompt_count, int64_t max_tokens,
                           int64_t timeout_ms, std::vector<int32_t>* tokens) = 0;
  /// role "train" or "evaluate"; null detaches.
  virtual void attach_dataset(std::string_view role, std::shared_ptr<const Dataset> dataset,
                              int64_t timeout_ms) = 0;

  /// A run-time key; effective when the next call opens. trace.steps begins a trace of so many
  /// steps: memory for them and a file in trace.directory are tried here. When the last one has
  /// ended, its call writes the file; what fails then stands in report "trace" and in the log, and
  /// is no error of the step.
  virtual void set(std::string_view key, const char* value) = 0;
  virtual void set_property(Property property) = 0;
  virtual double counter(std::string_view name) const = 0;      ///< any thread
  virtual std::string report(std::string_view kind) const = 0;  ///< any thread; JSON

  /// In name order, then kind order.
  virtual const std::vector<TensorEntry>& tensors() const = 0;
  /// The whole logical tensor, row-major, converted to `dtype`; `data` may have any alignment.
  virtual void read_tensor(std::string_view name, TensorKind kind, DType dtype, int64_t timeout_ms,
                           void* data, int64_t bytes) = 0;
  virtual void write_tensor(std::string_view name, TensorKind kind, DType dtype, const void* data,
                            int64_t bytes, int64_t timeout_ms) = 0;
  /// Snapshots the state and writes it as a new step of `root`; returns after the snapshot, the
  /// operation ends when the step is durable, alike in every process. `max_staged` 0 returns after
  /// that. Its report: path, step, sequence, bytes, seconds; or that it was skipped (on_busy).
  virtual std::shared_ptr<AsyncOperation> save(const std::string& root, int64_t timeout_ms) = 0;
  /// Takes the state of a checkpoint (a root or one step, of any layout), or the weights of a
  /// Hugging Face directory. JSON report, unless null: path, step, what was skipped and why,
  /// warnings. On error, or when stopped, the state is unchanged; where it could not be kept so,
  /// the engine is lost.
  virtual Outcome load(const std::string& path, int64_t timeout_ms,
                       std::string* report = nullptr) = 0;

  virtual void request_stop() = 0;  ///< any thread, also a signal handler
  virtual void abort() = 0;         ///< any thread
  virtual void close(int64_t timeout_ms) = 0;
};

}  // namespace plait

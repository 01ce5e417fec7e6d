// The Engine of one process: its share of a world's ranks, driven together.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "engine/trainer/engine.h"
#include "engine/trainer/generator.h"
#include "engine/trainer/host_rows.h"
#include "engine/trainer/loader.h"
#include "engine/trainer/rank_set.h"
#include "engine/trainer/run_state.h"
#include "engine/trainer/saver.h"
#include "engine/trainer/step_trace.h"
#include "engine/trainer/straggler_watch.h"
#include "engine/trainer/tensor_access.h"

namespace plait {

class LocalEngine final : public Engine {
 public:
  LocalEngine(const Config& config, const EngineOptions& options);
  ~LocalEngine() override;
  void start(int64_t timeout_ms);

  EngineState state() const override { return ranks_.state(); }
  BatchSpec batch_spec() const override;
  void batch_span(int64_t global_rows, int64_t index, int64_t* first,
                  int64_t* count) const override;
  Outcome step(const Batch* batch, int64_t timeout_ms, Metrics* metrics) override;
  Outcome forward_backward(const Batch& batch, int64_t timeout_ms, Metrics* metrics) override;
  Outcome optimizer_step(int64_t timeout_ms, Metrics* metrics) override;
  Outcome evaluate(const Batch* batch, int64_t timeout_ms, Metrics* metrics) override;
  Outcome score(const Batch& batch, int64_t timeout_ms, float* losses, int64_t bytes) override;
  Outcome generate(const int32_t* prompt, int64_t prompt_count, int64_t max_tokens,
                   int64_t timeout_ms, std::vector<int32_t>* tokens) override;
  void attach_dataset(std::string_view role, std::shared_ptr<const Dataset> dataset,
                      int64_t timeout_ms) override;
  void set(std::string_view key, const char* value) override;
  void set_property(Property property) override;
  double counter(std::string_view name) const override;
  std::string report(std::string_view kind) const override;
  const std::vector<TensorEntry>& tensors() const override { return entries_; }
  void read_tensor(std::string_view name, TensorKind kind, DType dtype, int64_t timeout_ms,
                   void* data, int64_t bytes) override;
  void write_tensor(std::string_view name, TensorKind kind, DType dtype, const void* data,
                    int64_t bytes, int64_t timeout_ms) override;
  std::shared_ptr<AsyncOperation> save(const std::string& root, int64_t timeout_ms) override;
  Outcome load(const std::string& path, int64_t timeout_ms, std::string* report = nullptr) override;
  void request_stop() override { ranks_.request_stop(); }
  void abort() override;
  void close(int64_t timeout_ms) override;

  /// For tests, between calls: what lies in the memory of ranks.
  RankSet& ranks() { return ranks_; }

 private:
  /// Totals of the run. Guarded by mutex_.
  struct Totals {
    int64_t step = 0, samples = 0, tokens = 0, skipped = 0;
    int64_t overflows = 0;  ///< of skipped steps: those that the loss scale was too large for
    double lr = 0;          ///< of the last update
    double step_seconds = 0, forward_seconds = 0, backward_seconds = 0;
    double communication_seconds = 0, bubble_seconds = 0, optimizer_seconds = 0;
    int64_t replica_checks = 0, divergences = 0;
  };
  /// Gradients of calls since the last update.
  struct Pending {
    bool has_gradients = false;
    GlobalSums sums;
    int64_t samples = 0, tokens = 0, micro_batches = 0;
    int64_t data_ns = 0, begin_ns = 0;
  };
  /// Time of one local rank in the calls of a step.
  struct RankTime {
    int64_t forward_ns = 0, backward_ns = 0, bubble_ns = 0, step_ns = 0, communication_ns = 0;
  };
  /// What the parts of one call share; each writes only what is its own.
  struct Request {
    Batch batch;                            ///< lies in rows_
    std::string digest;                     ///< of a host's rows, where processes compare them
    int64_t rows = 0;                       ///< of the whole world
    std::vector<float> losses;              ///< [rows, s], or empty
    std::vector<std::vector<int32_t>> ids;  ///< generated ones, by local rank
    int64_t count = 0;
    std::vector<LossSum> sums;  ///< by local rank
    GlobalSums total;           ///< of local rank 0
    bool is_stopped = false;    ///< likewise
    bool is_nonfinite = false;  ///< likewise
  };

  void check_dataset(std::string_view role, const Dataset* dataset) const;
  void check_no_pending(const char* call_name) const;
  int64_t rows_of_step() const;
  int64_t micro_batches(int64_t rows) const;
  int64_t local_index(int64_t data) const;
  int64_t check_host_batch(const Batch& batch, int64_t global_rows) const;
  std::string digest(const Batch& batch, int64_t rows) const;
  RunArguments run_arguments(const Rank& rank, const MicroSource& source) const;
  HostRows rows_for(const Rank& rank) const;
  Batch read_rows(const Dataset& dataset, int64_t first, int64_t count);

  void run_gradients(Rank& rank, int64_t local, ListPart part);
  void run_evaluation(Rank& rank, int64_t local);
  void call_evaluation(const char* name, FunctionRef<void()> prepare, int64_t timeout_ms);
  void run_generation(Rank& rank, int64_t local);
  Outcome finish_update(Metrics* metrics);
  Outcome end_update(const Update& update, Metrics* metrics);
  [[noreturn]] void throw_nonfinite(const Update& update);
  void fill_step_metrics(const Update& update, Metrics* metrics) const;
  void fill_time_metrics(Metrics* metrics) const;
  double mean_seconds(int64_t RankTime::*field) const;
  int64_t largest(int64_t (MemoryLedger::*value)() const) const;
  double model_flops(int64_t samples) const;
  int64_t compared_step() const;
  void note_replicas(const Update& update);
  void note_paces(const Update& update);
  bool take_stop(bool is_agreed);

  RunPosition position() const;
  Manifest describe() const;
  void give_up_load(const Loader& loader, int64_t limit_ms);
  void take_loaded(const Loader& loader);
  std::string load_report(const Loader& loader, const std::string& path) const;
  void warn_of_load(const std::string& text) const;
  void compare_resumed(const Dataset& dataset) const;

  void check_tensor(std::string_view name, DType dtype, const void* data, int64_t bytes,
                    int64_t* tensor) const;
  std::vector<float> collect(const TensorTerm& part, int64_t elements);
  std::vector<float> collect_gradient(int64_t tensor, int64_t elements);

  void make_reports();
  std::vector<std::pair<std::string, double>> counters() const;
  std::string ranks_report() const;
  std::string stragglers_report() const;
  std::string operations_report() const;
  std::string properties_report() const;

  Config config_;
  Settings settings_;
  EngineOptions options_;
  // Guards totals_, watch_, compute_seconds_, properties_ and config_ against any-thread readers.
  mutable std::mutex mutex_;
  Totals totals_;
  StragglerWatch watch_;
  std::vector<double> compute_seconds_;  // by local rank: in which it waited for no peer
  std::map<std::string, Property> properties_;
  Pending pending_;
  Request request_;
  std::vector<RankTime> times_;                      // by local rank
  std::vector<int64_t> local_data_;                  // data coordinates of local ranks, ascending
  std::shared_ptr<const Dataset> train_, evaluate_;  // null: rows are the host's
  RowMemory rows_;                                   // of the call that runs, or ran last
  /// Of a loaded run whose data is still to be compared with the dataset that is attached next.
  struct ResumedData {
    SavedData data;
    int64_t samples = 0;
  };
  std::optional<ResumedData> resumed_data_;
  bool is_fresh_ = true;         // the state is what the configuration draws
  bool is_last_applied_ = true;  // else the last update was skipped or not finite
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::string, std::less<>> fixed_reports_;
  std::vector<Generator> generators_;  // by local rank
  StepTrace trace_;
  RankSet ranks_;
  Saver saver_;  // ends before the ranks go
};

}  // namespace plait

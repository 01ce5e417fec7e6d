// The Engine of a process that drives every rank of its world: one rank.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/trainer/engine.h"
#include "engine/trainer/generator.h"
#include "engine/trainer/rank.h"
#include "engine/trainer/rank_thread.h"

namespace plait {

class LocalEngine final : public Engine {
 public:
  LocalEngine(const Config& config, const EngineOptions& options);
  ~LocalEngine() override;
  /// Builds the rank on its thread.
  void start(int64_t timeout_ms);

  EngineState state() const override { return state_.load(); }
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
  std::string load_weights(const std::string& directory, int64_t timeout_ms) override;
  void request_stop() override { is_stop_requested_.store(true); }
  void abort() override;
  void close(int64_t timeout_ms) override;

 private:
  /// Totals of the run. Guarded by mutex_.
  struct Totals {
    int64_t step = 0, samples = 0, tokens = 0, skipped = 0, overflows = 0;
    double step_seconds = 0, forward_seconds = 0, backward_seconds = 0, optimizer_seconds = 0;
  };
  /// Gradients of calls since the last update.
  struct Pending {
    bool has_gradients = false;
    LossSum sum;
    int64_t samples = 0, tokens = 0;
    int64_t forward_ns = 0, backward_ns = 0, optimizer_ns = 0, data_ns = 0, begin_ns = 0;
  };
  /// What the task on the rank thread reads and writes; one call at a time.
  struct Request {
    const Batch* batch = nullptr;
    int64_t rows = 0;
    LossSum sum;
    RunResult run;
    Update update;
    float* losses = nullptr;
    std::vector<int32_t>* generated = nullptr;
    int64_t count = 0;
    bool is_stopped = false;
  };
  /// Rows of a dataset, read before a step computes.
  struct Rows {
    std::shared_ptr<const Dataset> dataset;
    std::vector<int32_t> tokens, documents;
  };

  void call(std::function<void()> task, int64_t timeout_ms);
  void check_usable() const;
  void lose();
  int64_t stall_limit_ms() const;
  bool take_stop() { return is_stop_requested_.exchange(false); }

  RunArguments run_arguments(const MicroSource& source) const;
  int64_t rows_of_step() const;
  void check_rows(int64_t rows) const;
  Batch read_rows(Rows* rows, int64_t first, int64_t count);
  void run_gradients(const Batch& batch, int64_t rows);
  void run_update();
  void run_evaluation();
  void run_generation();
  Outcome finish_update(Metrics* metrics);
  void fill_step_metrics(Metrics* metrics) const;
  void fill_time_metrics(Metrics* metrics) const;
  void remember_step(double seconds);
  void check_no_pending(const char* call_name) const;
  double model_flops(int64_t samples) const;
  void make_reports();
  std::string counters_report() const;
  std::string operations_report() const;
  std::string properties_report() const;
  void check_tensor(std::string_view name, DType dtype, const void* data, int64_t bytes,
                    int64_t* tensor) const;

  Config config_;
  Settings settings_;
  EngineOptions options_;
  std::atomic<EngineState> state_{EngineState::kReady};
  std::atomic<bool> is_aborted_{false};
  std::atomic<bool> is_stop_requested_{false};
  std::atomic<uint64_t> progress_{0};
  mutable std::mutex mutex_;  // guards totals_, properties_ and config_ against any-thread readers
  Totals totals_;
  std::map<std::string, Property> properties_;
  Pending pending_;
  Request request_;
  Update last_update_;
  double last_loss_scale_ = 1;
  Rows train_, evaluate_;
  std::vector<TensorEntry> entries_;
  std::map<std::string, std::string, std::less<>> fixed_reports_;
  std::array<double, 9> recent_seconds_{};
  int64_t timed_steps_ = 0;
  std::unique_ptr<Generator> generator_;
  std::unique_ptr<Rank> rank_;
  std::unique_ptr<RankThread> thread_;
};

}  // namespace plait

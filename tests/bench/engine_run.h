// One engine of the public interface that drives every rank of its layout, on one batch of random
// tokens.
#pragma once

#include <plait/plait.h>

#include <string>

namespace plait::bench {

/// Keeps `*err` of a call; throws std::runtime_error with what a failed call reports.
class Caller {
 public:
  operator plait_error**() { return &error_; }
  void check(int32_t code);

 private:
  plait_error* error_ = nullptr;
};

class EngineRun {
 public:
  /// `json`: a whole configuration. Throws what a failed call reports.
  explicit EngineRun(const std::string& json);
  ~EngineRun();
  EngineRun(const EngineRun&) = delete;
  EngineRun& operator=(const EngineRun&) = delete;

  /// Trains one step; its seconds.
  double step();
  /// Of the last step.
  const plait_metrics& metrics() const { return metrics_; }
  double creation_seconds() const { return creation_seconds_; }
  double counter(const char* name) const;
  std::string report(const char* kind) const;
  void set(const char* key, const char* value);
  /// Still owned by this object.
  plait_engine* engine() { return engine_; }
  plait_context* context() { return context_; }

 private:
  void create(const std::string& json);
  int64_t ranks() const;
  void fill_batch();
  void free();

  plait_context* context_ = nullptr;
  plait_config* config_ = nullptr;
  plait_group* group_ = nullptr;
  plait_engine* engine_ = nullptr;
  plait_batch* batch_ = nullptr;
  plait_metrics metrics_{};
  double creation_seconds_ = 0;
};

/// A whole file. Throws std::runtime_error when it cannot be read.
std::string read_text(const std::string& path);

}  // namespace plait::bench

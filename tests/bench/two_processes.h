// This process and a copy of it, as the two processes of a world.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace plait::bench {

/// Forks: afterwards one process is rank 0 and its child rank 1. Make it before any thread.
class TwoProcesses {
 public:
  TwoProcesses();
  ~TwoProcesses();
  TwoProcesses(const TwoProcesses&) = delete;
  TwoProcesses& operator=(const TwoProcesses&) = delete;

  int64_t rank() const { return rank_; }
  /// Each gives a text and gets the other's. Throws std::runtime_error when the other is gone.
  std::string exchange(const std::string& text);
  /// In rank 0: waits for the child to end; throws unless it ended well.
  void wait();

 private:
  void put(const void* data, size_t bytes);
  void get(void* data, size_t bytes);

  int64_t rank_ = 0;
  int pipe_ = -1;
  pid_t child_ = -1;
};

}  // namespace plait::bench

// One rank's share of what bench_collectives measures, whatever joins the ranks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "kernels/device/memory.h"

namespace plait::bench {

/// float32 memory of a rank, in large pages where the system has them.
class ExchangeBuffer {
 public:
  explicit ExchangeBuffer(int64_t bytes)
      : buffer_(bytes, MemoryCategory::kWorkspace, nullptr), count_(bytes / 4) {}
  float* data() { return reinterpret_cast<float*>(buffer_.data()); }
  int64_t count() const { return count_; }
  TensorView view() { return buffer_.view(DType::kFloat32, {count_}); }

 private:
  Buffer buffer_;
  int64_t count_;
};

/// All-reduces a known buffer and throws std::runtime_error when a sum is wrong.
void check_all_reduce(Communicator& group, ExchangeBuffer& buffer, const char* when);

/// Seconds of each of `timed` all-reduces, as this rank sees them. Zeros travel: sums of them stay
/// as they are.
std::vector<double> time_all_reduces(Communicator& group, ExchangeBuffer& buffer, int timed);

/// Seconds of each round trip between members 0 and 1; empty on other members.
std::vector<double> time_round_trips(Communicator& group);

/// One JSON line: what was timed, over which way.
void print_exchange(const std::string& kind, const std::string& way, int64_t ranks, int64_t bytes,
                    const std::vector<double>& seconds);

}  // namespace plait::bench

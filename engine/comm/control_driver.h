// Runs a Control over the connections of a world, on a thread of its own, and gives blocking calls.
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "engine/comm/control.h"
#include "engine/comm/frame_channel.h"
#include "kernels/base/env.h"
#include "kernels/base/net.h"
#include "kernels/device/thread_pool.h"

namespace plait {

class ControlDriver {
 public:
  /// `channels` by process, null for the own one. `on_verdict` is called once, by the thread of
  /// this driver, outside locks.
  ControlDriver(const ControlOptions& options, uint64_t epoch,
                std::vector<std::unique_ptr<FrameChannel>> channels, Net& net, Clock& clock,
                std::function<void(const Error&)> on_verdict);
  ~ControlDriver() { stop(); }
  ControlDriver(const ControlDriver&) = delete;
  ControlDriver& operator=(const ControlDriver&) = delete;

  /// `early`: frames that came before, by process.
  void start(const std::vector<std::pair<size_t, Frame>>& early, ThreadHooks hooks);

  /// Ends the thread within a tick, whatever the others do. No other call comes then but `abort`.
  void stop();

  std::vector<std::string> exchange(const std::string& name, const std::string& value,
                                    int64_t timeout_ms, ExchangeStream stream);
  void end_exchange(ExchangeStream stream);
  void abort(const Error& error);
  void leave(int64_t timeout_ms);
  /// Null: nothing was aborted, or there is no agreement yet.
  std::optional<Error> verdict(int64_t timeout_ms);
  /// Frames of another epoch, which were dropped.
  int64_t stale_frames() const { return stale_.load(std::memory_order_relaxed); }

 private:
  void run(const ThreadHooks& hooks);
  void turn();
  void wait();
  void read(size_t peer);
  void deliver(std::vector<Letter> letters);
  void end(const Error& error);
  void close_all();

  const ControlOptions options_;
  const uint64_t epoch_;
  const int64_t tick_ms_;
  Net& net_;
  Clock& clock_;
  std::function<void(const Error&)> on_verdict_;
  std::unique_ptr<Waker> waker_;
  std::atomic<bool> is_stopping_{false};
  std::atomic<int64_t> stale_{0};
  // Of the driver's thread.
  std::vector<std::unique_ptr<FrameChannel>> channels_;
  std::vector<Net::Interest> interests_;
  bool has_told_verdict_ = false;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  Control control_;
  std::array<std::optional<ExchangeResult>, kExchangeStreams> results_;  // by stream
  std::optional<Error> broken_;  // the thread has ended by this

  std::thread thread_;
};

}  // namespace plait

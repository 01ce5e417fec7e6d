#include "engine/comm/mpi_streams.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/device/plugin.h"

namespace plait {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

/// Looks without sleeping in between, then short rests, then long ones.
constexpr int64_t kBusyTurns = 100, kShortRests = 1000;
constexpr microseconds kShortRest{20}, kLongRest{500};

Error failure_of(const PlaitMpiFailure& failure) {
  return Error(failure.word, failure.text).subsystem("comm");
}

}  // namespace

MpiProcess start_mpi(const std::string& directory) {
  const auto entry =
      reinterpret_cast<PlaitMpiEntry>(open_plugin(directory, kPlaitMpiFile, kPlaitMpiSymbol));
  MpiProcess process;
  process.plugin = entry();
  if (std::strcmp(process.plugin->build, PLAIT_BUILD_ID) != 0) {
    throw Error("version_mismatch", "the MPI plug-in belongs to another build of the library")
        .with("plugin", process.plugin->build)
        .with("library", PLAIT_BUILD_ID)
        .subsystem("comm");
  }
  PlaitMpiFailure failure{};
  if (process.plugin->start(&process.place, &failure) != 0) throw failure_of(failure);
  return process;
}

MpiStreams::MpiStreams(const PlaitMpiPlugin& plugin, const std::vector<int32_t>& ranks, int64_t own)
    : plugin_(plugin), ready_(ranks.size()) {
  PlaitMpiFailure failure{};
  streams_ = plugin_.open(ranks.data(), static_cast<int32_t>(ranks.size()),
                          static_cast<int32_t>(own), &failure);
  if (streams_ == nullptr) throw failure_of(failure);
}

MpiStreams::~MpiStreams() { plugin_.close(streams_, is_clean_ ? 1 : 0); }

int64_t MpiStreams::write(int64_t peer, const void* data, int64_t bytes) {
  const int64_t taken = plugin_.write(streams_, static_cast<int32_t>(peer), data, bytes);
  return taken < 0 ? kClosed : taken;
}

int64_t MpiStreams::read(int64_t peer, void* data, int64_t bytes) {
  const int64_t got = plugin_.read(streams_, static_cast<int32_t>(peer), data, bytes);
  return got < 0 ? kClosed : got;
}

bool MpiStreams::look(std::vector<StreamState>* states) {
  plugin_.poll(streams_, ready_.data());
  bool is_ready = false;
  for (size_t i = 0; i < states->size(); ++i) {
    StreamState& state = (*states)[i];
    state.is_readable = !state.is_ignored && (ready_[i] & 1) != 0;
    const bool is_writable = state.wants_write && (ready_[i] & 2) != 0;
    is_ready = is_ready || state.is_readable || (is_writable && !state.is_ignored);
  }
  return is_ready;
}

/// Lets others run; true when somebody called wake.
bool MpiStreams::rest(int64_t turn) {
  if (turn < kBusyTurns) std::this_thread::yield();
  std::unique_lock lock(mutex_);
  if (!is_woken_ && turn >= kBusyTurns) {
    woken_.wait_for(lock, turn < kBusyTurns + kShortRests ? kShortRest : kLongRest);
  }
  const bool is_woken = is_woken_;
  is_woken_ = false;
  return is_woken;
}

void MpiStreams::wait(std::vector<StreamState>* states, int64_t timeout_ms) {
  const auto limit = std::chrono::steady_clock::now() + milliseconds(timeout_ms);
  for (;;) {
    if (look(states)) {
      quiet_turns_ = 0;
      return;
    }
    if (rest(quiet_turns_++) || std::chrono::steady_clock::now() >= limit) return;
  }
}

void MpiStreams::wake() {
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = true;
  }
  woken_.notify_one();
}

}  // namespace plait

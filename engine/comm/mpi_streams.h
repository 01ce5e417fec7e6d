// Byte streams over MPI messages, by the plug-in libplait_mpi.so. MPI cannot be slept on together
// with anything else, so the waiting thread asks it again and again: often while messages come,
// rarely when none has come for a while.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/comm/mpi/mpi_plugin.h"
#include "engine/comm/streams.h"

namespace plait {

/// Opens the plug-in and starts MPI. Throws `not_built`, `version_mismatch`, `mismatch` (MPI was
/// initialised without threads).
struct MpiProcess {
  const PlaitMpiPlugin* plugin = nullptr;
  PlaitMpiPlace place{};
};
MpiProcess start_mpi(const std::string& directory);

class MpiStreams final : public Streams {
 public:
  /// `ranks` of MPI, of all processes in the same order everywhere, the own one at `own`.
  /// Collective among them: all have started MPI.
  MpiStreams(const PlaitMpiPlugin& plugin, const std::vector<int32_t>& ranks, int64_t own);
  ~MpiStreams() override;
  MpiStreams(const MpiStreams&) = delete;
  MpiStreams& operator=(const MpiStreams&) = delete;

  int64_t write(int64_t peer, const void* data, int64_t bytes) override;
  int64_t read(int64_t peer, void* data, int64_t bytes) override;
  void wait(std::vector<StreamState>* states, int64_t timeout_ms) override;
  void wake() override;
  void abandon() override { is_clean_ = false; }
  bool may_poll() const override { return false; }  // who waits polls already
  const char* name() const override { return "mpi"; }

 private:
  bool look(std::vector<StreamState>* states);
  bool rest(int64_t turn);

  const PlaitMpiPlugin& plugin_;
  void* streams_ = nullptr;
  bool is_clean_ = true;
  std::vector<uint8_t> ready_;
  int64_t quiet_turns_ = 0;  // since something was there
  std::mutex mutex_;         // guards is_woken_
  std::condition_variable woken_;
  bool is_woken_ = false;
};

}  // namespace plait

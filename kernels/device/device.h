// What a rank computes on: its kind, instruction-set level, threads and memory account.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "kernels/device/isa.h"
#include "kernels/device/memory.h"
#include "kernels/device/thread_pool.h"

namespace plait {

struct DeviceOptions {
  std::string kind = "cpu";  ///< key `device`
  std::string isa = "auto";  ///< key `isa`
  int threads = 0;           ///< 0: one for each core that this process may use
  bool is_flushing = false;  ///< denormals become zero
  ThreadHooks hooks;
};

/// One per local rank. Used by that rank's thread alone.
class Device {
 public:
  Device(const DeviceOptions& options, IsaLevel isa);

  IsaLevel isa() const { return isa_; }
  ThreadPool& pool() { return pool_; }
  MemoryLedger& ledger() { return ledger_; }
  Buffer allocate(int64_t bytes, MemoryCategory category) {
    return Buffer(bytes, category, &ledger_);
  }

 private:
  IsaLevel isa_;
  MemoryLedger ledger_;
  ThreadPool pool_;
};

/// Makes the device or throws: `not_built` for a kind whose plug-in is not there, `argument` else.
std::unique_ptr<Device> make_device(const DeviceOptions& options);

/// Cores that this process may use.
int usable_cores();

/// Makes a CUDA device, or throws `not_built` with the reason: no_cuda.cc, where the build has
/// none.
std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options);

}  // namespace plait

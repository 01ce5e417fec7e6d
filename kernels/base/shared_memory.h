// The shared-memory half of the Env seam: memory that processes of one machine map together, and
// words in it to sleep on.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

namespace plait {

/// A mapped segment, all of its pages there already. Unmapped by the destructor.
class SharedSegment {
 public:
  virtual ~SharedSegment() = default;
  virtual void* data() = 0;  ///< page-aligned, zero when created
  virtual int64_t bytes() const = 0;
  virtual const std::string& name() const = 0;
  /// Nobody can open it any more; who has it keeps it. A segment that was created is unlinked by
  /// its destructor at the latest.
  virtual void unlink() = 0;
};

class SharedMemory {
 public:
  virtual ~SharedMemory() = default;
  /// A new segment under a name that nobody else has; only this user may open it. `no_space` with
  /// need and have when there is no room for all of its pages: touching it never faults.
  virtual std::unique_ptr<SharedSegment> create(int64_t bytes) = 0;
  /// Throws `no_file`, or `invalid_file` when its size is another.
  virtual std::unique_ptr<SharedSegment> open(const std::string& name, int64_t bytes) = 0;
  /// Sleeps while `word` holds `value`, at most `timeout_ms`; may return early.
  virtual void wait(std::atomic<uint32_t>* word, uint32_t value, int64_t timeout_ms) = 0;
  /// Ends the sleeps of all processes on `word`.
  virtual void wake(std::atomic<uint32_t>* word) = 0;
};

/// Segments in /dev/shm. Lives as long as the process.
SharedMemory& posix_shared_memory();

/// The same in another directory, which is on a tmpfs.
std::unique_ptr<SharedMemory> posix_shared_memory_at(const std::string& directory);

}  // namespace plait

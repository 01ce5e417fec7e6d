// What bounds saves and loads: copies, plain writes and reads, hashes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "kernels/device/memory.h"
#include "kernels/device/thread_pool.h"
#include "tests/bench/ceilings.h"

namespace plait::bench {

using FileSizes = std::vector<std::pair<std::string, int64_t>>;  // path, bytes

/// The bytes of all files, one after the other. Throws std::runtime_error when one cannot be read.
void read_files(const FileSizes& files, char* to);

/// Seconds of one copy by all threads of the pool; the result is checked.
double copy_seconds(ThreadPool& pool, const char* from, char* to, int64_t bytes);

/// Seconds of writing `from` into new files of the same sizes in `directory`, one after the other,
/// each followed by fdatasync. Removes them.
double plain_write_seconds(const std::string& directory, const FileSizes& files, const char* from);

/// What was written so far reaches the disk, and what was removed is given back.
void settle_disk(const std::string& directory);

/// Bytes per second of one thread.
struct ReadCeilings {
  Ceiling read;          ///< of the files, through one buffer
  Ceiling hash, digest;  ///< of what a read has just left in the caches
  Ceiling copy;          ///< out of such a buffer into memory beyond the caches
  Ceiling first_use;     ///< of memory that the system has promised and not given yet
  /// Of read, hash, digest and copy, one after the other.
  double together() const;
};
ReadCeilings read_ceilings(const FileSizes& files);

}  // namespace plait::bench

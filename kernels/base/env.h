// The seam to the operating system: files, clock and entropy. Nothing above it includes a system
// header for them. An Env is passed in by constructor; the library ships PosixEnv alone, tests give
// others that inject faults.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace plait {

/// Memory that shows bytes of a file, to be read alone. It stays when the file is closed or
/// unlinked. A file that is cut short, or a disk that fails, ends the process at the next look:
/// only for storage that the host trusts.
class FileMapping {
 public:
  virtual ~FileMapping() = default;
  virtual const char* data() const = 0;
};

/// An open file. Closed by the destructor. Any thread may pread; writers are one at a time. No
/// signal that the process handles has a visible effect. A file whose write, sync or close failed
/// is dead: what it holds is unknown, and a later sync of it may claim too much.
class File {
 public:
  virtual ~File() = default;
  /// Reads up to `bytes` at `offset`; returns the count, less only at the end of the file.
  virtual int64_t pread(void* data, int64_t bytes, int64_t offset) = 0;
  /// Bytes [offset, offset + bytes) as memory; null where that cannot be, or the file ends earlier:
  /// then they are to be read.
  virtual std::unique_ptr<FileMapping> map(int64_t bytes, int64_t offset);
  /// Writes all of it or throws. Past the process's limit for files it is `file_too_large` before
  /// anything is written, so that the system sends no signal.
  virtual void pwrite(const void* data, int64_t bytes, int64_t offset) = 0;
  virtual void sync() = 0;       ///< contents and size are durable after it
  virtual void sync_data() = 0;  ///< likewise, times and the like left out (fdatasync)
  /// Asks for space for the first `bytes` bytes, which the size becomes; `no_space` comes here and
  /// not from a later write. A file system that cannot do it is no error. Limits as for pwrite.
  virtual void allocate(int64_t bytes) = 0;
  /// Closes and throws what the system says to it; the destructor closes too, and says nothing.
  virtual void close() = 0;
  /// Locks of the open file, which end with it, held by any process. False at once when another
  /// open file holds one that excludes this (a lock held before is then lost); true where the file
  /// system has no locks. Some network file systems give an exclusive one only to files opened to
  /// write, else `io_error`.
  virtual bool try_lock_shared() = 0;
  virtual bool try_lock_exclusive() = 0;
  virtual int64_t size() const = 0;
  virtual const std::string& path() const = 0;

  /// Reads exactly `bytes` or throws `word` with path, offset, want and got.
  void read_exactly(void* data, int64_t bytes, int64_t offset, const char* word);
};

struct FileInfo {
  enum class Kind { kRegular, kDirectory, kOther };
  Kind kind = Kind::kOther;  ///< links are followed
  int64_t bytes = 0;
};

/// What opening does with a symbolic link as the last part of a path.
enum class Links { kFollow, kRefuse };

class Files {
 public:
  virtual ~Files() = default;
  /// Opens a regular file to read; never blocks on a FIFO; anything else is `invalid_file`, as is a
  /// link that is refused.
  virtual std::unique_ptr<File> open_read(const std::string& path,
                                          Links links = Links::kFollow) = 0;
  /// Creates a new file to read and write; `must_be_new` refuses an existing one (target_exists),
  /// else it is truncated.
  virtual std::unique_ptr<File> create(const std::string& path, bool must_be_new) = 0;
  /// Creates a new file to read and write that its owner alone may use (0600); an existing one is
  /// `target_exists`.
  virtual std::unique_ptr<File> create_private(const std::string& path) = 0;
  /// Opens a regular file to read and write as it is, or creates it as create_private does;
  /// anything else, a link included, is `invalid_file`. For locks.
  virtual std::unique_ptr<File> open_or_create(const std::string& path) = 0;
  virtual bool exists(const std::string& path) = 0;
  virtual FileInfo stat(const std::string& path) = 0;  ///< no_file when it is not there
  virtual std::vector<std::string> list(const std::string& directory) = 0;  ///< names, sorted
  virtual void make_directory(const std::string& path) = 0;                 ///< parents must exist
  virtual void make_private_directory(const std::string& path) = 0;         ///< 0700
  virtual void sync_directory(const std::string& path) = 0;
  virtual void rename(const std::string& from, const std::string& to) = 0;  ///< replaces
  /// An existing target, a link to nothing included, is `target_exists`. Where the file system
  /// knows no such renaming this is a look and a plain rename: callers hold a lock of their own.
  virtual void rename_noreplace(const std::string& from, const std::string& to) = 0;
  /// Swaps two paths in one step; `no_exchange` where the file system cannot.
  virtual void exchange(const std::string& a, const std::string& b) = 0;
  virtual void unlink(const std::string& path) = 0;
  virtual void remove_directory(const std::string& path) = 0;  ///< an empty one
  /// For this user; the largest number where the file system has or tells no bound.
  virtual int64_t free_bytes(const std::string& directory) = 0;
};

class Clock {
 public:
  virtual ~Clock() = default;
  virtual int64_t now_ns() = 0;   ///< monotonic
  virtual int64_t wall_ns() = 0;  ///< since 1970, for logs and file names only
};

class Entropy {
 public:
  virtual ~Entropy() = default;
  virtual uint64_t next() = 0;
};

struct Env {
  Files& files;
  Clock& clock;
  Entropy& entropy;
};

/// The Env of the running system. Lives as long as the process.
Env& posix_env();

/// Reads a whole regular file of at most `limit` bytes (else `too_large` with both numbers).
std::string read_file(Files& files, const std::string& path, int64_t limit);

/// `directory` + "/" + `name`.
std::string join_path(const std::string& directory, const std::string& name);

}  // namespace plait

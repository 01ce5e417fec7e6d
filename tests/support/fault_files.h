// Files that fail on command. An operation throws an errno, once or for ever; or the process is
// killed before or after an operation: everything from there on throws Killed and does nothing, so
// that what unwinds cleans up nothing, but for descriptors and locks, which a dead process loses
// too.
//
// A first run without a fault counts the operations; a loop then visits each. Any thread may use
// the files; faults are set while none does.
#pragma once

#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {

enum class FileOperation {
  kOpen,
  kCreate,  ///< create, create_private, open_or_create
  kRead,
  kMap,
  kWrite,
  kAllocate,
  kSync,
  kSyncData,
  kClose,
  kLock,
  kStat,  ///< exists, stat, size
  kList,
  kMakeDirectory,
  kSyncDirectory,
  kRename,  ///< both kinds
  kExchange,
  kUnlink,
  kRemoveDirectory,
  kFreeBytes,
  kCount,
};

/// Thrown in place of a kill -9. No Error, so that nothing takes it for a failure of the system.
class Killed final : public std::exception {
 public:
  const char* what() const noexcept override { return "killed by the test"; }
};

enum class KillPoint { kBefore, kAfter };
/// As Killed says; or by SIGKILL, which ends a process that the test has forked.
enum class KillMeans { kException, kSignal };

/// Counts every operation before passing it on. Must outlive the files it has opened.
class FaultFiles final : public Files {
 public:
  using Hook = std::function<void(FileOperation, const std::string& path)>;

  explicit FaultFiles(Files& inner) : inner_(inner) {}

  /// The `nth` (from 0) operation of `kind` throws `error_number`; once. With `part`, the `nth` of
  /// those from now on whose path contains it.
  void fail(FileOperation kind, int64_t nth, int error_number, std::string part = "") {
    kind_ = kind;
    left_ = nth - (part.empty() ? count(kind) : 0);
    part_ = std::move(part);
    error_number_ = error_number;
  }
  /// The `nth` operation of all kinds together, and all later ones, throw `error_number`.
  void kill_at(int64_t nth, int error_number) {
    break_at_ = nth;
    error_number_ = error_number;
  }
  /// The process dies at the `nth` operation of all kinds together, which is done or not.
  void kill(int64_t nth, KillPoint point, KillMeans means = KillMeans::kException) {
    kill_at_ = nth;
    kill_point_ = point;
    kill_means_ = means;
  }
  /// Called before every operation, with no lock held: to wait, to cancel, to look.
  void before_each(Hook hook) { hook_ = std::move(hook); }

  int64_t count(FileOperation kind) const { return counts_[static_cast<size_t>(kind)]; }
  int64_t total() const { return total_; }
  bool is_killed() const { return is_killed_; }
  /// Syncs of an open file after a write, allocation, sync or close of it that failed: must be 0.
  int64_t syncs_of_dead_files() const { return syncs_of_dead_files_; }

  std::unique_ptr<File> open_read(const std::string& path, Links links = Links::kFollow) override {
    return open(FileOperation::kOpen, path, [&] { return inner_.open_read(path, links); });
  }
  std::unique_ptr<File> create(const std::string& path, bool must_be_new) override {
    return open(FileOperation::kCreate, path, [&] { return inner_.create(path, must_be_new); });
  }
  std::unique_ptr<File> create_private(const std::string& path) override {
    return open(FileOperation::kCreate, path, [&] { return inner_.create_private(path); });
  }
  std::unique_ptr<File> open_or_create(const std::string& path) override {
    return open(FileOperation::kCreate, path, [&] { return inner_.open_or_create(path); });
  }
  bool exists(const std::string& path) override {
    return perform(FileOperation::kStat, path, [&] { return inner_.exists(path); });
  }
  FileInfo stat(const std::string& path) override {
    return perform(FileOperation::kStat, path, [&] { return inner_.stat(path); });
  }
  std::vector<std::string> list(const std::string& directory) override {
    return perform(FileOperation::kList, directory, [&] { return inner_.list(directory); });
  }
  void make_directory(const std::string& path) override {
    perform(FileOperation::kMakeDirectory, path, [&] { inner_.make_directory(path); });
  }
  void make_private_directory(const std::string& path) override {
    perform(FileOperation::kMakeDirectory, path, [&] { inner_.make_private_directory(path); });
  }
  void sync_directory(const std::string& path) override {
    perform(FileOperation::kSyncDirectory, path, [&] { inner_.sync_directory(path); });
  }
  void rename(const std::string& from, const std::string& to) override {
    perform(FileOperation::kRename, to, [&] { inner_.rename(from, to); });
  }
  void rename_noreplace(const std::string& from, const std::string& to) override {
    perform(FileOperation::kRename, to, [&] { inner_.rename_noreplace(from, to); });
  }
  void exchange(const std::string& a, const std::string& b) override {
    perform(FileOperation::kExchange, b, [&] { inner_.exchange(a, b); });
  }
  void unlink(const std::string& path) override {
    perform(FileOperation::kUnlink, path, [&] { inner_.unlink(path); });
  }
  void remove_directory(const std::string& path) override {
    perform(FileOperation::kRemoveDirectory, path, [&] { inner_.remove_directory(path); });
  }
  int64_t free_bytes(const std::string& directory) override {
    return perform(FileOperation::kFreeBytes, directory,
                   [&] { return inner_.free_bytes(directory); });
  }

 private:
  class FaultFile final : public File {
   public:
    FaultFile(FaultFiles& owner, std::unique_ptr<File> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    int64_t pread(void* data, int64_t bytes, int64_t offset) override {
      return owner_.perform(FileOperation::kRead, path(),
                            [&] { return inner_->pread(data, bytes, offset); });
    }
    std::unique_ptr<FileMapping> map(int64_t bytes, int64_t offset) override {
      return owner_.perform(FileOperation::kMap, path(),
                            [&] { return inner_->map(bytes, offset); });
    }
    void pwrite(const void* data, int64_t bytes, int64_t offset) override {
      change(FileOperation::kWrite, [&] { inner_->pwrite(data, bytes, offset); });
    }
    void sync() override {
      change(FileOperation::kSync, [&] { inner_->sync(); });
    }
    void sync_data() override {
      change(FileOperation::kSyncData, [&] { inner_->sync_data(); });
    }
    void allocate(int64_t bytes) override {
      change(FileOperation::kAllocate, [&] { inner_->allocate(bytes); });
    }
    void close() override {
      change(FileOperation::kClose, [&] { inner_->close(); });
    }
    bool try_lock_shared() override {
      return owner_.perform(FileOperation::kLock, path(),
                            [&] { return inner_->try_lock_shared(); });
    }
    bool try_lock_exclusive() override {
      return owner_.perform(FileOperation::kLock, path(),
                            [&] { return inner_->try_lock_exclusive(); });
    }
    int64_t size() const override {
      return owner_.perform(FileOperation::kStat, path(), [&] { return inner_->size(); });
    }
    const std::string& path() const override { return inner_->path(); }

   private:
    template <class Body>
    void change(FileOperation kind, Body body) {
      const bool is_sync = kind == FileOperation::kSync || kind == FileOperation::kSyncData;
      if (is_sync && is_dead_) ++owner_.syncs_of_dead_files_;
      const bool was_dead = std::exchange(is_dead_, true);  // unless it comes back
      owner_.perform(kind, path(), body);
      is_dead_ = was_dead;
    }

    FaultFiles& owner_;
    std::unique_ptr<File> inner_;
    bool is_dead_ = false;
  };

  template <class Body>
  std::unique_ptr<File> open(FileOperation kind, const std::string& path, Body body) {
    return std::make_unique<FaultFile>(*this, perform(kind, path, body));
  }

  /// Does `body`, unless a fault comes instead; a kill may come after it.
  template <class Body>
  std::invoke_result_t<Body&> perform(FileOperation kind, const std::string& path, Body body) {
    if (hook_) hook_(kind, path);
    const bool dies = begin(kind, path);
    if constexpr (std::is_void_v<std::invoke_result_t<Body&>>) {
      body();
      if (dies) die();
    } else {
      auto result = body();
      if (dies) die();
      return result;
    }
  }

  /// Counts; throws what is to come before the operation; whether the process dies after it.
  bool begin(FileOperation kind, const std::string& path) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (is_killed_) die();
    ++counts_[static_cast<size_t>(kind)];
    const int64_t nth = total_++;
    if (nth == kill_at_) {
      is_killed_ = true;
      if (kill_point_ == KillPoint::kBefore) die();
      return true;
    }
    const bool is_meant = kind == kind_ && path.find(part_) != std::string::npos && left_-- == 0;
    const bool is_broken = break_at_ >= 0 && nth >= break_at_;
    if (is_meant || is_broken) throw errno_error(error_number_, name(kind), path);
    return false;
  }

  [[noreturn]] void die() const {
    if (kill_means_ == KillMeans::kSignal) std::raise(SIGKILL);
    throw Killed();
  }

  static const char* name(FileOperation kind) {
    constexpr std::array<const char*, static_cast<size_t>(FileOperation::kCount)> kNames = {
        "open",           "create",         "read",   "map",      "write",  "allocate",
        "sync",           "sync",           "close",  "lock",     "stat",   "list",
        "make directory", "sync directory", "rename", "exchange", "unlink", "remove directory",
        "free space"};
    return kNames[static_cast<size_t>(kind)];
  }

  Files& inner_;
  std::mutex mutex_;
  std::array<int64_t, static_cast<size_t>(FileOperation::kCount)> counts_{};
  int64_t total_ = 0, break_at_ = -1, kill_at_ = -1;
  FileOperation kind_ = FileOperation::kCount;
  int64_t left_ = -1;  ///< operations meant before the one that fails
  std::string part_;
  int error_number_ = 0;
  KillPoint kill_point_ = KillPoint::kBefore;
  KillMeans kill_means_ = KillMeans::kException;
  std::atomic<bool> is_killed_{false};
  std::atomic<int64_t> syncs_of_dead_files_{0};
  Hook hook_;
};

}  // namespace plait

// Files that fail on command: the nth operation of a kind throws an errno, or everything from the
// nth operation on does (a killed process writes nothing more, and cleans up nothing).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {

enum class FileOperation {
  kOpen,
  kCreate,
  kRead,
  kWrite,
  kSync,
  kStat,
  kList,
  kMakeDirectory,
  kSyncDirectory,
  kRename,
  kUnlink,
  kRemoveDirectory,
  kCount,
};

/// Counts every operation before passing it on. One thread.
class FaultFiles final : public Files {
 public:
  explicit FaultFiles(Files& inner) : inner_(inner) {}

  /// The `nth` (from 0) operation of `kind` throws `error_number`; once.
  void fail(FileOperation kind, int64_t nth, int error_number) {
    kind_ = kind;
    nth_ = nth;
    error_number_ = error_number;
  }
  /// The `nth` operation of all kinds together, and all later ones, throw `error_number`.
  void kill_at(int64_t nth, int error_number) {
    kill_at_ = nth;
    error_number_ = error_number;
  }
  int64_t count(FileOperation kind) const { return counts_[static_cast<size_t>(kind)]; }
  int64_t total() const { return total_; }

  std::unique_ptr<File> open_read(const std::string& path) override {
    pass(FileOperation::kOpen, "open", path);
    return std::make_unique<FaultFile>(*this, inner_.open_read(path));
  }
  std::unique_ptr<File> create(const std::string& path, bool must_be_new) override {
    pass(FileOperation::kCreate, "create", path);
    return std::make_unique<FaultFile>(*this, inner_.create(path, must_be_new));
  }
  bool exists(const std::string& path) override {
    pass(FileOperation::kStat, "stat", path);
    return inner_.exists(path);
  }
  FileInfo stat(const std::string& path) override {
    pass(FileOperation::kStat, "stat", path);
    return inner_.stat(path);
  }
  std::vector<std::string> list(const std::string& directory) override {
    pass(FileOperation::kList, "list", directory);
    return inner_.list(directory);
  }
  void make_directory(const std::string& path) override {
    pass(FileOperation::kMakeDirectory, "make directory", path);
    inner_.make_directory(path);
  }
  void sync_directory(const std::string& path) override {
    pass(FileOperation::kSyncDirectory, "sync directory", path);
    inner_.sync_directory(path);
  }
  void rename(const std::string& from, const std::string& to) override {
    pass(FileOperation::kRename, "rename", to);
    inner_.rename(from, to);
  }
  void rename_noreplace(const std::string& from, const std::string& to) override {
    pass(FileOperation::kRename, "rename", to);
    inner_.rename_noreplace(from, to);
  }
  void unlink(const std::string& path) override {
    pass(FileOperation::kUnlink, "unlink", path);
    inner_.unlink(path);
  }
  void remove_directory(const std::string& path) override {
    pass(FileOperation::kRemoveDirectory, "remove directory", path);
    inner_.remove_directory(path);
  }

 private:
  class FaultFile final : public File {
   public:
    FaultFile(FaultFiles& owner, std::unique_ptr<File> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    int64_t pread(void* data, int64_t bytes, int64_t offset) override {
      owner_.pass(FileOperation::kRead, "read", path());
      return inner_->pread(data, bytes, offset);
    }
    void pwrite(const void* data, int64_t bytes, int64_t offset) override {
      owner_.pass(FileOperation::kWrite, "write", path());
      inner_->pwrite(data, bytes, offset);
    }
    void sync() override {
      owner_.pass(FileOperation::kSync, "sync", path());
      inner_->sync();
    }
    int64_t size() const override { return inner_->size(); }
    const std::string& path() const override { return inner_->path(); }

   private:
    FaultFiles& owner_;
    std::unique_ptr<File> inner_;
  };

  void pass(FileOperation kind, const char* name, const std::string& path) {
    const int64_t mine = counts_[static_cast<size_t>(kind)]++, all = total_++;
    const bool is_killed = kill_at_ >= 0 && all >= kill_at_;
    if (is_killed || (kind == kind_ && mine == nth_)) throw errno_error(error_number_, name, path);
  }

  Files& inner_;
  std::array<int64_t, static_cast<size_t>(FileOperation::kCount)> counts_{};
  int64_t total_ = 0, nth_ = -1, kill_at_ = -1;
  FileOperation kind_ = FileOperation::kCount;
  int error_number_ = 0;
};

}  // namespace plait

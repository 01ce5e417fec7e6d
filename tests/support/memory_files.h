// Files in memory, for tests of damaged contents and of faults in the middle of a run. A path is a
// plain name; directories exist without being made. There are no locks, and space has no end.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {

/// Contents of one file, shared by those who have it open.
struct MemoryContent {
  std::string bytes;
  bool fails_reads = false;   ///< every pread is io_error
  bool fails_writes = false;  ///< every pwrite is no_space
};

class MemoryFile final : public File {
 public:
  MemoryFile(std::shared_ptr<MemoryContent> content, std::string path, std::mutex& mutex)
      : content_(std::move(content)), path_(std::move(path)), mutex_(mutex) {}

  int64_t pread(void* data, int64_t bytes, int64_t offset) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (content_->fails_reads) throw Error("io_error", "read failed").with("path", path_);
    const int64_t size = static_cast<int64_t>(content_->bytes.size());
    if (bytes < 0 || offset < 0) throw Error("io_error", "bad range").with("path", path_);
    const int64_t count = std::min(bytes, std::max<int64_t>(0, size - offset));
    if (count > 0) std::memcpy(data, content_->bytes.data() + offset, static_cast<size_t>(count));
    return count;
  }

  void pwrite(const void* data, int64_t bytes, int64_t offset) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (content_->fails_writes) throw Error("no_space", "write failed").with("path", path_);
    const size_t end = static_cast<size_t>(offset + bytes);
    if (content_->bytes.size() < end) content_->bytes.resize(end);
    std::memcpy(content_->bytes.data() + offset, data, static_cast<size_t>(bytes));
  }

  void sync() override {}
  void sync_data() override {}
  void allocate(int64_t bytes) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (content_->fails_writes) throw Error("no_space", "allocate failed").with("path", path_);
    content_->bytes.resize(static_cast<size_t>(bytes));
  }
  void close() override {}
  bool try_lock_shared() override { return true; }
  bool try_lock_exclusive() override { return true; }
  int64_t size() const override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return static_cast<int64_t>(content_->bytes.size());
  }
  const std::string& path() const override { return path_; }

 private:
  std::shared_ptr<MemoryContent> content_;
  std::string path_;
  std::mutex& mutex_;
};

/// Must outlive the files it has opened.
class MemoryFiles final : public Files {
 public:
  /// Makes or replaces a file.
  void put(const std::string& path, std::string bytes) {
    contents_[path] = std::make_shared<MemoryContent>();
    contents_[path]->bytes = std::move(bytes);
  }
  /// The file as it stands; change it to inject a fault into files already open.
  MemoryContent& at(const std::string& path) { return *find(path); }
  /// Every file created from now on refuses to be written.
  void fail_new_files() { fails_new_files_ = true; }
  std::vector<std::string> names() const {
    std::vector<std::string> names;
    for (const auto& [path, content] : contents_) names.push_back(path);
    return names;
  }

  std::unique_ptr<File> open_read(const std::string& path, Links = Links::kFollow) override {
    return std::make_unique<MemoryFile>(find(path), path, mutex_);
  }
  std::unique_ptr<File> create(const std::string& path, bool must_be_new) override {
    if (must_be_new && exists(path)) throw Error("target_exists", "it exists").with("path", path);
    put(path, "");
    contents_[path]->fails_writes = fails_new_files_;
    return open_read(path);
  }
  std::unique_ptr<File> create_private(const std::string& path) override {
    return create(path, true);
  }
  std::unique_ptr<File> open_or_create(const std::string& path) override {
    return exists(path) ? open_read(path) : create(path, true);
  }
  bool exists(const std::string& path) override { return contents_.count(path) != 0; }
  FileInfo stat(const std::string& path) override {
    return {FileInfo::Kind::kRegular, static_cast<int64_t>(find(path)->bytes.size())};
  }
  std::vector<std::string> list(const std::string&) override { return names(); }
  void make_directory(const std::string&) override {}
  void make_private_directory(const std::string&) override {}
  void sync_directory(const std::string&) override {}
  void rename(const std::string& from, const std::string& to) override {
    const std::shared_ptr<MemoryContent> content = find(from);
    contents_.erase(from);
    contents_[to] = content;
  }
  void rename_noreplace(const std::string& from, const std::string& to) override {
    if (exists(to)) throw Error("target_exists", "it exists").with("path", to);
    rename(from, to);
  }
  void exchange(const std::string& a, const std::string& b) override {
    find(a);
    find(b);
    contents_[a].swap(contents_[b]);
  }
  void unlink(const std::string& path) override {
    find(path);
    contents_.erase(path);
  }
  void remove_directory(const std::string&) override {}
  int64_t free_bytes(const std::string&) override { return std::numeric_limits<int64_t>::max(); }

 private:
  std::shared_ptr<MemoryContent> find(const std::string& path) {
    const auto found = contents_.find(path);
    if (found == contents_.end()) throw Error("no_file", "no such file").with("path", path);
    return found->second;
  }

  std::map<std::string, std::shared_ptr<MemoryContent>> contents_;
  std::mutex mutex_;
  bool fails_new_files_ = false;
};

/// An Env of `files` with the running system's clock and entropy.
inline Env memory_env(Files& files) { return {files, posix_env().clock, posix_env().entropy}; }

}  // namespace plait

// What SimFiles and the files it has opened share: inodes, names, locks. Its mutex is held by
// callers.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "kernels/base/error.h"
#include "tests/support/sim_files.h"
#include "tests/support/sim_files_model.h"

namespace plait {

struct SimFiles::State {
  struct Locks {
    int shared = 0;
    bool is_exclusive = false;
  };
  /// Where a name stands or may stand.
  struct Place {
    uint64_t directory = 0;
    std::string name;
  };

  std::recursive_mutex mutex;  ///< recursive: the hook may look
  sim::Inodes inodes;          ///< all that ever were: an open file may have lost its name
  uint64_t next_inode = sim::kRoot + 1;
  std::map<uint64_t, Locks> locks;
  Hook hook;
  int64_t operations = 0, dropped_sync = -1;
  int64_t free_bytes = std::numeric_limits<int64_t>::max();
  std::vector<std::string> syncs;

  /// To be changed: no other state has it any more.
  sim::Inode& own(uint64_t id) {
    std::shared_ptr<sim::Inode>& inode = inodes.at(id);
    if (inode.use_count() > 1) inode = std::make_shared<sim::Inode>(*inode);
    return *inode;
  }
  std::string& own_contents(sim::Inode& inode) {
    if (inode.contents.use_count() > 1)
      inode.contents = std::make_shared<std::string>(*inode.contents);
    return *inode.contents;
  }

  static std::vector<std::string> split(const std::string& path) {
    std::vector<std::string> parts;
    for (size_t begin = 0; begin < path.size();) {
      const size_t end = std::min(path.find('/', begin), path.size());
      const std::string part = path.substr(begin, end - begin);
      if (part == "..") throw Error("argument", "no .. in paths here").with("path", path);
      if (!part.empty() && part != ".") parts.push_back(part);
      begin = end + 1;
    }
    return parts;
  }

  /// Inode at a path, 0 with an errno: none.
  uint64_t walk(const std::vector<std::string>& parts, int* failure) const {
    uint64_t id = sim::kRoot;
    for (const std::string& part : parts) {
      const sim::Inode& inode = *inodes.at(id);
      const auto found = inode.entries.find(part);
      *failure = inode.is_directory ? ENOENT : ENOTDIR;
      if (found == inode.entries.end()) return 0;
      id = found->second;
    }
    return id;
  }
  uint64_t find(const std::string& path) const {
    int failure = 0;
    return walk(split(path), &failure);
  }
  uint64_t need(const std::string& path, const char* operation) const {
    int failure = 0;
    const uint64_t id = walk(split(path), &failure);
    if (id == 0) throw errno_error(failure, operation, path);
    return id;
  }
  uint64_t need_directory(const std::string& path, const char* operation) const {
    const uint64_t id = need(path, operation);
    if (!inodes.at(id)->is_directory) throw errno_error(ENOTDIR, operation, path);
    return id;
  }
  Place place(const std::string& path, const char* operation) const {
    std::vector<std::string> parts = split(path);
    if (parts.empty()) throw errno_error(EBUSY, operation, path);
    Place out;
    out.name = std::move(parts.back());
    parts.pop_back();
    int failure = 0;
    out.directory = walk(parts, &failure);
    if (out.directory == 0) throw errno_error(failure, operation, path);
    if (!inodes.at(out.directory)->is_directory) throw errno_error(ENOTDIR, operation, path);
    return out;
  }
  uint64_t at(const Place& place) const {
    const sim::Entries& entries = inodes.at(place.directory)->entries;
    const auto found = entries.find(place.name);
    return found == entries.end() ? 0 : found->second;
  }

  void edit(uint64_t directory, sim::Renaming operation) {
    sim::Inode& inode = own(directory);
    sim::apply(operation, &inode.entries);
    inode.operations.push_back(std::move(operation));
  }
  uint64_t add(const Place& place, bool is_directory) {
    const uint64_t id = next_inode++;
    auto inode = std::make_shared<sim::Inode>();
    inode->is_directory = is_directory;
    if (!is_directory) inode->contents = std::make_shared<std::string>();
    inode->sync();
    inodes[id] = std::move(inode);
    edit(place.directory, {{place.name, id}});
    return id;
  }
  void write(uint64_t id, const void* data, int64_t bytes, int64_t offset) {
    sim::Inode& inode = own(id);
    std::string& contents = own_contents(inode);
    sim::Change change;
    change.offset = offset;
    change.bytes = std::make_shared<const std::string>(static_cast<const char*>(data),
                                                       static_cast<size_t>(bytes));
    change.size_before = static_cast<int64_t>(contents.size());
    change.size_after =
        bytes == 0 ? change.size_before : std::max(change.size_before, offset + bytes);
    contents.resize(static_cast<size_t>(change.size_after));
    std::copy(change.bytes->begin(), change.bytes->end(), contents.begin() + offset);
    inode.changes.push_back(std::move(change));
  }
  void resize(uint64_t id, int64_t bytes) {
    sim::Inode& inode = own(id);
    const int64_t before = inode.size();
    if (before == bytes) return;
    inode.changes.push_back({0, nullptr, before, bytes});
    own_contents(inode).resize(static_cast<size_t>(bytes));
  }
  void sync(uint64_t id, const char* kind, const std::string& path) {
    syncs.push_back(std::string(kind) + " " + path);
    if (static_cast<int64_t>(syncs.size()) - 1 != dropped_sync) own(id).sync();
  }
  void done(const char* operation, const std::string& path) {
    ++operations;
    if (hook) hook(operation, path);
  }
  void describe(uint64_t id, const std::string& path, std::vector<std::string>* lines) const {
    const sim::Inode& inode = *inodes.at(id);
    if (!inode.is_directory) lines->push_back("f " + path + " " + std::to_string(inode.size()));
    if (inode.is_directory && id != sim::kRoot) lines->push_back("d " + path);
    for (const auto& [name, child] : inode.entries) describe(child, path + "/" + name, lines);
  }
};

}  // namespace plait

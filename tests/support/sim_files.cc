#include "tests/support/sim_files.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "kernels/base/error.h"
#include "tests/support/sim_files_model.h"
#include "tests/support/sim_files_state.h"

namespace plait {
namespace {

using SimLock = std::lock_guard<std::recursive_mutex>;

Error sim_target_exists(const std::string& path) {
  return Error("target_exists", "the path exists already").with("path", path);
}

}  // namespace

class SimFiles::OpenFile final : public File {
 public:
  OpenFile(std::shared_ptr<State> state, uint64_t inode, std::string path, bool is_writable)
      : state_(std::move(state)), inode_(inode), path_(std::move(path)), may_write_(is_writable) {}
  ~OpenFile() override {
    const SimLock lock(state_->mutex);
    unlock();
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  int64_t pread(void* data, int64_t bytes, int64_t offset) override {
    const SimLock lock(state_->mutex);
    require(!is_closed_, "read");
    if (bytes < 0 || offset < 0) throw errno_error(EINVAL, "read", path_);
    const std::string& contents = *state_->inodes.at(inode_)->contents;
    const int64_t left = static_cast<int64_t>(contents.size()) - offset;
    const int64_t count = std::min(bytes, std::max<int64_t>(0, left));
    if (count > 0) std::memcpy(data, contents.data() + offset, static_cast<size_t>(count));
    return count;
  }
  void pwrite(const void* data, int64_t bytes, int64_t offset) override {
    const SimLock lock(state_->mutex);
    require(!is_closed_ && may_write_, "write");
    if (bytes < 0 || offset < 0) throw errno_error(EINVAL, "write", path_);
    state_->write(inode_, data, bytes, offset);
    state_->done("write", path_);
  }
  void sync() override { sync("all"); }
  void sync_data() override { sync("data"); }
  void allocate(int64_t bytes) override {
    const SimLock lock(state_->mutex);
    require(!is_closed_ && may_write_, "allocate");
    if (bytes < 0) throw errno_error(EINVAL, "allocate", path_);
    state_->resize(inode_, bytes);
    state_->done("allocate", path_);
  }
  void close() override {
    const SimLock lock(state_->mutex);
    if (is_closed_) return;
    is_closed_ = true;
    unlock();
    state_->done("close", path_);
  }
  bool try_lock_shared() override { return try_lock(Held::kShared); }
  bool try_lock_exclusive() override { return try_lock(Held::kExclusive); }
  int64_t size() const override {
    const SimLock lock(state_->mutex);
    require(!is_closed_, "stat");
    return state_->inodes.at(inode_)->size();
  }
  const std::string& path() const override { return path_; }

 private:
  enum class Held { kNone, kShared, kExclusive };

  void require(bool condition, const char* operation) const {
    if (!condition) throw errno_error(EBADF, operation, path_);
  }
  void sync(const char* kind) {
    const SimLock lock(state_->mutex);
    require(!is_closed_, "sync");
    state_->sync(inode_, kind, path_);
    state_->done("sync", path_);
  }
  bool try_lock(Held wanted) {
    const SimLock lock(state_->mutex);
    require(!is_closed_, "lock");
    unlock();
    State::Locks& locks = state_->locks[inode_];
    if (locks.is_exclusive || (wanted == Held::kExclusive && locks.shared > 0)) return false;
    locks.is_exclusive = wanted == Held::kExclusive;
    locks.shared += wanted == Held::kShared ? 1 : 0;
    held_ = wanted;
    return true;
  }
  void unlock() {
    State::Locks& locks = state_->locks[inode_];
    if (held_ == Held::kExclusive) locks.is_exclusive = false;
    if (held_ == Held::kShared) --locks.shared;
    held_ = Held::kNone;
  }

  std::shared_ptr<State> state_;
  uint64_t inode_;
  std::string path_;
  bool may_write_, is_closed_ = false;
  Held held_ = Held::kNone;
};

SimFiles::SimFiles() : state_(std::make_shared<State>()) {
  auto root = std::make_shared<sim::Inode>();
  root->is_directory = true;
  state_->inodes[sim::kRoot] = std::move(root);
}
SimFiles::SimFiles(std::shared_ptr<State> state) : state_(std::move(state)) {}
SimFiles::~SimFiles() = default;
SimFiles::SimFiles(SimFiles&&) noexcept = default;
SimFiles& SimFiles::operator=(SimFiles&&) noexcept = default;

uint64_t SimFiles::crash_states() const {
  const SimLock lock(state_->mutex);
  return sim::count_states(state_->inodes, sim::reachable(state_->inodes));
}

SimFiles SimFiles::crash(uint64_t choice) const {
  const SimLock lock(state_->mutex);
  const std::set<uint64_t> reached = sim::reachable(state_->inodes);
  const uint64_t states = sim::count_states(state_->inodes, reached);
  const bool is_counted = states != kMany;
  sim::Chooser chooser(is_counted ? choice % states : choice, is_counted);
  auto after = std::make_shared<State>();
  after->next_inode = state_->next_inode;
  after->free_bytes = state_->free_bytes;
  for (const uint64_t id : reached) {
    const std::shared_ptr<sim::Inode>& inode = state_->inodes.at(id);
    after->inodes[id] = inode->is_durable() ? inode : sim::crashed(*inode, &chooser);
  }
  return SimFiles(std::move(after));
}

void SimFiles::for_each_crash(uint64_t limit, uint64_t seed, const Visitor& visit) const {
  const SimLock lock(state_->mutex);
  const uint64_t states = crash_states();
  for (uint64_t i = 0; i < std::min(states, limit); ++i) {
    const bool is_plain = states <= limit || i < 2;
    const uint64_t choice = is_plain ? i : sim::scramble(seed + i * 0x9E3779B97F4A7C15u);
    SimFiles after = crash(choice);
    visit(after, choice);
  }
}

SimFiles SimFiles::kill() const {
  const SimLock lock(state_->mutex);
  auto after = std::make_shared<State>();
  after->inodes = state_->inodes;
  after->next_inode = state_->next_inode;
  after->free_bytes = state_->free_bytes;
  return SimFiles(std::move(after));
}

void SimFiles::after_each(Hook hook) {
  const SimLock lock(state_->mutex);
  state_->hook = std::move(hook);
}
int64_t SimFiles::operations() const {
  const SimLock lock(state_->mutex);
  return state_->operations;
}
std::vector<std::string> SimFiles::syncs() const {
  const SimLock lock(state_->mutex);
  return state_->syncs;
}
void SimFiles::drop_sync(int64_t nth) {
  const SimLock lock(state_->mutex);
  state_->dropped_sync = nth;
}
void SimFiles::set_free_bytes(int64_t bytes) {
  const SimLock lock(state_->mutex);
  state_->free_bytes = bytes;
}
std::vector<std::string> SimFiles::tree() const {
  const SimLock lock(state_->mutex);
  std::vector<std::string> lines;
  state_->describe(sim::kRoot, "", &lines);
  return lines;
}

std::unique_ptr<File> SimFiles::open_read(const std::string& path, Links) {
  const SimLock lock(state_->mutex);
  const uint64_t id = state_->need(path, "open");
  if (state_->inodes.at(id)->is_directory)
    throw Error("invalid_file", "not a regular file").with("path", path);
  return std::make_unique<OpenFile>(state_, id, path, false);
}

std::unique_ptr<File> SimFiles::create(const std::string& path, bool must_be_new) {
  const SimLock lock(state_->mutex);
  const State::Place place = state_->place(path, "create");
  uint64_t id = state_->at(place);
  if (id != 0 && must_be_new) throw sim_target_exists(path);
  if (id != 0 && state_->inodes.at(id)->is_directory) throw errno_error(EISDIR, "create", path);
  if (id == 0) {
    id = state_->add(place, false);
  } else {
    state_->resize(id, 0);
  }
  auto file = std::make_unique<OpenFile>(state_, id, path, true);
  state_->done("create", path);
  return file;
}

std::unique_ptr<File> SimFiles::create_private(const std::string& path) {
  return create(path, true);
}

std::unique_ptr<File> SimFiles::open_or_create(const std::string& path) {
  const SimLock lock(state_->mutex);
  const uint64_t id = state_->find(path);
  if (id == 0) return create(path, true);
  if (state_->inodes.at(id)->is_directory)
    throw Error("invalid_file", "not a regular file").with("path", path);
  return std::make_unique<OpenFile>(state_, id, path, true);
}

bool SimFiles::exists(const std::string& path) {
  const SimLock lock(state_->mutex);
  return state_->find(path) != 0;
}

FileInfo SimFiles::stat(const std::string& path) {
  const SimLock lock(state_->mutex);
  const sim::Inode& inode = *state_->inodes.at(state_->need(path, "stat"));
  return {inode.is_directory ? FileInfo::Kind::kDirectory : FileInfo::Kind::kRegular, inode.size()};
}

std::vector<std::string> SimFiles::list(const std::string& directory) {
  const SimLock lock(state_->mutex);
  std::vector<std::string> names;
  const uint64_t id = state_->need_directory(directory, "open directory");
  for (const auto& [name, child] : state_->inodes.at(id)->entries) names.push_back(name);
  return names;
}

void SimFiles::make_directory(const std::string& path) {
  const SimLock lock(state_->mutex);
  if (state_->find(path) != 0) throw sim_target_exists(path);
  state_->add(state_->place(path, "make directory"), true);
  state_->done("make directory", path);
}

void SimFiles::make_private_directory(const std::string& path) { make_directory(path); }

void SimFiles::sync_directory(const std::string& path) {
  const SimLock lock(state_->mutex);
  state_->sync(state_->need_directory(path, "open directory"), "directory", path);
  state_->done("sync directory", path);
}

void SimFiles::rename(const std::string& from, const std::string& to) {
  const SimLock lock(state_->mutex);
  const State::Place old_place = state_->place(from, "rename");
  const State::Place new_place = state_->place(to, "rename");
  const uint64_t id = state_->at(old_place), target = state_->at(new_place);
  if (id == 0) throw errno_error(ENOENT, "rename", to);
  if (old_place.directory != new_place.directory)
    throw Error("argument", "renaming from one directory to another is not simulated")
        .with("from", from)
        .with("to", to);
  if (target != 0 && target != id) {
    const bool is_directory = state_->inodes.at(id)->is_directory;
    const sim::Inode& replaced = *state_->inodes.at(target);
    if (replaced.is_directory != is_directory)
      throw errno_error(is_directory ? ENOTDIR : EISDIR, "rename", to);
    if (!replaced.entries.empty()) throw errno_error(ENOTEMPTY, "rename", to);
  }
  if (target != id) state_->edit(old_place.directory, {{old_place.name, 0}, {new_place.name, id}});
  state_->done("rename", to);
}

void SimFiles::rename_noreplace(const std::string& from, const std::string& to) {
  const SimLock lock(state_->mutex);
  state_->need(from, "rename");
  if (state_->find(to) != 0) throw sim_target_exists(to);
  rename(from, to);
}

void SimFiles::exchange(const std::string& a, const std::string& b) {
  const SimLock lock(state_->mutex);
  const State::Place place_a = state_->place(a, "exchange"), place_b = state_->place(b, "exchange");
  const uint64_t id_a = state_->at(place_a), id_b = state_->at(place_b);
  if (id_a == 0 || id_b == 0) throw errno_error(ENOENT, "exchange", b);
  if (place_a.directory != place_b.directory)
    throw Error("argument", "exchanging between two directories is not simulated")
        .with("from", a)
        .with("to", b);
  if (id_a != id_b) state_->edit(place_a.directory, {{place_a.name, id_b}, {place_b.name, id_a}});
  state_->done("exchange", b);
}

void SimFiles::unlink(const std::string& path) {
  const SimLock lock(state_->mutex);
  const uint64_t id = state_->need(path, "unlink");
  if (state_->inodes.at(id)->is_directory) throw errno_error(EISDIR, "unlink", path);
  const State::Place place = state_->place(path, "unlink");
  state_->edit(place.directory, {{place.name, 0}});
  state_->done("unlink", path);
}

void SimFiles::remove_directory(const std::string& path) {
  const SimLock lock(state_->mutex);
  const uint64_t id = state_->need_directory(path, "remove directory");
  if (!state_->inodes.at(id)->entries.empty())
    throw errno_error(ENOTEMPTY, "remove directory", path);
  const State::Place place = state_->place(path, "remove directory");
  state_->edit(place.directory, {{place.name, 0}});
  state_->done("remove directory", path);
}

int64_t SimFiles::free_bytes(const std::string& directory) {
  const SimLock lock(state_->mutex);
  state_->need(directory, "free space");
  return state_->free_bytes;
}

}  // namespace plait

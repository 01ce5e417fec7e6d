// Files in memory that lose power: what a system and its disk may make of a run that was cut off.
//
// Two states are held of everything: what a running process sees, and what is durable.
//
//   A file. A write, an allocation or a truncation is pending until this file is synced (sync or
//   sync_data, which are alike here). Its name is another matter: it belongs to the directory.
//   A directory. Making, renaming, exchanging and removing entries is pending until this directory
//   is synced. An entry is durable apart from what it names: a synced file without a synced
//   directory may be lost, and a durable name may lead to a file of which nothing was written.
//
// A loss of power keeps what is durable and any part of what is pending:
//
//   - Of each pending write any pieces, cut where the file has multiples of 512 bytes, in the order
//     of the writes. What was never written and lies inside the size reads as zeros.
//   - Any size that the file has had since it was synced, whatever became of its bytes.
//   - Of the pending operations of each directory any, in their order, be it a prefix or not.
//     Each is whole or absent, so a rename is atomic: the old name or the new one, never both,
//     never none. No inode gets two names, even if the operations that are kept say so.
//   - Files and directories do not wait for one another: a rename may survive what it should
//   publish.
//
// That is more than journalling file systems allow themselves, and what POSIX lets them. Not part
// of the model: links, renames from one directory to another (refused), modes, running out of
// space.
//
// A state is taken with `crash`; `after_each` is the place to do it after each single operation of
// a run. States share contents with the run and with each other. All calls take the one mutex of
// their SimFiles; two that share contents may be used by several threads only if none of them
// writes.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/env.h"

namespace plait {

class SimFiles final : public Files {
 public:
  /// Called with the name of an operation that changed something and the path it was given.
  using Hook = std::function<void(const char* operation, const std::string& path)>;
  using Visitor = std::function<void(SimFiles& after, uint64_t choice)>;

  /// crash_states beyond which they are drawn, not counted.
  static constexpr uint64_t kCountedStates = 4096;
  static constexpr uint64_t kMany = ~uint64_t{0};
  static constexpr int64_t kPieceBytes = 512;

  /// An empty durable directory "/". Paths are taken from it, whether or not they begin with "/".
  SimFiles();
  ~SimFiles() override;
  SimFiles(SimFiles&&) noexcept;
  SimFiles& operator=(SimFiles&&) noexcept;

  /// How many ways there are for a loss of power to end now; kMany above kCountedStates.
  uint64_t crash_states() const;
  /// One of them, all of it durable, with no locks. Where they are counted, the `choice`-th (modulo
  /// their number); else `choice` is a seed, of which 0 keeps nothing that is pending and 1 all.
  SimFiles crash(uint64_t choice) const;
  /// Visits all states if there are at most `limit`; else `limit` that are drawn from `seed`, the
  /// choices 0 and 1 among them. `choice` is what gives the same state again.
  void for_each_crash(uint64_t limit, uint64_t seed, const Visitor& visit) const;
  /// The state after a kill -9 of all processes: all that was done is seen, what is pending stays
  /// so, locks are gone.
  SimFiles kill() const;

  /// Called after each operation that changes something, closing and syncs included, while no
  /// other operation runs. It may look, take states, and throw; it must not change these files.
  void after_each(Hook hook);
  int64_t operations() const;  ///< that changed something
  /// "data PATH" (sync_data), "all PATH" (sync) or "directory PATH" for each sync so far.
  std::vector<std::string> syncs() const;
  /// The `nth` sync (from 0, in the order of syncs()) will do nothing, and say that it has: what
  /// the code under test would be without it.
  void drop_sync(int64_t nth);
  /// What free_bytes answers, for every directory. Nothing is ever subtracted.
  void set_free_bytes(int64_t bytes);
  /// "d PATH" and "f PATH BYTES", sorted: for messages.
  std::vector<std::string> tree() const;

  std::unique_ptr<File> open_read(const std::string& path, Links links = Links::kFollow) override;
  std::unique_ptr<File> create(const std::string& path, bool must_be_new) override;
  std::unique_ptr<File> create_private(const std::string& path) override;
  std::unique_ptr<File> open_or_create(const std::string& path) override;
  bool exists(const std::string& path) override;
  FileInfo stat(const std::string& path) override;
  std::vector<std::string> list(const std::string& directory) override;
  void make_directory(const std::string& path) override;
  void make_private_directory(const std::string& path) override;
  void sync_directory(const std::string& path) override;
  void rename(const std::string& from, const std::string& to) override;
  void rename_noreplace(const std::string& from, const std::string& to) override;
  void exchange(const std::string& a, const std::string& b) override;
  void unlink(const std::string& path) override;
  void remove_directory(const std::string& path) override;
  int64_t free_bytes(const std::string& directory) override;

 private:
  struct State;
  class OpenFile;
  explicit SimFiles(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  ///< shared with the files that are open
};

}  // namespace plait

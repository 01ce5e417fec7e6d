// Inodes of SimFiles, and what a loss of power leaves of one.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/sim_files.h"

namespace plait::sim {

inline constexpr uint64_t kRoot = 1;  ///< inode of "/"

/// One pending write, or, without bytes, a new size.
struct Change {
  int64_t offset = 0;
  std::shared_ptr<const std::string> bytes;
  int64_t size_before = 0, size_after = 0;

  bool is_cut() const { return bytes == nullptr && size_after < size_before; }
  /// End of the piece that begins at `begin`, both counted from the first byte written.
  int64_t piece_end(int64_t begin) const {
    const int64_t whole = (offset + begin) / SimFiles::kPieceBytes + 1;
    return std::min(static_cast<int64_t>(bytes->size()), whole * SimFiles::kPieceBytes - offset);
  }
  /// Parts that are kept or lost each on its own; a growing size is none of them.
  int64_t parts() const {
    if (bytes == nullptr) return is_cut() ? 1 : 0;
    if (bytes->empty()) return 0;
    const int64_t last = offset + static_cast<int64_t>(bytes->size()) - 1;
    return last / SimFiles::kPieceBytes - offset / SimFiles::kPieceBytes + 1;
  }
};

using Entries = std::map<std::string, uint64_t>;
/// One operation on a directory: names, and the inodes they lead to from now on, 0: none.
using Renaming = std::vector<std::pair<std::string, uint64_t>>;

inline void apply(const Renaming& operation, Entries* entries) {
  for (const auto& entry : operation) {
    const uint64_t inode = entry.second;
    if (inode == 0) {
      entries->erase(entry.first);
      continue;
    }
    std::erase_if(*entries, [inode](const auto& other) { return other.second == inode; });
    (*entries)[entry.first] = inode;
  }
}

/// File or directory. Contents are shared, also between durable and seen: copy before a change.
struct Inode {
  bool is_directory = false;
  std::shared_ptr<std::string> contents, durable_contents;
  std::vector<Change> changes;
  Entries entries, durable_entries;
  std::vector<Renaming> operations;

  bool is_durable() const { return changes.empty() && operations.empty(); }
  int64_t size() const { return is_directory ? 0 : static_cast<int64_t>(contents->size()); }
  void sync() {
    durable_contents = contents;
    durable_entries = entries;
    changes.clear();
    operations.clear();
  }
  /// Of a file: all since the last sync, that one first.
  std::vector<int64_t> sizes() const {
    std::vector<int64_t> out = {static_cast<int64_t>(durable_contents->size())};
    for (const Change& change : changes) {
      if (change.size_after != out.back()) out.push_back(change.size_after);
    }
    return out;
  }
  int64_t parts() const {
    int64_t sum = static_cast<int64_t>(operations.size());
    for (const Change& change : changes) sum += change.parts();
    return sum;
  }
};

using Inodes = std::map<uint64_t, std::shared_ptr<Inode>>;

/// Those to which durable or pending names lead.
inline std::set<uint64_t> reachable(const Inodes& inodes) {
  std::set<uint64_t> seen;
  std::vector<uint64_t> left = {kRoot};
  while (!left.empty()) {
    const uint64_t id = left.back();
    left.pop_back();
    if (!seen.insert(id).second) continue;
    const Inode& inode = *inodes.at(id);
    for (const auto& [name, child] : inode.durable_entries) left.push_back(child);
    for (const Renaming& operation : inode.operations) {
      for (const auto& [name, child] : operation) {
        if (child != 0) left.push_back(child);
      }
    }
  }
  return seen;
}

/// Number of ways in which `reached` may end; kMany above kCountedStates.
inline uint64_t count_states(const Inodes& inodes, const std::set<uint64_t>& reached) {
  uint64_t product = 1;
  for (const uint64_t id : reached) {
    const Inode& inode = *inodes.at(id);
    if (inode.is_durable()) continue;
    const int64_t parts = inode.parts();
    if (parts > 12) return SimFiles::kMany;
    product <<= parts;
    if (!inode.is_directory) product *= inode.sizes().size();
    if (product > SimFiles::kCountedStates) return SimFiles::kMany;
  }
  return product;
}

/// Finalizer of SplitMix64.
inline uint64_t scramble(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

/// Decides what is kept. Counted: digits of a number in mixed radix, 0 keeps nothing. Drawn: each
/// inode gets a manner of its own, since even odds for every part hardly ever give the states that
/// betray a missing sync: all here, nothing there.
class Chooser {
 public:
  Chooser(uint64_t choice, bool is_counted)
      : choice_(choice), is_counted_(is_counted), random_(scramble(choice)) {}

  /// An inode, about which `parts` questions will follow.
  void begin(int64_t parts) {
    constexpr Manner kManners[] = {Manner::kAll,    Manner::kNone,     Manner::kPrefix,
                                   Manner::kPrefix, Manner::kShare,    Manner::kShare,
                                   Manner::kShare,  Manner::kAllButOne};
    manner_ = kManners[next() % 8];
    if (choice_ < 2) manner_ = choice_ == 0 ? Manner::kNone : Manner::kAll;
    asked_ = 0;
    mark_ = static_cast<int64_t>(next() % static_cast<uint64_t>(parts + 1));
    if (manner_ == Manner::kAllButOne && mark_ == parts) mark_ = 0;
    constexpr uint64_t kEighths[] = {1, 4, 7};
    eighths_ = kEighths[next() % 3];
  }
  bool keep() { return pick(2) == 1; }
  /// 0, the durable one, to options − 1, the latest.
  uint64_t pick(uint64_t options) {
    if (is_counted_) {
      const uint64_t digit = choice_ % options;
      choice_ /= options;
      return digit;
    }
    const int64_t question = asked_++;
    switch (manner_) {
      case Manner::kAll:
        return options - 1;
      case Manner::kNone:
        return 0;
      case Manner::kPrefix:
        return question < mark_ ? options - 1 : 0;
      case Manner::kAllButOne:
        return question != mark_ ? options - 1 : 0;
      case Manner::kShare:
        break;
    }
    return options == 2 ? static_cast<uint64_t>(next() % 8 < eighths_) : next() % options;
  }
  /// Whether all answers will be the latest state, or all the durable one.
  bool is_all() const { return !is_counted_ && manner_ == Manner::kAll; }
  bool is_none() const { return !is_counted_ && manner_ == Manner::kNone; }

 private:
  enum class Manner { kAll, kNone, kPrefix, kAllButOne, kShare };
  uint64_t next() { return scramble(random_ += 0x9E3779B97F4A7C15u); }

  uint64_t choice_;
  bool is_counted_;
  uint64_t random_;
  Manner manner_ = Manner::kNone;
  int64_t asked_ = 0, mark_ = 0;
  uint64_t eighths_ = 4;
};

/// The size is asked for first: without it the other parts beyond it do not matter.
inline std::shared_ptr<std::string> crashed_contents(const Inode& inode, Chooser* chooser) {
  const std::vector<int64_t> sizes = inode.sizes();
  chooser->begin(inode.parts() + 1);
  if (chooser->is_all()) return inode.contents;
  if (chooser->is_none()) return inode.durable_contents;
  const int64_t size = sizes[chooser->pick(sizes.size())];
  auto out = std::make_shared<std::string>(*inode.durable_contents);
  for (const Change& change : inode.changes) {
    if (change.bytes == nullptr) {
      const bool is_kept = change.is_cut() && chooser->keep();
      if (is_kept && static_cast<int64_t>(out->size()) > change.size_after)
        out->resize(static_cast<size_t>(change.size_after));
      continue;
    }
    const int64_t bytes = static_cast<int64_t>(change.bytes->size());
    for (int64_t begin = 0, end = 0; begin < bytes; begin = end) {
      end = change.piece_end(begin);
      if (!chooser->keep()) continue;
      const size_t last = static_cast<size_t>(change.offset + end);
      if (out->size() < last) out->resize(last);
      std::copy(change.bytes->begin() + begin, change.bytes->begin() + end,
                out->begin() + change.offset + begin);
    }
  }
  out->resize(static_cast<size_t>(size));
  return out;
}

inline Entries crashed_entries(const Inode& inode, Chooser* chooser) {
  chooser->begin(inode.parts());
  Entries out = inode.durable_entries;
  for (const Renaming& operation : inode.operations) {
    if (chooser->keep()) apply(operation, &out);
  }
  return out;
}

/// What is left of an inode, all of it durable.
inline std::shared_ptr<Inode> crashed(const Inode& inode, Chooser* chooser) {
  auto out = std::make_shared<Inode>();
  out->is_directory = inode.is_directory;
  if (inode.is_directory) {
    out->entries = crashed_entries(inode, chooser);
  } else {
    out->contents = crashed_contents(inode, chooser);
  }
  out->sync();
  return out;
}

}  // namespace plait::sim

// Runs through all lists of a schedule in an order that they, their messages and the lanes' one
// message each admit: a send waits while its lane holds a message, a receive while it holds none.
//
// Which order it is does not matter: no instruction that runs keeps another from running, so either
// every such order ends or none does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/schedule/schedule.h"

namespace plait {

class Walk {
 public:
  struct Place {
    int64_t coordinate = 0;
    size_t index = 0;  ///< in the coordinate's list
  };

  /// Borrows `schedule`, whose messages are matched and in the order of their lanes.
  explicit Walk(const Schedule& schedule);

  /// The next instruction to run; nothing when all have run or those left wait for each other.
  std::optional<Place> next();

  /// After the end: empty when all have run, else instructions of which each waits for the next
  /// one and the last for the first; the lowest coordinate stands first.
  std::vector<Place> circle() const;

 private:
  bool is_done(int64_t coordinate) const;
  bool may_run(const Instruction& instruction) const;
  void run(const Instruction& instruction);
  int64_t awaited(int64_t coordinate) const;

  const Schedule& schedule_;
  std::vector<size_t> index_;    // of each coordinate's next instruction
  std::vector<bool> is_full_;    // lanes that hold a message
  std::vector<int64_t> ready_;   // coordinates that may be able to go on
  std::vector<bool> is_listed_;  // which stand in ready_
};

}  // namespace plait

// Reports "operations" of several processes, laid beside each other: after a run that hung or ended
// with `desync` they show where ranks parted.
//
// Collectives of a group have the same number, operation and size on all its members. Each report
// holds a rank's last operations only, so members are compared where their records overlap. What
// some members wait in and others never came to is a difference as well. Messages between two ranks
// are not compared: their records do not name the other end.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace plait::cli {

/// A collective as one rank recorded it.
struct RecordedOperation {
  std::string name;  ///< "tensor all_reduce"
  int64_t bytes = 0;
  int64_t begin_ns = 0;  ///< on the clock of its machine
  bool is_done = false;
};

/// Collectives of one rank in one group, by their number in the group.
using RecordedGroup = std::map<int64_t, RecordedOperation>;

struct RankOperations {
  int64_t rank = 0, tensor = 0, pipeline = 0, data = 0;
  std::map<std::string, RecordedGroup> groups;  ///< by "tensor", "pipeline", "data", "leaders"
};

struct OperationsReport {
  std::string path;
  std::vector<RankOperations> ranks;
};

/// Reads a report. DATA_LOSS/invalid_file for anything else.
OperationsReport read_operations(const std::string& path, const std::string& json);

/// What a member of the group has under the number; null: it has not come there.
struct DifferingRank {
  int64_t rank = 0;
  std::string path;
  std::optional<RecordedOperation> operation;
};

struct Difference {
  std::string group;
  int64_t sequence = 0;
  std::vector<DifferingRank> ranks;  ///< those whose records reach back so far, ascending
};

struct MergedOperations {
  int64_t ranks = 0;
  int64_t compared = 0;                  ///< operations that more than one rank recorded
  std::optional<Difference> difference;  ///< the one that began first
};

/// A usage failure when two reports hold the same rank.
MergedOperations merge_operations(const std::vector<OperationsReport>& reports);

std::string merged_text(const MergedOperations& merged);
std::string merged_json(const MergedOperations& merged);

}  // namespace plait::cli

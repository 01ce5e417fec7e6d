#include "bindings/cli/operations_merge.h"

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "bindings/cli/failure.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

using SortedJson = nlohmann::json;

/// A rank's record of one group, beside where it was read.
struct Member {
  int64_t rank = 0;
  const std::string* path = nullptr;
  const RecordedGroup* operations = nullptr;
};

/// Members of a group differ on its axis alone.
using GroupKey = std::tuple<std::string, int64_t, int64_t, int64_t>;

GroupKey key_of(const std::string& group, const RankOperations& rank) {
  if (group == "tensor") return {group, -1, rank.pipeline, rank.data};
  if (group == "pipeline") return {group, rank.tensor, -1, rank.data};
  if (group == "data") return {group, rank.tensor, rank.pipeline, -1};
  return {group, -1, -1, -1};
}

/// Files a record under its group, if it is a collective.
void add_operation(const SortedJson& record, RankOperations* rank) {
  const std::string name = record.at("operation");
  const size_t space = name.find(' ');
  if (space == std::string::npos) return;
  const std::string group = name.substr(0, space), operation = name.substr(space + 1);
  const bool is_message = operation == "send" || operation == "receive";
  if (rank->groups.count(group) == 0 || is_message) return;
  rank->groups[group][record.at("sequence").get<int64_t>()] = {
      name, record.at("bytes").get<int64_t>(), record.at("begin_ns").get<int64_t>(),
      record.at("state") == "done"};
}

RankOperations read_rank(const SortedJson& json) {
  RankOperations rank{json.at("rank").get<int64_t>(),
                      json.at("tensor").get<int64_t>(),
                      json.at("pipeline").get<int64_t>(),
                      json.at("data").get<int64_t>(),
                      {{"tensor", {}}, {"pipeline", {}}, {"data", {}}, {"leaders", {}}}};
  for (const SortedJson& record : json.at("operations")) add_operation(record, &rank);
  return rank;
}

void check_ranks(const std::vector<OperationsReport>& reports) {
  std::map<int64_t, std::string> paths;
  for (const OperationsReport& report : reports) {
    for (const RankOperations& rank : report.ranks) {
      const auto [known, is_new] = paths.emplace(rank.rank, report.path);
      if (is_new) continue;
      throw usage_failure("two reports hold the same rank")
          .with("rank", rank.rank)
          .with("path", known->second)
          .with("other_path", report.path);
    }
  }
}

/// What the members have under `sequence`; those whose records begin later are left out.
std::vector<DifferingRank> row_of(const std::vector<Member>& members, int64_t sequence) {
  std::vector<DifferingRank> row;
  for (const Member& member : members) {
    const RecordedGroup& operations = *member.operations;
    const auto found = operations.find(sequence);
    const bool is_older = !operations.empty() && sequence < operations.begin()->first;
    if (found != operations.end()) {
      row.push_back({member.rank, *member.path, found->second});
    } else if (!is_older) {
      row.push_back({member.rank, *member.path, std::nullopt});
    }
  }
  return row;
}

bool differs(const std::vector<DifferingRank>& row) {
  const RecordedOperation* first = nullptr;
  bool is_awaited = false, is_missing = false;
  for (const DifferingRank& one : row) {
    is_missing = is_missing || !one.operation;
    if (!one.operation) continue;
    is_awaited = is_awaited || !one.operation->is_done;
    if (first == nullptr) first = &*one.operation;
    if (one.operation->name != first->name || one.operation->bytes != first->bytes) return true;
  }
  // A report that was taken a moment earlier may lack what was over a moment later.
  return is_awaited && is_missing;
}

int64_t begin_of(const Difference& difference) {
  int64_t begin = std::numeric_limits<int64_t>::max();
  for (const DifferingRank& one : difference.ranks) {
    if (one.operation) begin = std::min(begin, one.operation->begin_ns);
  }
  return begin;
}

void compare(const std::string& group, const std::vector<Member>& members,
             MergedOperations* merged) {
  std::set<int64_t> sequences;
  for (const Member& member : members) {
    for (const auto& [sequence, operation] : *member.operations) sequences.insert(sequence);
  }
  for (const int64_t sequence : sequences) {
    Difference difference{group, sequence, row_of(members, sequence)};
    if (difference.ranks.size() < 2) continue;
    ++merged->compared;
    if (!differs(difference.ranks)) continue;
    if (!merged->difference || begin_of(difference) < begin_of(*merged->difference)) {
      merged->difference = std::move(difference);
    }
    return;
  }
}

}  // namespace

OperationsReport read_operations(const std::string& path, const std::string& json) {
  OperationsReport report{path, {}};
  try {
    const SortedJson parsed = SortedJson::parse(json);
    for (const SortedJson& rank : parsed.at("ranks")) report.ranks.push_back(read_rank(rank));
  } catch (const SortedJson::exception& error) {
    throw Failure(PLAIT_DATA_LOSS, "invalid_file", "this is no report of operations")
        .with("path", path)
        .with("reason", error.what());
  }
  return report;
}

MergedOperations merge_operations(const std::vector<OperationsReport>& reports) {
  check_ranks(reports);
  MergedOperations merged;
  std::map<GroupKey, std::vector<Member>> groups;
  for (const OperationsReport& report : reports) {
    merged.ranks += static_cast<int64_t>(report.ranks.size());
    for (const RankOperations& rank : report.ranks) {
      for (const auto& [name, operations] : rank.groups) {
        // Of the ranks of a process one speaks for it.
        if (name == "leaders" && &rank != &report.ranks.front()) continue;
        groups[key_of(name, rank)].push_back({rank.rank, &report.path, &operations});
      }
    }
  }
  for (auto& [key, members] : groups) {
    std::sort(members.begin(), members.end(),
              [](const Member& a, const Member& b) { return a.rank < b.rank; });
    compare(std::get<0>(key), members, &merged);
  }
  return merged;
}

std::string merged_text(const MergedOperations& merged) {
  if (!merged.difference) {
    return "no operation differs: " + counted(merged.compared) + " of " + counted(merged.ranks) +
           " ranks compared";
  }
  const Difference& difference = *merged.difference;
  std::string text = "first operation that differs: group " + difference.group + ", sequence " +
                     std::to_string(difference.sequence);
  for (const DifferingRank& one : difference.ranks) {
    text += "\n  rank " + std::to_string(one.rank) + "  ";
    if (one.operation) {
      text += one.operation->name + "  " + counted(one.operation->bytes) + " bytes  " +
              (one.operation->is_done ? "done" : "open");
    } else {
      text += "has not come there";
    }
    text += "  (" + one.path + ")";
  }
  return text;
}

std::string merged_json(const MergedOperations& merged) {
  JsonLine line;
  line.number("ranks", merged.ranks).number("compared", merged.compared);
  if (!merged.difference) return line.raw("difference", "null").done();
  std::string rows;
  for (const DifferingRank& one : merged.difference->ranks) {
    JsonLine row;
    row.number("rank", one.rank).text("path", one.path);
    if (one.operation) {
      row.text("operation", one.operation->name)
          .number("bytes", one.operation->bytes)
          .text("state", one.operation->is_done ? "done" : "open");
    } else {
      row.raw("operation", "null");
    }
    if (!rows.empty()) rows += ',';
    rows += row.done();
  }
  return line
      .raw("difference", JsonLine()
                             .text("group", merged.difference->group)
                             .number("sequence", merged.difference->sequence)
                             .raw("ranks", "[" + rows + "]")
                             .done())
      .done();
}

}  // namespace plait::cli

#include "bindings/cli/operations_merge.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "bindings/cli/failure.h"

namespace plait::cli {
namespace {

using ReportJson = nlohmann::json;

ReportJson record(const std::string& name, int64_t sequence, int64_t bytes = 64, int64_t begin = 0,
                  const char* state = "done") {
  return {{"number", 0},       {"operation", name},   {"sequence", sequence}, {"bytes", bytes},
          {"begin_ns", begin}, {"end_ns", begin + 1}, {"state", state}};
}

/// Of t 2, p 2: two processes of two ranks each, a process for each stage.
ReportJson rank(int64_t number, const ReportJson& operations) {
  return {{"rank", number},
          {"tensor", number % 2},
          {"pipeline", number / 2},
          {"data", 0},
          {"operations", operations}};
}

OperationsReport report(const std::string& path, const std::vector<ReportJson>& ranks) {
  return read_operations(path, ReportJson{{"ranks", ranks}}.dump());
}

TEST_CASE("reports that agree have no difference") {
  const ReportJson same = {record("forward 0 0", 0), record("tensor all_reduce", 0),
                           record("pipeline send", 0), record("pipeline all_gather", 0)};
  const ReportJson other = {record("tensor all_gather", 0, 128), record("pipeline receive", 0),
                            record("pipeline all_gather", 0)};
  const MergedOperations merged = merge_operations(
      {report("a", {rank(0, same), rank(1, same)}), report("b", {rank(2, other), rank(3, other)})});
  CHECK(!merged.difference);
  CHECK(merged.ranks == 4);
  CHECK(merged.compared == 4);  // two tensor groups, two pipeline groups
  CHECK(merged_text(merged) == "no operation differs: 4 of 4 ranks compared");
  CHECK(ReportJson::parse(merged_json(merged))["difference"].is_null());
}

TEST_CASE("the first operation that differs is named with both sides") {
  const auto kind = GENERATE(as<std::string>{}, "name", "bytes");
  const std::string name = kind == "name" ? "data all_gather" : "data reduce_scatter";
  const int64_t bytes = kind == "bytes" ? 32 : 64;
  const auto of = [](int64_t number, const ReportJson& operations) {
    return ReportJson{{"rank", number},
                      {"tensor", 0},
                      {"pipeline", 0},
                      {"data", number},
                      {"operations", operations}};
  };
  const OperationsReport first =
      report("a", {of(0, {record("data all_reduce", 3, 64, 10),
                          record("data reduce_scatter", 4, 64, 20, "open")})});
  const OperationsReport second = report(
      "b", {of(1, {record("data all_reduce", 3, 64, 11), record(name, 4, bytes, 21, "open")})});
  const MergedOperations merged = merge_operations({first, second});
  REQUIRE(merged.difference);
  CHECK(merged.difference->group == "data");
  CHECK(merged.difference->sequence == 4);
  REQUIRE(merged.difference->ranks.size() == 2);
  CHECK(merged.difference->ranks[1].path == "b");
  CHECK(merged.difference->ranks[1].operation->bytes == bytes);
  const std::string text = merged_text(merged);
  CHECK(text.rfind("first operation that differs: group data, sequence 4\n", 0) == 0);
  CHECK(text.find("rank 1  " + name) != std::string::npos);
  const ReportJson json = ReportJson::parse(merged_json(merged))["difference"];
  CHECK(json["sequence"] == 4);
  CHECK(json["ranks"][0]["operation"] == "data reduce_scatter");
  CHECK(json["ranks"][0]["state"] == "open");
}

TEST_CASE("of several groups the difference that began first counts") {
  const auto operations = [](const char* name, int64_t begin) {
    return ReportJson::array({record(name, 0, 64, begin, "open")});
  };
  const MergedOperations merged =
      merge_operations({report("a", {rank(0, operations("tensor all_reduce", 50)),
                                     rank(2, operations("tensor all_reduce", 40))}),
                        report("b", {rank(1, operations("tensor barrier", 50)),
                                     rank(3, operations("tensor barrier", 40))})});
  REQUIRE(merged.difference);
  CHECK(merged.difference->ranks[0].rank == 2);
  CHECK(merged.difference->ranks[1].rank == 3);
}

TEST_CASE("a rank that never came is named") {
  const OperationsReport waits = report(
      "a",
      {rank(0, {record("tensor all_reduce", 0), record("tensor all_reduce", 1, 64, 5, "open")})});
  const OperationsReport late =
      report("b", {rank(1, ReportJson::array({record("tensor all_reduce", 0)}))});
  const MergedOperations merged = merge_operations({waits, late});
  REQUIRE(merged.difference);
  CHECK(merged.difference->sequence == 1);
  CHECK(!merged.difference->ranks[1].operation);
  CHECK(merged_text(merged).find("rank 1  has not come there") != std::string::npos);
  CHECK(ReportJson::parse(merged_json(merged))["difference"]["ranks"][1]["operation"].is_null());
  // What was over when the other report was taken is none.
  const OperationsReport ahead =
      report("a", {rank(0, {record("tensor all_reduce", 0), record("tensor all_reduce", 1)})});
  CHECK(!merge_operations({ahead, late}).difference);
}

TEST_CASE("records that one rank has lost already are not compared") {
  const OperationsReport late =
      report("a", {rank(0, ReportJson::array({record("tensor barrier", 7)}))});
  const OperationsReport early = report(
      "b", {rank(1, {record("tensor all_reduce", 6, 64, 0, "open"), record("tensor barrier", 7)})});
  const MergedOperations merged = merge_operations({late, early});
  CHECK(!merged.difference);
  CHECK(merged.compared == 1);
}

TEST_CASE("what is no report is refused by name") {
  const auto code = [](const std::string& text) {
    try {
      read_operations("here", text);
    } catch (const Failure& failure) {
      CHECK(failure.message().find("path=here") != std::string::npos);
      return failure.code();
    }
    return int32_t{PLAIT_OK};
  };
  CHECK(code("no json") == PLAIT_DATA_LOSS);
  CHECK(code("{}") == PLAIT_DATA_LOSS);
  CHECK(code("[]") == PLAIT_DATA_LOSS);
  CHECK(code(R"({"ranks":[{"rank":"x"}]})") == PLAIT_DATA_LOSS);
  CHECK(code(R"({"ranks":3})") == PLAIT_DATA_LOSS);
  CHECK(code(R"({"ranks":[]})") == PLAIT_OK);
  const OperationsReport one = report("a", {rank(0, ReportJson::array())});
  CHECK_THROWS_AS(merge_operations({one, one}), Failure);
  CHECK(!merge_operations({one}).difference);
}

}  // namespace
}  // namespace plait::cli

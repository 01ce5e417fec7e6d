// Every file of the hostile corpus ends in its word.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "checkpoint/format/trailer.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/hostile_corpus.h"

namespace plait {
namespace {

using Kind = HostileFile::Kind;

TEST_CASE("each of more than 200 hostile files is refused with its word, and where it is wrong") {
  std::set<std::pair<Kind, std::string>> distinct;
  std::map<Kind, int> counts;
  for (const HostileFile& file : hostile_files()) {
    INFO(static_cast<int>(file.kind) << " " << file.name);
    require_error([&] { read_hostile(file); }, file.word, file.parts);
    CHECK(distinct.emplace(file.kind, file.bytes).second);
    ++counts[file.kind];
  }
  CHECK(counts[Kind::kManifest] >= 130);
  CHECK(counts[Kind::kIndex] >= 50);
  CHECK(counts[Kind::kShardHeader] >= 15);
  CHECK(counts[Kind::kSafetensors] >= 55);
  CHECK(distinct.size() >= 250);
}

// Hidden: tests/support/run_tests.sh runs it before the fuzz targets, with the directory of their
// corpora. The first byte of an input says what the others are (see the targets).
TEST_CASE("hostile files as seeds of the fuzz targets", "[.seeds]") {
  const char* corpora = std::getenv("PLAIT_FUZZ_CORPORA");
  REQUIRE(corpora != nullptr);
  constexpr size_t kMostBytes = 4096;  // what a target's mutations still get through in time
  int number = 0;
  for (const HostileFile& file : hostile_files()) {
    const char* target = file.kind == Kind::kManifest      ? "fuzz_manifest"
                         : file.kind == Kind::kIndex       ? "fuzz_shard_index"
                         : file.kind == Kind::kSafetensors ? "fuzz_safetensors"
                                                           : nullptr;
    if (target == nullptr || file.bytes.size() > kMostBytes) continue;
    const std::filesystem::path directory = std::filesystem::path(corpora) / target;
    std::filesystem::create_directories(directory);
    std::ofstream out(directory / ("hostile-" + std::to_string(number++)), std::ios::binary);
    if (file.kind == Kind::kSafetensors) {
      out << '\0' << file.bytes;  // a whole file
    } else {
      out << '\1' << open_sealed(file.bytes, file.name).payload;  // gets a right trailer
    }
    REQUIRE(out.flush().good());
  }
  CHECK(number >= 200);
}

}  // namespace
}  // namespace plait

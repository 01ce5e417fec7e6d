// Shards of all ranks of a world: their names, and whether they make up the state.
#include <catch2/catch.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/store/shard_writer.h"
#include "kernels/base/error.h"
#include "tests/checkpoint/store_root_fixture.h"
#include "tests/support/sim_files.h"

namespace plait {
namespace {

using test::SmallState;
using test::write_shards;

TEST_CASE("worlds of 1 to 64 ranks name their files by rank, and owners of nothing have none") {
  for (int64_t world = 1; world <= 64; ++world) {
    SimFiles files;
    files.make_directory("/step");
    const SmallState state(world, world);
    const Manifest manifest = write_shards(files, "/step", state);
    std::vector<std::string> want;
    size_t owners = 0;
    for (int64_t rank = 0; rank < world; ++rank) {
      if (state.sources(rank).empty()) continue;
      const std::string digits = std::to_string(rank);
      std::string stem = "s";
      stem.append(5 - digits.size(), '0') += digits;
      want.push_back(stem + ".idx");
      want.push_back(stem + ".plt");
      REQUIRE(manifest.files.at(owners).ordinal == static_cast<uint32_t>(rank));
      CHECK(manifest.files[owners].data == static_cast<uint32_t>(rank));
      ++owners;
    }
    CHECK(manifest.files.size() == owners);
    CHECK(files.list("/step") == want);
  }
  CHECK(shard_name(123456) == "s123456.plt");
}

/// Records of a world of three, without files.
std::vector<ShardRecord> three_records(const SmallState& state) {
  SimFiles files;
  files.make_directory("/step");
  std::vector<ShardRecord> records;
  for (int64_t rank = 0; rank < 3; ++rank) {
    ShardWriter writer(files, "/step", state.place(rank), 1, state.shapes(), state.sources(rank));
    writer.write_slices(nullptr, nullptr);
    ShardRecord record;
    record.file.ordinal = static_cast<uint32_t>(rank);
    record.slices = writer.slices();
    records.push_back(record);
  }
  return records;
}

TEST_CASE("shards that make up the state are covered, whatever the number of ranks") {
  Manifest one, three;
  for (const int64_t ranks : {1, 3}) {
    SimFiles files;
    files.make_directory("/step");
    (ranks == 1 ? one : three) = write_shards(files, "/step", SmallState(9, ranks));
  }
  REQUIRE(one.tensors.size() == 3);
  for (size_t t = 0; t < one.tensors.size(); ++t) {
    for (size_t s = 0; s < one.tensors[t].states.size(); ++s) {
      CHECK(one.tensors[t].states[s].digest != 0);
      CHECK(one.tensors[t].states[s].digest == three.tensors[t].states[s].digest);
      CHECK(three.tensors[t].states[s].elements == three.tensors[t].shape.elements());
    }
  }
}

TEST_CASE("shards that do not make up the state are refused with tensor, kind and box") {
  const SmallState state(5, 3);
  const std::vector<ShardRecord> good = three_records(state);
  const auto refused = [&](const std::function<void(std::vector<ShardRecord>*)>& spoil_records) {
    std::vector<ShardRecord> records = good;
    spoil_records(&records);
    Manifest manifest = state.manifest();
    try {
      cover(&manifest, records);
    } catch (const Error& error) {
      CHECK(error.word() == "invariant");
      CHECK(manifest.files.empty());
      return error.message();
    }
    return std::string();
  };
  using Records = std::vector<ShardRecord>;
  using Catch::Matchers::Contains;
  CHECK(refused([](Records*) {}) == "");
  // Rank 1 has [1:2,4:7] … [3:4,0:2] of tensor a.
  CHECK_THAT(refused([](Records* r) { r->at(1).slices.erase(r->at(1).slices.begin()); }),
             Contains("no slice") && Contains("tensor=a") && Contains("kind=master") &&
                 Contains("box=[1:2,4:5]"));
  CHECK_THAT(refused([](Records* r) { r->at(0).slices.push_back(r->at(2).slices.back()); }),
             Contains("two slices") && Contains("tensor=c") && Contains("kind=extra") &&
                 Contains("box=[7:11]"));
  CHECK_THAT(refused([](Records* r) { r->erase(r->begin() + 1); }), Contains("no slice"));
  CHECK_THAT(refused([](Records* r) { r->at(2).file.ordinal = 1; }), Contains("one ordinal"));
  CHECK_THAT(refused([](Records* r) { r->at(0).slices[0].dtype = DType::kInt32; }),
             Contains("another dtype"));
  CHECK_THAT(refused([](Records* r) { r->at(0).slices[0].kind = StateKind::kParam; }),
             Contains("kind that its tensor lacks"));
  CHECK_THAT(refused([](Records* r) { r->at(0).slices[0].tensor = 3; }), Contains("no tensor"));
  CHECK_THAT(refused([](Records* r) { r->at(0).slices[0].box.first[0] = 5; }),
             Contains("does not lie in its tensor"));
  CHECK_THAT(refused([](Records* r) { r->at(0).slices[0].bytes -= 4; }),
             Contains("another length"));
}

}  // namespace
}  // namespace plait

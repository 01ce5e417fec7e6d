// Any cut into any other, and back to the same bytes.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>

#include "tests/checkpoint/store_fixture.h"
#include "tests/support/memory_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

constexpr DType kTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16,
                            DType::kInt32,   DType::kInt64,    DType::kUInt8};

int64_t draw_between(std::mt19937_64* random, int64_t first, int64_t last) {
  return first + static_cast<int64_t>((*random)() % static_cast<uint64_t>(last - first + 1));
}

/// 1 to 4 dims, each from 1 to twice the ranks, and at most 4096 elements.
Shape random_shape(int64_t ranks, std::mt19937_64* random) {
  std::vector<int64_t> sizes(static_cast<size_t>(draw_between(random, 1, 4)));
  int64_t room = 4096;
  for (int64_t& size : sizes) {
    size = std::min(draw_between(random, 1, 2 * ranks), room);
    room /= size;
  }
  return store_shape(sizes);
}

Manifest random_manifest(int64_t ranks, std::mt19937_64* random) {
  std::vector<SavedTensor> tensors;
  for (int64_t t = draw_between(random, 1, 3); t > 0; --t) {
    std::vector<std::pair<StateKind, DType>> states;
    for (int kind = 1; kind <= 5; ++kind) {
      if (draw_between(random, 0, 2) != 0) continue;
      states.emplace_back(static_cast<StateKind>(kind), kTypes[draw_between(random, 0, 5)]);
    }
    if (states.empty()) states.emplace_back(StateKind::kParam, kTypes[draw_between(random, 0, 5)]);
    const std::string name = "t" + std::to_string(tensors.size());
    tensors.push_back(store_tensor(name, random_shape(ranks, random), states));
  }
  return store_manifest(std::move(tensors), ranks);
}

/// The same state in a layout of as many ranks.
Manifest with_ranks(Manifest manifest, int64_t ranks) {
  manifest.layout.data = ranks;
  for (SavedTensor& tensor : manifest.tensors) {
    for (TensorState& state : tensor.states) state.digest = 0;
  }
  return manifest;
}

/// Reads `from` in the cut of `pieces` and writes what came into `to`.
Manifest save_again(Files& files, const std::string& from, const std::string& to, int64_t ranks,
                    std::vector<StorePiece> pieces) {
  const auto reader = StepReader::open(files, from);
  std::vector<ReadTarget> targets = store_targets(&pieces);
  reader->read(targets);
  require_values(reader->manifest(), pieces);
  return write_store(files, to, with_ranks(reader->manifest(), ranks), pieces);
}

/// Files of two steps in memory, by their names within the step.
void require_equal_files(MemoryFiles& files, const std::string& a, const std::string& b) {
  int64_t count = 0;
  for (const std::string& path : files.names()) {
    if (path.rfind(a + "/", 0) != 0) continue;
    const std::string twin = b + path.substr(a.size());
    INFO(path << " and " << twin);
    REQUIRE(files.exists(twin));
    REQUIRE(files.at(path).bytes == files.at(twin).bytes);
    ++count;
  }
  const auto names = files.names();
  REQUIRE(count == std::count_if(names.begin(), names.end(), [&](const std::string& path) {
            return path.rfind(b + "/", 0) == 0;
          }));
  REQUIRE(count >= 3);
}

TEST_CASE("random shapes and cuts: every element comes from where it belongs") {
  const int cases = test::kIsSanitized ? 300 : 10'000;
  for (int seed = 0; seed < cases; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed));
    const int64_t ranks = draw_between(&random, 1, 8), others = draw_between(&random, 1, 8);
    MemoryFiles files;
    const Manifest manifest = random_manifest(ranks, &random);
    write_store(files, "step", manifest, store_pieces(manifest, ranks, &random));
    const auto reader = StepReader::open(files, "step");
    require_readable(*reader, store_pieces(manifest, others, &random));
  }
}

TEST_CASE("saved, loaded in another cut, saved, loaded back and saved is byte-equal") {
  const int cases = test::kIsSanitized ? 30 : 600;
  for (int seed = 0; seed < cases; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random(static_cast<uint64_t>(seed) + 77'000);
    const int64_t ranks = draw_between(&random, 1, 8), others = draw_between(&random, 1, 8);
    MemoryFiles files;
    const Manifest manifest = random_manifest(ranks, &random);
    const std::vector<StorePiece> cut = store_pieces(manifest, ranks, &random);
    const Manifest first = write_store(files, "first", manifest, cut);
    const Manifest second =
        save_again(files, "first", "second", others, store_pieces(manifest, others, &random));
    REQUIRE(second.state_digest == first.state_digest);
    REQUIRE((second.save_id == first.save_id) == (ranks == others));
    const Manifest third = save_again(files, "second", "third", ranks, cut);
    REQUIRE(third.save_id == first.save_id);
    require_equal_files(files, "first", "third");
  }
}

TEST_CASE("prime vocabularies over growing and shrinking worlds") {
  const Manifest manifest = store_manifest(
      {store_tensor(
           "embedding", {251, 24},
           {{StateKind::kMaster, DType::kFloat32}, {StateKind::kMoment1, DType::kBFloat16}}),
       store_tensor("norm", {7}, {{StateKind::kMaster, DType::kFloat32}})},
      1);
  MemoryFiles files;
  // Rows over padded worlds: the last ranks hold little or nothing.
  const auto by_rows = [&](int64_t ranks) {
    std::vector<StorePiece> pieces;
    for (uint32_t t = 0; t < 2; ++t) {
      const SavedTensor& tensor = manifest.tensors[t];
      const int64_t rows = (tensor.shape[0] + ranks - 1) / ranks;
      for (const TensorState& state : tensor.states) {
        for (int64_t r = 0; r < ranks; ++r) {
          Box box = Box::whole(tensor.shape);
          box.first[0] = std::min(r * rows, tensor.shape[0]);
          box.size[0] = std::min(rows, tensor.shape[0] - box.first[0]);
          pieces.push_back({static_cast<uint32_t>(r), t, state.kind, state.dtype, box, ""});
        }
      }
    }
    return pieces;
  };
  write_store(files, "1", manifest, store_whole(manifest));
  std::string last = "1";
  for (const int64_t ranks : {2, 3, 8, 64, 7, 300, 4, 1}) {
    const std::string next = last + "-" + std::to_string(ranks);
    save_again(files, last, next, ranks, by_rows(ranks));
    CHECK(StepReader::open(files, next)->verify(false).empty());
    last = next;
  }
  require_equal_files(files, "1", last);
}

}  // namespace
}  // namespace plait

// How much memory loads, saves and refusals take: every operator new of the program is counted, so
// this test stands alone.
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store/boxes.h"
#include "kernels/base/error.h"
#include "tests/checkpoint/hostile_corpus.h"
#include "tests/checkpoint/store_fixture.h"

namespace {

std::atomic<int64_t> live{0}, most{0};

void* counted(size_t bytes) {
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  const auto size = static_cast<int64_t>(malloc_usable_size(memory));
  const int64_t now = live.fetch_add(size) + size;
  for (int64_t seen = most.load(); seen < now && !most.compare_exchange_weak(seen, now);) {
  }
  return memory;
}

void uncounted(void* memory) {
  live.fetch_sub(static_cast<int64_t>(malloc_usable_size(memory)));
  std::free(memory);
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { uncounted(memory); }
void operator delete[](void* memory) noexcept { uncounted(memory); }
void operator delete(void* memory, size_t) noexcept { uncounted(memory); }
void operator delete[](void* memory, size_t) noexcept { uncounted(memory); }

namespace plait {
namespace {

constexpr int64_t kAllowed = int64_t{64} << 20;
constexpr double kMiB = 1 << 20;

/// Bytes that were live at most while `action` ran, above those before it.
template <class Action>
int64_t most_extra(Action action) {
  const int64_t before = live;
  most = before;
  action();
  return most - before;
}

TEST_CASE("the counter sees what is taken and given back") {
  std::vector<char> kept;
  CHECK(most_extra([&] { kept.resize(1 << 22); }) >= 1 << 22);
  CHECK(most_extra([&] { std::vector<char>().swap(kept); }) == 0);
  CHECK(most_extra([] { std::vector<char>(1 << 20).resize(0); }) >= 1 << 20);
}

TEST_CASE("a hostile file takes no more than itself and 64 MiB") {
  int64_t largest = 0;
  std::string name;
  for (const HostileFile& file : hostile_files()) {
    INFO(file.name);
    HostileFile read = file;
    const int64_t extra =
        most_extra([&] { CHECK_THROWS_AS(read_hostile(std::move(read)), Error); });
    CHECK(extra <= static_cast<int64_t>(file.bytes.size()) + kAllowed);
    if (extra <= largest) continue;
    largest = extra;
    name = file.name + ", " + std::to_string(file.bytes.size()) + " bytes";
  }
  std::printf("| memory of a hostile file, at most | %.1f MiB | %s\n",
              static_cast<double>(largest) / kMiB, name.c_str());
}

using Cut = std::vector<Box>;  // by rank

Cut columns(const Shape& shape, int64_t ranks) {
  Cut cut(static_cast<size_t>(ranks), Box::whole(shape));
  for (int64_t rank = 0; rank < ranks; ++rank) {
    Box& box = cut[static_cast<size_t>(rank)];
    box.first[1] = rank * shape[1] / ranks;
    box.size[1] = (rank + 1) * shape[1] / ranks - box.first[1];
  }
  return cut;
}

/// What a rank loads, and the digests of the boxes.
uint64_t load_boxes(const StepReader& reader, const std::vector<Box>& boxes, int64_t* extra) {
  std::vector<StorePiece> pieces;
  for (const Box& box : boxes) {
    pieces.push_back({0, 0, StateKind::kMaster, DType::kFloat32, box, ""});
  }
  std::vector<ReadTarget> targets = store_targets(&pieces);
  *extra = std::max(*extra, most_extra([&] { reader.read(targets); }));
  uint64_t digest = 0;
  for (const ReadTarget& target : targets) digest += target.digest;
  return digest;
}

TEST_CASE("loads into other cuts and saves take at most 64 MiB a rank beside their values") {
  const Shape shape{4096, 8192};  // 128 MiB
  Manifest manifest =
      store_manifest({store_tensor("x", shape, {{StateKind::kMaster, DType::kFloat32}})}, 1);
  MemoryFiles files;
  {
    const std::vector<StorePiece> pieces = store_whole(manifest);
    const int64_t extra =
        most_extra([&] { manifest = write_store(files, "step", manifest, pieces); });
    const auto held = static_cast<int64_t>(files.at("step/s00000.plt").bytes.size());
    std::printf("| save of 128 MiB | %.1f MiB beside values and file\n",
                static_cast<double>(extra - held) / kMiB);
    CHECK(extra - held <= kAllowed);
  }
  int64_t extra = 0;
  std::unique_ptr<StepReader> reader;
  extra = most_extra([&] { reader = StepReader::open(files, "step"); });
  const uint64_t want = manifest.tensors[0].states[0].digest;
  for (const int64_t ranks : {1, 3, 8}) {
    uint64_t by_columns = 0, by_ranges = 0;
    for (const Box& box : columns(shape, ranks)) by_columns += load_boxes(*reader, {box}, &extra);
    CHECK(by_columns == want);
    for (int64_t rank = 0; rank < ranks; ++rank) {  // as ZeRO cuts
      const int64_t first = rank * shape.elements() / ranks;
      const int64_t count = (rank + 1) * shape.elements() / ranks - first;
      by_ranges += load_boxes(*reader, cut_range(Box::whole(shape), first, count), &extra);
    }
    CHECK(by_ranges == want);
  }
  std::printf("| load of 128 MiB in other cuts | %.1f MiB beside the values\n",
              static_cast<double>(extra) / kMiB);
  CHECK(extra <= kAllowed);
}

}  // namespace
}  // namespace plait

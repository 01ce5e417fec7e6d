// Steps that are well: what is read back, in which cut and type, and at what cost.
#include <malloc.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <thread>

#include "checkpoint/format/digest.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/store/boxes.h"
#include "checkpoint/store/step_pass.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_fixture.h"
#include "tests/support/memory_files.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

using test::kIsSanitized;

/// Tells of every read that reaches the files below.
class WatchedFiles final : public Files {
 public:
  using OnRead = std::function<void(const std::string& path, int64_t bytes, int64_t offset)>;
  WatchedFiles(Files& inner, OnRead on_read) : inner_(inner), on_read_(std::move(on_read)) {}

  std::unique_ptr<File> open_read(const std::string& path, Links links) override {
    return std::make_unique<WatchedFile>(*this, inner_.open_read(path, links));
  }
  std::unique_ptr<File> create(const std::string& path, bool is_new) override {
    return inner_.create(path, is_new);
  }
  std::unique_ptr<File> create_private(const std::string& path) override {
    return inner_.create_private(path);
  }
  std::unique_ptr<File> open_or_create(const std::string& path) override {
    return inner_.open_or_create(path);
  }
  bool exists(const std::string& path) override { return inner_.exists(path); }
  FileInfo stat(const std::string& path) override { return inner_.stat(path); }
  std::vector<std::string> list(const std::string& path) override { return inner_.list(path); }
  void make_directory(const std::string& path) override { inner_.make_directory(path); }
  void make_private_directory(const std::string& path) override {
    inner_.make_private_directory(path);
  }
  void sync_directory(const std::string& path) override { inner_.sync_directory(path); }
  void rename(const std::string& a, const std::string& b) override { inner_.rename(a, b); }
  void rename_noreplace(const std::string& a, const std::string& b) override {
    inner_.rename_noreplace(a, b);
  }
  void exchange(const std::string& a, const std::string& b) override { inner_.exchange(a, b); }
  void unlink(const std::string& path) override { inner_.unlink(path); }
  void remove_directory(const std::string& path) override { inner_.remove_directory(path); }
  int64_t free_bytes(const std::string& path) override { return inner_.free_bytes(path); }

 private:
  class WatchedFile final : public File {
   public:
    WatchedFile(WatchedFiles& owner, std::unique_ptr<File> inner)
        : owner_(owner), inner_(std::move(inner)) {}
    int64_t pread(void* data, int64_t bytes, int64_t offset) override {
      owner_.on_read_(path(), bytes, offset);
      return inner_->pread(data, bytes, offset);
    }
    void pwrite(const void* data, int64_t bytes, int64_t offset) override {
      inner_->pwrite(data, bytes, offset);
    }
    void sync() override { inner_->sync(); }
    void sync_data() override { inner_->sync_data(); }
    void allocate(int64_t bytes) override { inner_->allocate(bytes); }
    void close() override { inner_->close(); }
    bool try_lock_shared() override { return inner_->try_lock_shared(); }
    bool try_lock_exclusive() override { return inner_->try_lock_exclusive(); }
    int64_t size() const override { return inner_->size(); }
    const std::string& path() const override { return inner_->path(); }

   private:
    WatchedFiles& owner_;
    std::unique_ptr<File> inner_;
  };

  Files& inner_;
  OnRead on_read_;
};

Box box_of(const std::vector<int64_t>& first, const std::vector<int64_t>& size) {
  Box box;
  box.dims = static_cast<int>(first.size());
  std::copy(first.begin(), first.end(), box.first.begin());
  std::copy(size.begin(), size.end(), box.size.begin());
  return box;
}

Box random_box(const Shape& shape, std::mt19937_64* random) {
  Box box = Box::whole(shape);
  for (int d = 0; d < box.dims; ++d) {
    const int64_t a = static_cast<int64_t>((*random)() % static_cast<uint64_t>(shape[d] + 1));
    const int64_t b = static_cast<int64_t>((*random)() % static_cast<uint64_t>(shape[d] + 1));
    box.first[d] = std::min(a, b);
    box.size[d] = std::max(a, b) - box.first[d];
  }
  return box;
}

/// The bytes of the heap that are in use.
int64_t heap_bytes() {
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
}

TEST_CASE("a step gives back its fields and every tensor whole") {
  for (const int64_t ranks : {1, 2, 5, 16}) {
    MemoryFiles files;
    std::mt19937_64 random(static_cast<uint64_t>(ranks));
    const Manifest manifest = store_manifest(store_tensors(), ranks);
    const std::vector<StorePiece> pieces = store_pieces(manifest, ranks, &random);
    const Manifest written = write_store(files, "step", manifest, pieces, 9);
    const auto reader = StepReader::open(files, "step");
    CHECK(reader->sequence() == 9);
    CHECK(reader->directory() == "step");
    CHECK(reader->manifest().save_id == written.save_id);
    CHECK(reader->manifest().progress.samples == 28);
    CHECK(reader->indexes().size() == written.files.size());
    CHECK(reader->manifest().find("c.cube") == 2);
    for (size_t t = 0; t < written.tensors.size(); ++t) {
      const SavedTensor& tensor = written.tensors[t];
      for (const TensorState& state : tensor.states) {
        std::string bytes(static_cast<size_t>(state.elements * dtype_size(state.dtype)), '\xA5');
        reader->read_whole(static_cast<int64_t>(t), state.kind, bytes.data());
        CHECK(bytes == store_values(static_cast<uint32_t>(t), state.kind, state.dtype,
                                    Box::whole(tensor.shape), tensor.shape));
      }
    }
    require_readable(*reader, pieces);
    CHECK(reader->verify(false).empty());
    // In memory every path is listed, so that full verification is tested in a real directory.
  }
}

TEST_CASE("any boxes of any tensors can be read, overlapping and empty ones too") {
  MemoryFiles files;
  std::mt19937_64 random(3);
  const Manifest manifest = store_manifest(store_tensors(), 6);
  write_store(files, "step", manifest, store_pieces(manifest, 6, &random));
  const auto reader = StepReader::open(files, "step");
  for (int round = 0; round < (kIsSanitized ? 20 : 300); ++round) {
    std::vector<StorePiece> wanted;
    for (int i = 0; i < 8; ++i) {
      const auto t = static_cast<uint32_t>(random() % manifest.tensors.size());
      const std::vector<TensorState>& states = manifest.tensors[t].states;
      const TensorState& state = states[random() % states.size()];
      wanted.push_back(
          {0, t, state.kind, state.dtype, random_box(manifest.tensors[t].shape, &random), ""});
    }
    require_readable(*reader, wanted);
  }
}

TEST_CASE("16-bit values widen exactly, and digests are those of the stored bits") {
  MemoryFiles files;
  const auto kind = StateKind::kMoment1;
  Manifest manifest =
      store_manifest({store_tensor("brains", {256, 256}, {{kind, DType::kBFloat16}}),
                      store_tensor("halves", {65536}, {{kind, DType::kFloat16}})},
                     2);
  std::vector<StorePiece> pieces;
  for (uint32_t t = 0; t < 2; ++t) {
    const Shape& shape = manifest.tensors[t].shape;
    std::string bytes(65536 * 2, '\0');  // every pattern
    for (size_t i = 0; i < 65536; ++i) {
      const auto bits = static_cast<uint16_t>(i);
      std::memcpy(bytes.data() + 2 * i, &bits, 2);
    }
    pieces.push_back({t, t, kind, manifest.tensors[t].states[0].dtype, Box::whole(shape), bytes});
  }
  const Manifest written = write_store(files, "step", manifest, pieces);
  const auto reader = StepReader::open(files, "step");
  std::vector<std::vector<float>> wide(2, std::vector<float>(65536));
  std::vector<ReadTarget> targets;
  for (uint32_t t = 0; t < 2; ++t) {
    targets.push_back({t, kind, pieces[t].box, DType::kFloat32, wide[t].data(), 0});
  }
  reader->read(targets);
  for (uint32_t t = 0; t < 2; ++t) CHECK(targets[t].digest == written.tensors[t].states[0].digest);
  int64_t wrong = 0;
  for (size_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const float brain = to_float(BFloat16{bits}), half = to_float(Float16{bits});
    wrong += std::memcmp(&brain, &wide[0][i], 4) != 0;
    wrong += std::memcmp(&half, &wide[1][i], 4) != 0;
  }
  CHECK(wrong == 0);
}

TEST_CASE("a target without data is proved all the same") {
  MemoryFiles files;
  std::mt19937_64 random(4);
  const Manifest manifest = store_manifest(store_tensors(), 3);
  const Manifest written = write_store(files, "step", manifest, store_pieces(manifest, 3, &random));
  const auto reader = StepReader::open(files, "step");
  std::vector<ReadTarget> targets;
  int64_t bytes = 0;
  for (size_t t = 0; t < written.tensors.size(); ++t) {
    for (const TensorState& state : written.tensors[t].states) {
      targets.push_back({static_cast<int64_t>(t), state.kind, Box::whole(written.tensors[t].shape),
                         state.dtype, nullptr, 99});
      bytes += state.elements * dtype_size(state.dtype);
    }
  }
  std::atomic<int64_t> done{5};
  reader->read(targets, &done);
  CHECK(done == bytes + 5);
  CHECK(reader->data_bytes() == bytes);
  for (const ReadTarget& target : targets) {
    CHECK(target.digest == reader->manifest().state(target.tensor, target.kind)->digest);
  }
}

TEST_CASE("what no target meets is not read") {
  MemoryFiles memory;
  std::mt19937_64 random(5);
  const Manifest manifest = store_manifest(store_tensors(), 4);
  write_store(memory, "step", manifest, store_pieces(manifest, 4, &random));
  std::vector<std::pair<std::string, FileRange>> reads;
  WatchedFiles files(memory, [&](const std::string& path, int64_t bytes, int64_t offset) {
    reads.push_back({path, {offset, offset + bytes}});
  });
  const auto reader = StepReader::open(files, "step");
  reads.clear();
  std::vector<StorePiece> wanted = {
      {0, 1, StateKind::kMaster, DType::kFloat32, box_of({2, 3}, {3, 5}), ""}};
  require_readable(*reader, wanted);
  REQUIRE(!reads.empty());
  for (size_t file = 0; file < reader->indexes().size(); ++file) {
    const std::string path = join_path("step", shard_name(reader->manifest().files[file].ordinal));
    for (const Slice& slice : reader->indexes()[file].slices) {
      const bool is_met = slice.tensor == 1 && slice.kind == StateKind::kMaster &&
                          intersect(slice.box, wanted[0].box).has_value();
      const bool is_read = std::any_of(reads.begin(), reads.end(), [&](const auto& read) {
        return read.first == path && read.second.begin < slice.position + slice.bytes &&
               read.second.end > slice.position;
      });
      CHECK(is_met == is_read);
    }
  }
}

TEST_CASE("columns of a large tensor come in few reads and little memory") {
  // 40 MiB in 5 chunks; rows of 12 bytes less than a divisor of a chunk, so that chunks cut them.
  const Shape shape{10'240, 1'021};
  MemoryFiles memory;
  const auto kind = StateKind::kMaster;
  const Manifest manifest =
      store_manifest({store_tensor("big", shape, {{kind, DType::kFloat32}})}, 1);
  write_store(memory, "step", manifest, store_whole(manifest));
  std::vector<FileRange> reads;
  int64_t before = 0, most = 0;
  WatchedFiles files(memory, [&](const std::string&, int64_t bytes, int64_t offset) {
    reads.push_back({offset, offset + bytes});
    most = std::max(most, heap_bytes() - before);
  });
  const auto reader = StepReader::open(files, "step");
  std::vector<StorePiece> columns;
  for (int64_t c = 0; c < 4; ++c) {
    columns.push_back(
        {0, 0, kind, DType::kFloat32, box_of({0, 255 * c}, {shape[0], c == 3 ? 256 : 255}), ""});
  }
  std::vector<ReadTarget> targets = store_targets(&columns);
  reads.clear();
  most = 0;
  before = heap_bytes();
  reader->read(targets);
  REQUIRE(reads.size() == 5);
  for (size_t i = 0; i < reads.size(); ++i) {
    CHECK(reads[i].end - reads[i].begin <= int64_t{8} << 20);
    CHECK((i == 0 || reads[i].begin == reads[i - 1].end));
  }
  CHECK(most < int64_t{16} << 20);
  require_values(manifest, columns);
}

TEST_CASE("a read that is cancelled ends, and the reader stays good") {
  MemoryFiles memory;
  std::mt19937_64 random(6);
  const Manifest manifest = store_manifest(store_tensors(), 4);
  const std::vector<StorePiece> pieces = store_pieces(manifest, 4, &random);
  write_store(memory, "step", manifest, pieces);
  std::atomic<bool> is_cancelled{false};
  int64_t reads = 0;
  WatchedFiles files(memory, [&](const std::string&, int64_t, int64_t) {
    if (--reads == 0) is_cancelled = true;
  });
  const auto reader = StepReader::open(files, "step");
  std::vector<StorePiece> wanted = pieces;
  std::vector<ReadTarget> targets = store_targets(&wanted);
  reads = 2;
  require_error([&] { reader->read(targets, nullptr, &is_cancelled); }, "cancelled");
  CHECK(reads == 0);
  require_error([&] { reader->verify(true, nullptr, &is_cancelled); }, "cancelled");
  require_readable(*reader, pieces);
}

TEST_CASE("several threads read from one reader at a time") {
  MemoryFiles files;
  std::mt19937_64 random(9);
  const Manifest manifest = store_manifest(store_tensors(), 4);
  write_store(files, "step", manifest, store_pieces(manifest, 4, &random));
  const auto reader = StepReader::open(files, "step");
  std::vector<std::vector<StorePiece>> wanted;
  for (int64_t i = 0; i < 4; ++i) wanted.push_back(store_pieces(manifest, i + 1, &random));
  std::vector<std::thread> threads;
  for (std::vector<StorePiece>& pieces : wanted) {
    threads.emplace_back([&] {
      std::vector<ReadTarget> targets = store_targets(&pieces);
      for (int round = 0; round < 20; ++round) reader->read(targets);
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<StorePiece>& pieces : wanted) require_values(manifest, pieces);
}

TEST_CASE("a read on several threads fills the same, whoever takes which part") {
  MemoryFiles files;
  std::mt19937_64 random(10);
  const Manifest manifest = store_manifest(store_tensors(), 5);
  write_store(files, "step", manifest, store_pieces(manifest, 5, &random));
  const auto reader = StepReader::open(files, "step");
  size_t most = 0;
  const ReadCrew crew = [&](size_t count, FunctionRef<void(size_t)> work) {
    most = std::max(most, count);
    std::vector<std::thread> threads;
    for (size_t i = count; i-- > 0;) threads.emplace_back([work, i] { work(i); });
    for (std::thread& thread : threads) thread.join();
  };
  std::vector<StorePiece> pieces = store_pieces(manifest, 3, &random);
  for (int round = 0; round < 20; ++round) {
    std::vector<ReadTarget> targets = store_targets(&pieces);
    reader->read(targets, nullptr, nullptr, &crew);
    require_values(manifest, pieces);
    std::vector<StorePiece> others = pieces;
    std::vector<ReadTarget> alone = store_targets(&others);
    reader->read(alone);
    for (size_t i = 0; i < targets.size(); ++i) CHECK(targets[i].digest == alone[i].digest);
  }
  CHECK(most == reader->indexes().size());
}

TEST_CASE("targets that a step does not have are refused before anything is read") {
  MemoryFiles memory;
  const Manifest manifest = store_manifest(store_tensors(), 1);
  write_store(memory, "step", manifest, store_whole(manifest));
  int64_t reads = 0;
  WatchedFiles files(memory, [&](const std::string&, int64_t, int64_t) { ++reads; });
  const auto reader = StepReader::open(files, "step");
  reads = 0;
  const auto refuse = [&](const ReadTarget& target, const std::string& part) {
    ReadTarget copy = target;
    require_error([&] { reader->read({&copy, 1}); }, "invariant", {part});
  };
  std::vector<char> data(4096);
  const auto f32 = DType::kFloat32;
  refuse({6, StateKind::kExtra, box_of({0}, {1}), f32, data.data(), 0}, "tensor=6");
  refuse({-1, StateKind::kExtra, box_of({0}, {1}), f32, data.data(), 0}, "tensor=-1");
  refuse({0, StateKind::kParam, box_of({0}, {1}), f32, data.data(), 0}, "kind=param");
  refuse({0, StateKind::kMaster, box_of({0, 0}, {1, 1}), f32, data.data(), 0}, "tensor=a.bias");
  refuse({0, StateKind::kMaster, box_of({7}, {7}), f32, data.data(), 0}, "box=[7:14]");
  refuse({0, StateKind::kMaster, box_of({-1}, {2}), f32, data.data(), 0}, "box=[-1:1]");
  refuse({0, StateKind::kMaster, box_of({0}, {INT64_MAX}), f32, data.data(), 0}, "a.bias");
  refuse({0, StateKind::kMaster, box_of({0}, {13}), DType::kBFloat16, data.data(), 0}, "float32");
  refuse({4, StateKind::kExtra, box_of({0}, {17}), f32, data.data(), 0}, "uint8");
  CHECK(reads == 0);
}

TEST_CASE("slices beyond 4 GiB of a sparse shard") {
  const TempDirectory directory;
  Files& files = posix_env().files;
  const auto kind = StateKind::kMaster;
  Manifest manifest = store_manifest({store_tensor("far", {1000}, {{kind, DType::kFloat32}}),
                                      store_tensor("near", {10}, {{kind, DType::kFloat32}})},
                                     1);
  write_store(files, directory.path(), manifest, store_whole(manifest));
  const auto near_by = StepReader::open(files, directory.path());
  // The same slices, moved: the index is written again for a file of more than 4 GiB.
  Manifest moved = near_by->manifest();
  ShardIndex index = near_by->indexes()[0];
  const std::string shard_path = directory.path(shard_name(0));
  const std::string bytes = read_file(files, shard_path, 1 << 20);
  const std::unique_ptr<File> shard = files.open_or_create(shard_path);
  const int64_t shift = (int64_t{1} << 32) + 4096;
  for (Slice& slice : index.slices) {
    const int64_t from = slice.position;
    slice.position += slice.tensor == 0 ? 4096 : shift;
    shard->pwrite(bytes.data() + from, slice.bytes, slice.position);
    moved.files[0].plt_bytes = slice.position + slice.bytes;
  }
  const std::string text = encode_index(index, &moved.files[0].idx_hash);
  moved.files[0].idx_bytes = static_cast<int64_t>(text.size());
  directory.write(index_name(0), text);
  directory.write("MANIFEST", encode_manifest(moved, 1));
  const auto reader = StepReader::open(files, directory.path());
  CHECK(reader->indexes()[0].slices[1].position > (int64_t{1} << 32));
  require_readable(*reader, store_whole(manifest));
}

}  // namespace
}  // namespace plait

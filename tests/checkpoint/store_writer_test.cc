// Shards: their bytes by hand, the order of their operations, their faults.
#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/digest.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "checkpoint/store/shard_writer.h"
#include "tests/support/fault_files.h"
#include "tests/support/sim_files.h"

namespace plait {
namespace {

constexpr Hash128 kSaveId{0x1122334455667788u, 0x99AABBCCDDEEFF00u};
constexpr int64_t kWriterStep = 1234;

std::string whole_file(Files& files, const std::string& path) {
  return read_file(files, path, int64_t{1} << 30);
}

Box shard_box(const std::vector<int64_t>& first, const std::vector<int64_t>& size) {
  Box box;
  box.dims = static_cast<int>(first.size());
  std::copy(first.begin(), first.end(), box.first.begin());
  std::copy(size.begin(), size.end(), box.size.begin());
  return box;
}

/// Files whose space, once asked for, holds what others have left there.
class DirtyFiles final : public Files {
 public:
  explicit DirtyFiles(SimFiles& inner) : inner_(inner) {}
  std::unique_ptr<File> open_read(const std::string& path, Links links) override {
    return inner_.open_read(path, links);
  }
  std::unique_ptr<File> create(const std::string& path, bool must_be_new) override {
    return std::make_unique<Dirty>(inner_.create(path, must_be_new));
  }
  std::unique_ptr<File> create_private(const std::string& path) override {
    return create(path, true);
  }
  std::unique_ptr<File> open_or_create(const std::string& path) override {
    return inner_.open_or_create(path);
  }
  bool exists(const std::string& path) override { return inner_.exists(path); }
  FileInfo stat(const std::string& path) override { return inner_.stat(path); }
  std::vector<std::string> list(const std::string& path) override { return inner_.list(path); }
  void make_directory(const std::string& path) override { inner_.make_directory(path); }
  void make_private_directory(const std::string& path) override { inner_.make_directory(path); }
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
  class Dirty final : public File {
   public:
    explicit Dirty(std::unique_ptr<File> inner) : inner_(std::move(inner)) {}
    int64_t pread(void* data, int64_t bytes, int64_t offset) override {
      return inner_->pread(data, bytes, offset);
    }
    void pwrite(const void* data, int64_t bytes, int64_t offset) override {
      inner_->pwrite(data, bytes, offset);
    }
    void sync() override { inner_->sync(); }
    void sync_data() override { inner_->sync_data(); }
    void allocate(int64_t bytes) override {
      const std::string dirt(static_cast<size_t>(bytes), '\xEE');
      inner_->pwrite(dirt.data(), bytes, 0);
    }
    void close() override { inner_->close(); }
    bool try_lock_shared() override { return inner_->try_lock_shared(); }
    bool try_lock_exclusive() override { return inner_->try_lock_exclusive(); }
    int64_t size() const override { return inner_->size(); }
    const std::string& path() const override { return inner_->path(); }

   private:
    std::unique_ptr<File> inner_;
  };
  SimFiles& inner_;
};

/// Values of two tensors, [4,3] of float32 and [5] of uint8, with poison before and after.
struct Values {
  explicit Values(char poison)
      : bytes(256, poison), floats(bytes.data() + 33), small(bytes.data() + 133) {
    for (int i = 0; i < 12; ++i) {
      const float value = 0.5f * static_cast<float>(i) - 2;
      std::memcpy(floats + 4 * i, &value, sizeof value);
    }
    for (int i = 0; i < 5; ++i) small[i] = static_cast<char>(200 + i);
  }
  std::vector<char> bytes;
  char *floats, *small;  // at odd addresses
};

const std::vector<Shape> kShapes = {{4, 3}, {5}};

/// A middle row of the first tensor, its last row, all of the second, and two boxes of nothing.
std::vector<SliceSource> three_slices(const Values& values) {
  constexpr auto kF32 = DType::kFloat32;
  return {{1, StateKind::kParam, DType::kUInt8, shard_box({0}, {5}), values.small},
          {0, StateKind::kMoment1, kF32, shard_box({1, 0}, {0, 3}), nullptr},
          {0, StateKind::kMaster, kF32, shard_box({3, 0}, {1, 3}), values.floats + 36},
          {0, StateKind::kMaster, kF32, shard_box({1, 0}, {1, 3}), values.floats + 12},
          {0, StateKind::kMaster, kF32, shard_box({2, 1}, {1, 0}), nullptr}};
}

void put_number(std::string* bytes, size_t at, uint64_t value, size_t count) {
  for (size_t i = 0; i < count; ++i) (*bytes)[at + i] = static_cast<char>(value >> (8 * i));
}

/// The shard of three_slices by the definition of the format.
std::string expected_shard(const Values& values) {
  std::string bytes(3 * 4096 + 5, '\0');
  bytes.replace(0, 8, "\x89PLT\r\n\x1a\n");
  put_number(&bytes, 8, kFormatMajor, 2);
  put_number(&bytes, 10, kFormatMinor, 2);
  put_number(&bytes, 12, 0x01020304, 4);
  put_number(&bytes, 16, kSaveId.low, 8);
  put_number(&bytes, 24, kSaveId.high, 8);
  put_number(&bytes, 32, 7, 4);
  put_number(&bytes, 36, 12, 4);
  put_number(&bytes, 40, bytes.size(), 8);
  put_number(&bytes, 48, 3, 8);
  put_number(&bytes, 56, kWriterStep, 8);
  put_number(&bytes, 4088, XXH3_64bits(bytes.data(), 4088), 8);
  bytes.replace(4096, 12, values.floats + 12, 12);
  bytes.replace(8192, 12, values.floats + 36, 12);
  bytes.replace(12288, 5, values.small, 5);
  return bytes;
}

Slice expected_slice(const SliceSource& source, int64_t position, int64_t bytes, int64_t first) {
  Slice slice;
  slice.tensor = source.tensor;
  slice.kind = source.kind;
  slice.dtype = source.dtype;
  slice.box = source.box;
  slice.position = position;
  slice.bytes = bytes;
  slice.hash = XXH3_64bits(source.data, static_cast<size_t>(bytes));
  const int64_t size = dtype_size(source.dtype);
  for (int64_t i = 0; i < bytes / size; ++i) {
    uint64_t bits = 0;
    std::memcpy(&bits, static_cast<const char*>(source.data) + i * size, static_cast<size_t>(size));
    slice.digest += digest_mix(bits, static_cast<uint64_t>(first + i));
  }
  return slice;
}

ShardWriter writer_of(Files& files, std::vector<SliceSource> sources) {
  return ShardWriter(files, "/step", {7, 1, 0, 3}, kWriterStep, kShapes, std::move(sources));
}

std::string error_word(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.word();
  }
  return "";
}

TEST_CASE("a shard and its index hold what their definitions say, byte by byte") {
  SimFiles sim;
  sim.make_directory("/step");
  DirtyFiles files(sim);
  const Values values('\xA5');
  const std::vector<SliceSource> sources = three_slices(values);
  ShardWriter writer = writer_of(files, sources);
  REQUIRE_FALSE(writer.is_empty());
  CHECK(writer.file_bytes() == 12293);
  std::atomic<int64_t> done{0};
  writer.write_slices(&done, nullptr);
  CHECK(done == 29);
  CHECK(whole_file(sim, "/step/s00007.plt").substr(0, 8) == std::string(8, '\xEE'));
  const SavedFile saved = writer.finish(kSaveId);

  CHECK(whole_file(sim, "/step/s00007.plt") == expected_shard(values));
  ShardIndex index;
  index.save_id = kSaveId;
  index.ordinal = 7;
  index.slices = {expected_slice(sources[3], 4096, 12, 3), expected_slice(sources[2], 8192, 12, 9),
                  expected_slice(sources[0], 12288, 5, 0)};
  Hash128 hash;
  const std::string text = encode_index(index, &hash);
  const std::string idx = whole_file(sim, "/step/s00007.idx");
  CHECK(idx == text);
  CHECK(open_sealed(idx, "idx").hash == hash);
  CHECK(saved.idx_hash == hash);
  CHECK(saved.idx_bytes == static_cast<int64_t>(text.size()));
  CHECK(saved.plt_bytes == 12293);
  CHECK(std::vector<uint32_t>{saved.ordinal, saved.tensor, saved.pipeline, saved.data} ==
        std::vector<uint32_t>{7, 1, 0, 3});
}

TEST_CASE("equal sources give equal bytes, in any order and anywhere in memory") {
  std::vector<std::vector<std::string>> written;
  for (const char poison : {'\xA5', '\x5A'}) {
    SimFiles files;
    files.make_directory("/step");
    const Values values(poison);
    std::vector<SliceSource> sources = three_slices(values);
    if (poison == '\x5A') std::reverse(sources.begin(), sources.end());
    ShardWriter writer = writer_of(files, sources);
    writer.write_slices(nullptr, nullptr);
    writer.finish(kSaveId);
    written.push_back(
        {whole_file(files, "/step/s00007.plt"), whole_file(files, "/step/s00007.idx")});
  }
  CHECK(written[0] == written[1]);
}

TEST_CASE("a rank that owns nothing has nothing to write") {
  SimFiles files;
  files.make_directory("/step");
  ShardWriter writer = writer_of(
      files, {{0, StateKind::kMaster, DType::kFloat32, shard_box({0, 0}, {4, 0}), nullptr}});
  CHECK(writer.is_empty());
  CHECK(writer.file_bytes() == 0);
  writer.write_slices(nullptr, nullptr);
  CHECK(error_word([&] { writer.finish(kSaveId); }) == "invariant");
  CHECK(files.list("/step").empty());
}

TEST_CASE("data is written in chunks, the header last, and each file is synced before the next") {
  SimFiles files;
  files.make_directory("/step");
  const int64_t bytes = (int64_t{20} << 20) + 12;
  std::vector<char> values(static_cast<size_t>(bytes), '\x11');
  const std::vector<Shape> shapes = {{bytes}, {3}};
  std::vector<std::string> operations;
  FaultFiles seen(files);
  seen.before_each([&](FileOperation kind, const std::string& path) {
    const char* name = kind == FileOperation::kCreate     ? "create "
                       : kind == FileOperation::kAllocate ? "allocate "
                       : kind == FileOperation::kWrite    ? "write "
                       : kind == FileOperation::kSyncData ? "sync "
                       : kind == FileOperation::kClose    ? "close "
                                                          : nullptr;
    if (name != nullptr) operations.push_back(name + path.substr(path.size() - 3));
  });
  ShardWriter writer(seen, "/step", {}, 1, shapes,
                     {{0, StateKind::kParam, DType::kUInt8, shard_box({0}, {bytes}), values.data()},
                      {1, StateKind::kParam, DType::kUInt8, shard_box({0}, {3}), values.data()}});
  writer.write_slices(nullptr, nullptr);
  // 8 + 8 + 4 MiB and 12 bytes in three writes, the gap, the second slice.
  CHECK(operations == std::vector<std::string>{"create plt", "allocate plt", "write plt",
                                               "write plt", "write plt", "write plt", "write plt"});
  operations.clear();
  CHECK(whole_file(files, "/step/s00000.plt").substr(0, 4096) == std::string(4096, '\0'));
  const SavedFile saved = writer.finish(kSaveId);
  CHECK(operations == std::vector<std::string>{"write plt", "sync plt", "close plt", "create idx",
                                               "write idx", "sync idx", "close idx"});
  const std::string shard = whole_file(files, "/step/s00000.plt");
  CHECK(static_cast<int64_t>(shard.size()) == saved.plt_bytes);
  CHECK(shard.compare(4096, values.size(), values.data(), values.size()) == 0);
  CHECK(writer.slices()[0].hash == XXH3_64bits(values.data(), values.size()));
  CHECK(writer.slices()[0].digest == digest_run(values.data(), DType::kUInt8, bytes, 0));
}

TEST_CASE("positions go on past 4 GiB") {
  const char value = 0;
  const int64_t rows = 100, row = int64_t{64} << 20;
  const std::vector<Shape> shapes = {{rows, row}};
  std::vector<SliceSource> sources;
  for (int64_t i = 0; i < rows; ++i) {
    sources.push_back({0, StateKind::kParam, DType::kUInt8, shard_box({i, 0}, {1, row}), &value});
  }
  SimFiles files;
  ShardWriter writer(files, "/step", {}, 1, shapes, sources);
  CHECK(writer.file_bytes() == 4096 + rows * row);
  CHECK(writer.slices().back().position == 4096 + (rows - 1) * row);
}

TEST_CASE("a writer that is cancelled stops, and its files are dead") {
  SimFiles files;
  files.make_directory("/step");
  const Values values('\0');
  ShardWriter writer = writer_of(files, three_slices(values));
  const std::atomic<bool> is_cancelled{true};
  CHECK(error_word([&] { writer.write_slices(nullptr, &is_cancelled); }) == "cancelled");
  CHECK(error_word([&] { writer.finish(kSaveId); }) == "invariant");
  CHECK(error_word([&] { writer.write_slices(nullptr, nullptr); }) == "invariant");
}

TEST_CASE("after any operation on its files has failed a writer does nothing more to them") {
  const Values values('\0');
  for (const FileOperation kind :
       {FileOperation::kCreate, FileOperation::kAllocate, FileOperation::kWrite,
        FileOperation::kSyncData, FileOperation::kStat, FileOperation::kClose}) {
    for (int64_t nth = 0;; ++nth) {
      SimFiles files;
      files.make_directory("/step");
      FaultFiles faults(files);
      faults.fail(kind, nth, EIO);
      ShardWriter writer = writer_of(faults, three_slices(values));
      const std::string word = error_word([&] {
        writer.write_slices(nullptr, nullptr);
        writer.finish(kSaveId);
      });
      INFO(static_cast<int>(kind) << " " << nth);
      CHECK(word == (faults.count(kind) > nth ? "io_error" : ""));
      const int64_t total = faults.total();
      CHECK(error_word([&] { writer.finish(kSaveId); }) == "invariant");
      CHECK(faults.total() == total);
      CHECK(faults.syncs_of_dead_files() == 0);
      if (word.empty()) break;
    }
  }
}

TEST_CASE("a shard never overwrites another") {
  SimFiles files;
  files.make_directory("/step");
  const Values values('\0');
  ShardWriter first = writer_of(files, three_slices(values));
  first.write_slices(nullptr, nullptr);
  ShardWriter second = writer_of(files, three_slices(values));
  CHECK(error_word([&] { second.write_slices(nullptr, nullptr); }) == "target_exists");
}

TEST_CASE("slices outside their tensors are refused") {
  SimFiles files;
  const float value = 0;
  const auto refused = [&](uint32_t tensor, const Box& box, const void* data) {
    return error_word([&] {
      writer_of(files, {{tensor, StateKind::kMaster, DType::kFloat32, box, data}});
    });
  };
  CHECK(refused(0, shard_box({3, 0}, {1, 3}), &value) == "");
  CHECK(refused(0, shard_box({3, 0}, {2, 3}), &value) == "invariant");
  CHECK(refused(0, shard_box({0}, {1}), &value) == "invariant");
  CHECK(refused(2, shard_box({0}, {1}), &value) == "invariant");
  CHECK(refused(0, shard_box({3, 0}, {1, 3}), nullptr) == "invariant");
}

}  // namespace
}  // namespace plait

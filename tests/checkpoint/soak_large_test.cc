// A tensor of more than 2^32 elements through everything that a checkpoint does: in one slice and
// file of more than 4 GiB, and cut over two files of more than 2 GiB; all the while memory stays
// small.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/digest.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/store/root.h"
#include "checkpoint/store/step_reader.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_fixture.h"
#include "tests/checkpoint/store_root_fixture.h"
#include "tests/support/fault_files.h"

namespace plait {
namespace {

constexpr int64_t kMiB = int64_t{1} << 20, kGiB = int64_t{1} << 30;
constexpr int64_t kMostMemory = 64 * kMiB;  // beside what is saved

// The large tensor, of one byte for each element.
constexpr int64_t kRows = 69'000, kColumns = 65'537;
constexpr int64_t kElements = kRows * kColumns;
constexpr int64_t kCutRow = 34'000;                           // between the two files of step 2
constexpr int64_t kOtherRow = 40'001, kOtherColumn = 30'011;  // between the boxes of another layout
constexpr int64_t kChanged = 4 * kGiB + 123'456'789;          // element in which the steps differ
static_assert(kChanged < kElements);
static_assert(kCutRow * kColumns > 2 * kGiB && (kRows - kCutRow) * kColumns > 2 * kGiB);

/// Values in memory that repeat themselves after a number of pages that divides no power of two,
/// so that a few MiB stand for any number of GiB, and no place has the value of one that differs
/// from it by such a power.
class RepeatingBytes {
 public:
  explicit RepeatingBytes(int64_t bytes) : bytes_(bytes) {
    file_ = ::memfd_create("plait-test", 0);
    REQUIRE(file_ >= 0);
    REQUIRE(::ftruncate(file_, kPeriod) == 0);
    std::vector<char> values(static_cast<size_t>(kPeriod));
    std::mt19937_64 random(7);
    for (char& value : values) value = static_cast<char>(random());
    REQUIRE(::pwrite(file_, values.data(), values.size(), 0) == kPeriod);
    data_ = map(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    for (int64_t at = 0; at < bytes; at += kPeriod) {
      map(data_ + at, std::min(kPeriod, bytes - at), PROT_READ, MAP_SHARED | MAP_FIXED, file_, 0);
    }
  }
  ~RepeatingBytes() {
    ::munmap(data_, static_cast<size_t>(bytes_));
    ::close(file_);
  }
  RepeatingBytes(const RepeatingBytes&) = delete;
  RepeatingBytes& operator=(const RepeatingBytes&) = delete;

  const char* data() const { return data_; }
  /// Changes this place alone, whose page is then no repetition.
  void set(int64_t place, char value) {
    const int64_t page = place / kPage * kPage;
    map(data_ + page, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file_,
        page % kPeriod);
    data_[place] = value;
  }

 private:
  static constexpr int64_t kPage = 4096, kPeriod = kPage * 2053;
  static char* map(char* at, int64_t bytes, int protection, int flags, int file, int64_t offset) {
    void* mapped = ::mmap(at, static_cast<size_t>(bytes), protection, flags, file, offset);
    REQUIRE(mapped != MAP_FAILED);
    return static_cast<char*>(mapped);
  }
  int64_t bytes_;
  int file_ = -1;
  char* data_ = nullptr;
};

/// Memory of this process that is its own: what it allocates, without mapped files.
int64_t own_memory() {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    long long kib = 0;
    if (std::sscanf(line.c_str(), "RssAnon: %lld", &kib) == 1) return int64_t{kib} * 1024;
  }
  FAIL("the system does not say how much memory this process has");
  return 0;
}

/// How far memory grows.
class MemoryMeter {
 public:
  void look() { most_ = std::max(most_, own_memory() - start_); }
  int64_t growth() const { return most_; }

 private:
  int64_t start_ = own_memory(), most_ = 0;
};

/// Targets of the large tensor that are compared and given back while a read fills them, row by
/// row.
class PassingTargets {
 public:
  PassingTargets(const RepeatingBytes& values, const std::vector<Box>& boxes) : values_(values) {
    for (const Box& box : boxes) {
      void* data = ::mmap(nullptr, static_cast<size_t>(box.elements()), PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      REQUIRE(data != MAP_FAILED);
      targets_.push_back({0, StateKind::kExtra, box, DType::kUInt8, data, 0});
      seen_.push_back(0);
    }
  }
  ~PassingTargets() {
    for (const ReadTarget& target : targets_) {
      ::munmap(target.data, static_cast<size_t>(target.box.elements()));
    }
  }
  PassingTargets(const PassingTargets&) = delete;
  PassingTargets& operator=(const PassingTargets&) = delete;

  std::span<ReadTarget> all() { return targets_; }
  /// The first `rows` rows of the tensor were read.
  void look(int64_t rows) {
    for (size_t i = 0; i < targets_.size(); ++i) {
      const Box& box = targets_[i].box;
      const int64_t end = std::clamp<int64_t>(rows - box.first[0], 0, box.size[0]);
      char* data = static_cast<char*>(targets_[i].data);
      for (int64_t row = seen_[i]; row < end; ++row) {
        const char* want = values_.data() + (box.first[0] + row) * kColumns + box.first[1];
        if (std::memcmp(data + row * box.size[1], want, static_cast<size_t>(box.size[1])) == 0) {
          continue;
        }
        FAIL_CHECK("row " << row << " of a target holds other values");
        break;
      }
      // Whole pages that were seen; what comes back in their place is zero.
      const int64_t from = seen_[i] * box.size[1] / kPage * kPage;
      const int64_t to = end * box.size[1] / kPage * kPage;
      if (to > from) ::madvise(data + from, static_cast<size_t>(to - from), MADV_DONTNEED);
      seen_[i] = end;
    }
  }
  bool are_seen() const {
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (seen_[i] != targets_[i].box.size[0]) return false;
    }
    return true;
  }

 private:
  static constexpr int64_t kPage = 4096;
  const RepeatingBytes& values_;
  std::vector<ReadTarget> targets_;
  std::vector<int64_t> seen_;  // rows of each
};

Box rows_and_columns(int64_t row, int64_t rows, int64_t column, int64_t columns) {
  return {{row, column}, {rows, columns}, 2};
}

constexpr int64_t kSmallElements = 3'000;
const std::vector<float>& small_values() {
  static const std::vector<float> values = [] {
    std::vector<float> made;
    for (int64_t i = 0; i < kSmallElements; ++i) made.push_back(0.25f * static_cast<float>(i));
    return made;
  }();
  return values;
}

/// A large tensor, and a small one that stands behind it.
Manifest large_manifest(int64_t ranks, int64_t step) {
  return store_manifest(
      {store_tensor("large", {kRows, kColumns}, {{StateKind::kExtra, DType::kUInt8}}),
       store_tensor("small", {kSmallElements}, {{StateKind::kMaster, DType::kFloat32}})},
      ranks, step);
}

/// Saves it, cut at `cuts` over one rank more; the last holds the small one, too.
std::string save_large(RootWriter& root, Files& files, int64_t step, const RepeatingBytes& values,
                       const std::vector<int64_t>& cuts) {
  std::vector<test::RankShard> ranks;
  int64_t row = 0;
  for (size_t i = 0; i <= cuts.size(); ++i) {
    const int64_t end = i < cuts.size() ? cuts[i] : kRows;
    const auto ordinal = static_cast<uint32_t>(i);
    ranks.push_back({&files, {ordinal, 0, 0, ordinal}, {}});
    ranks.back().sources.push_back({0, StateKind::kExtra, DType::kUInt8,
                                    rows_and_columns(row, end - row, 0, kColumns),
                                    values.data() + row * kColumns});
    row = end;
  }
  ranks.back().sources.push_back({1, StateKind::kMaster, DType::kFloat32,
                                  Box::whole({kSmallElements}), small_values().data()});
  const std::string temporary = root.begin(step, kElements + kSmallElements * 4, {});
  const Manifest manifest = test::write_shards(
      ranks, temporary, large_manifest(static_cast<int64_t>(ranks.size()), step));
  const std::string path = root.commit(temporary, manifest, "{}\n", {});
  root.point_latest(step);
  return path;
}

/// What the program says, both outputs, and how it ends.
struct Said {
  int code = -1;
  std::string text;
};
Said run_plait(const std::string& arguments) {
  FILE* pipe = ::popen((std::string(PLAIT_PROGRAM) + " " + arguments + " 2>&1").c_str(), "r");
  REQUIRE(pipe != nullptr);
  Said said;
  std::array<char, 4096> part{};
  for (size_t bytes; (bytes = std::fread(part.data(), 1, part.size(), pipe)) > 0;) {
    said.text.append(part.data(), bytes);
  }
  const int status = ::pclose(pipe);
  if (WIFEXITED(status)) said.code = WEXITSTATUS(status);
  return said;
}

/// A root with two steps of the large tensor, and files that see how far memory grows.
class LargeSteps {
 public:
  LargeSteps() : values_(kElements), files_(posix_env().files) {
    files_.before_each([this](FileOperation kind, const std::string&) {
      if (kind != FileOperation::kRead && kind != FileOperation::kWrite) return;
      if (targets_ != nullptr) targets_->look(done_ / kColumns);
      meter_.look();
    });
    Env env = test::env_of(files_);
    const auto root = RootWriter::open(env, directory_.path("root"), "large", nullptr, 0);
    paths_[0] = save_large(*root, files_, 1, values_, {});
    old_value_ = values_.data()[kChanged];
    values_.set(kChanged, static_cast<char>(old_value_ ^ 0x55));
    paths_[1] = save_large(*root, files_, 2, values_, {kCutRow});
  }

  std::unique_ptr<StepReader> open(int step) { return StepReader::open(files_, path(step)); }
  const std::string& path(int step) const { return paths_[static_cast<size_t>(step - 1)]; }
  const MemoryMeter& meter() const { return meter_; }
  uint8_t old_value() const { return static_cast<uint8_t>(old_value_); }
  uint8_t new_value() const { return static_cast<uint8_t>(old_value_ ^ 0x55); }

  /// Reads the large tensor of a step into these boxes and compares every element; the sum of the
  /// digests of what was read.
  uint64_t read(int step, const std::vector<Box>& boxes) {
    const auto reader = open(step);
    show_values(step);
    PassingTargets targets(values_, boxes);
    targets_ = &targets;
    done_ = 0;
    reader->read(targets.all(), &done_);
    targets.look(done_ / kColumns);
    targets_ = nullptr;
    CHECK(targets.are_seen());
    uint64_t digest = 0;
    for (const ReadTarget& target : targets.all()) digest += target.digest;
    return digest;
  }

  /// Whether these are the values of the large tensor of a step.
  bool are_values(int step, const char* data) {
    show_values(step);
    return std::memcmp(data, values_.data(), static_cast<size_t>(kElements)) == 0;
  }

  /// Turns a bit of a shard of step 1.
  void damage(int64_t offset) {
    const auto shard = posix_env().files.open_or_create(join_path(path(1), shard_name(0)));
    char value = 0;
    shard->read_exactly(&value, 1, offset, "corrupt");
    value = static_cast<char>(value ^ 4);
    shard->pwrite(&value, 1, offset);
  }

 private:
  void show_values(int step) {
    values_.set(kChanged, static_cast<char>(step == 1 ? old_value() : new_value()));
  }

  const TempDirectory directory_;
  RepeatingBytes values_;
  MemoryMeter meter_;
  FaultFiles files_;
  std::array<std::string, 2> paths_;
  char old_value_ = 0;
  PassingTargets* targets_ = nullptr;
  std::atomic<int64_t> done_{0};
};

const TensorState& large_state(const StepReader& reader) {
  return *reader.manifest().state(0, StateKind::kExtra);
}

void check_clean(LargeSteps& steps) {
  const auto one = steps.open(1), two = steps.open(2);
  REQUIRE(one->indexes().size() == 1);
  REQUIRE(two->indexes().size() == 2);
  const std::vector<Slice>& slices = one->indexes()[0].slices;
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].bytes == kElements);
  CHECK(slices[1].position > 4 * kGiB);
  for (const SavedFile& file : two->manifest().files) CHECK(file.plt_bytes > 2 * kGiB);
  CHECK(one->verify(false).empty());
  CHECK(two->verify(true).empty());

  // The cut does not show in digests, and one element does, at its index beyond 2^32.
  const auto index = static_cast<uint64_t>(kChanged);
  CHECK(large_state(*two).digest - large_state(*one).digest ==
        digest_mix(steps.new_value(), index) - digest_mix(steps.old_value(), index));
  CHECK(steps.read(1, {Box::whole({kRows, kColumns})}) == large_state(*one).digest);
  CHECK(steps.read(2, {rows_and_columns(0, kOtherRow, 0, kOtherColumn),
                       rows_and_columns(0, kOtherRow, kOtherColumn, kColumns - kOtherColumn),
                       rows_and_columns(kOtherRow, kRows - kOtherRow, 0, kOtherColumn),
                       rows_and_columns(kOtherRow, kRows - kOtherRow, kOtherColumn,
                                        kColumns - kOtherColumn)}) == large_state(*two).digest);
  const auto mapped = one->map_whole(0, StateKind::kExtra);
  REQUIRE(mapped != nullptr);
  CHECK(steps.are_values(1, mapped->data()));
  std::vector<float> small(static_cast<size_t>(kSmallElements));
  one->read_whole(1, StateKind::kMaster, small.data());
  CHECK(small == small_values());
}

void check_difference(LargeSteps& steps) {
  const std::vector<StateDifference> all = compare_steps(*steps.open(1), *steps.open(2));
  REQUIRE(!all.empty());
  CHECK(all[0].what == "large extra");
  CHECK(all[0].where == "[" + std::to_string(kChanged / kColumns) + "," +
                            std::to_string(kChanged % kColumns) + "]");
  CHECK(all[0].a == std::to_string(steps.old_value()));
  CHECK(all[0].b == std::to_string(steps.new_value()));
  for (size_t i = 1; i < all.size(); ++i) CHECK(all[i].where.empty());  // steps have numbers
}

void check_damage(LargeSteps& steps) {
  const auto reader = steps.open(1);
  const std::vector<Slice> slices = reader->indexes()[0].slices;
  const int64_t gap = slices[0].position + slices[0].bytes + 5, small = slices[1].position;
  REQUIRE(gap < small);
  steps.damage(slices[0].position + kChanged);
  steps.damage(gap);
  steps.damage(small + 7);
  // A slice is damaged as a whole; the two others begin beyond 4 GiB.
  const std::vector<Damage> damage = reader->verify(true);
  REQUIRE(damage.size() == 3);
  for (const Damage& one : damage) CHECK(one.file == shard_name(0));
  CHECK(damage[0].offset == slices[0].position);
  CHECK(damage[1].offset == gap);
  CHECK(damage[2].offset == small);
  std::vector<float> values(static_cast<size_t>(kSmallElements));
  require_error([&] { reader->read_whole(1, StateKind::kMaster, values.data()); }, "corrupt",
                {"file=" + shard_name(0), "offset=" + std::to_string(small), "tensor=small"});

  const Said said = run_plait("verify " + steps.path(1) + " --full");
  INFO(said.text);
  CHECK(said.code == 5);
  for (const int64_t offset : {slices[0].position, gap, small}) {
    CHECK(said.text.find(shard_name(0) + "  offset " + std::to_string(offset) + " ") !=
          std::string::npos);
  }
}

TEST_CASE("a tensor of more than 2^32 elements is saved, verified, loaded and compared",
          "[large]") {
  LargeSteps steps;
  check_clean(steps);
  check_difference(steps);
  const Said said = run_plait("inspect " + steps.path(2));
  INFO(said.text);
  CHECK(said.code == 0);
  CHECK(said.text.find("[69000, 65537]") != std::string::npos);
  check_damage(steps);
  CHECK(steps.meter().growth() < kMostMemory);
  std::printf("| large checkpoint | %lld elements in one tensor | memory grew by %lld MiB |\n",
              static_cast<long long>(kElements),
              static_cast<long long>(steps.meter().growth() / kMiB));
}

}  // namespace
}  // namespace plait

#include "checkpoint/store/root_files.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <utility>

#include "checkpoint/store/root.h"
#include "kernels/base/error.h"
#include "kernels/base/net.h"

namespace plait {
namespace {

constexpr std::string_view kTemporaryPrefix = "tmp-", kTrashPrefix = "trash-";
constexpr std::string_view kStepPrefix = "step-", kLatestPrefix = "plait-latest-1 ";
constexpr size_t kStepDigits = 12, kHexDigits = 16;
constexpr int64_t kStepEnd = 1'000'000'000'000;
constexpr size_t kFileBytes = size_t{8} << 20;  // of one pwrite

bool is_all(std::string_view text, std::string_view alphabet) {
  return text.find_first_not_of(alphabet) == text.npos;
}
bool is_decimal(std::string_view text) { return is_all(text, "0123456789"); }
bool is_hex(std::string_view text) { return is_all(text, "0123456789abcdef"); }

std::string hex_text(uint64_t value) {
  char text[kHexDigits + 1];
  std::snprintf(text, sizeof text, "%016" PRIx64, value);
  return text;
}

/// "000000001000".
std::string step_digits(int64_t step) {
  check(step >= 0, "steps count from 0");
  if (step >= kStepEnd) {
    throw Error("too_large", "a checkpoint's step has at most 12 digits")
        .with("step", step)
        .with("limit", kStepEnd - 1);
  }
  char text[24];
  std::snprintf(text, sizeof text, "%012" PRId64, step);
  return text;
}

/// sNNNNN.plt, sNNNNN.idx; ordinals have five digits or more.
bool is_pair_name(std::string_view name) {
  if (name.size() < 10 || name.size() > 15 || name.front() != 's') return false;
  const std::string_view extension = name.substr(name.size() - 4);
  return (extension == ".plt" || extension == ".idx") &&
         is_decimal(name.substr(1, name.size() - 5));
}

bool is_written_name(std::string_view name) {
  return name == RootNames::kManifest || name == RootNames::kNewManifest ||
         name == RootNames::kInfo || is_pair_name(name);
}

std::string utc_text(int64_t wall_ns) {
  using namespace std::chrono;
  const sys_seconds time{floor<seconds>(nanoseconds(wall_ns))};
  const sys_days days = floor<std::chrono::days>(time);
  const year_month_day date(days);
  const hh_mm_ss clock(time - days);
  char text[64];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

}  // namespace

std::string last_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

std::string step_name(int64_t step) { return std::string(kStepPrefix) + step_digits(step); }

std::optional<int64_t> parse_step_name(std::string_view name) {
  if (name.size() != kStepPrefix.size() + kStepDigits || !name.starts_with(kStepPrefix)) {
    return std::nullopt;
  }
  name.remove_prefix(kStepPrefix.size());
  if (!is_decimal(name)) return std::nullopt;
  int64_t step = 0;
  for (const char digit : name) step = step * 10 + (digit - '0');
  return step;
}

std::string leftover_name(Leftover what, int64_t step, uint64_t random) {
  const std::string_view prefix = what == Leftover::kTrash ? kTrashPrefix : kTemporaryPrefix;
  return std::string(prefix) + step_digits(step) + "-" + hex_text(random);
}

std::string trash_name(std::string_view name, uint64_t random) {
  if (const std::optional<int64_t> step = parse_step_name(name)) {
    return leftover_name(Leftover::kTrash, *step, random);
  }
  check(is_leftover_name(name), "only steps and what is to become one are deleted");
  return std::string(kTrashPrefix) + std::string(name.substr(name.find('-') + 1));
}

bool is_leftover_name(std::string_view name) {
  for (const std::string_view prefix : {kTemporaryPrefix, kTrashPrefix}) {
    if (!name.starts_with(prefix)) continue;
    const std::string_view rest = name.substr(prefix.size());
    return rest.size() == kStepDigits + 1 + kHexDigits && rest[kStepDigits] == '-' &&
           is_decimal(rest.substr(0, kStepDigits)) && is_hex(rest.substr(kStepDigits + 1));
  }
  return false;
}

std::string latest_text(int64_t step) {
  const std::string text = std::string(kLatestPrefix) + step_name(step) + " ";
  return text + hex_text(XXH3_64bits(text.data(), text.size())) + "\n";
}

std::optional<int64_t> parse_latest(std::string_view text) {
  if (!text.starts_with(kLatestPrefix)) return std::nullopt;
  const std::string_view name = text.substr(kLatestPrefix.size(), kStepPrefix.size() + kStepDigits);
  const std::optional<int64_t> step = parse_step_name(name);
  return step && text == latest_text(*step) ? step : std::nullopt;
}

std::string lock_text(std::string_view run_id, int64_t wall_ns) {
  std::string text = "run ";
  text.append(run_id).append(", host ").append(posix_net().host_name());
  text.append(", pid ").append(std::to_string(posix_net().process_id()));
  text.append(", since ").append(utc_text(wall_ns));
  for (char& c : text) {
    if (static_cast<unsigned char>(c) < ' ') c = '_';  // one line
  }
  return text + "\n";
}

void write_new_file(Files& files, const std::string& path, std::string_view text,
                    Durability durability) {
  std::unique_ptr<File> file = files.create_private(path);
  for (size_t done = 0; done < text.size(); done += kFileBytes) {
    const std::string_view chunk = text.substr(done, kFileBytes);
    file->pwrite(chunk.data(), static_cast<int64_t>(chunk.size()), static_cast<int64_t>(done));
  }
  if (durability == Durability::kData) file->sync_data();
  if (durability == Durability::kAll) file->sync();
  close_written(std::move(file), static_cast<int64_t>(text.size()));
}

void close_written(std::unique_ptr<File> file, int64_t bytes) {
  const int64_t size = file->size();
  if (size != bytes) {
    throw Error("io_error", "a file has another size than was written")
        .with("path", file->path())
        .with("want", bytes)
        .with("got", size);
  }
  file->close();
}

void remove_step_directory(Files& files, const std::string& directory) {
  for (const std::string& name : files.list(directory)) {
    if (is_written_name(name)) files.unlink(join_path(directory, name));
  }
  files.remove_directory(directory);
}

}  // namespace plait

// What a writer puts into a root and into a step: names, small texts, files that are proved to be
// whole, and how a step's directory is deleted again.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "kernels/base/env.h"

namespace plait {

struct RootNames {
  static constexpr const char* kLock = "LOCK";
  static constexpr const char* kLatest = "LATEST";
  static constexpr const char* kNewLatest = "LATEST.tmp";
  static constexpr const char* kManifest = "MANIFEST";
  static constexpr const char* kNewManifest = "MANIFEST.tmp";  ///< with commit=manifest_last
  static constexpr const char* kInfo = "INFO.json";
};

/// The part of a path after its last slash.
std::string last_name(const std::string& path);

/// Directories of a root that readers ignore: those being written, and those being deleted.
enum class Leftover { kTemporary, kTrash };
/// "tmp-000000001000-0123456789abcdef", "trash-…".
std::string leftover_name(Leftover what, int64_t step, uint64_t random);
/// The name that an entry of a root, a step or a temporary one, has while it is being deleted.
std::string trash_name(std::string_view name, uint64_t random);
/// Whether a name is exactly such a one.
bool is_leftover_name(std::string_view name);

/// "plait-latest-1 step-000000001000 <16 hex>\n": XXH3-64 of the text before it.
std::string latest_text(int64_t step);
/// The step of such a text; nothing for any other text.
std::optional<int64_t> parse_latest(std::string_view text);

/// "run R, host H, pid P, since 2026-01-31T12:00:00Z\n".
std::string lock_text(std::string_view run_id, int64_t wall_ns);

/// What is synced before a new file is closed: nothing, its data (fdatasync), all of it (fsync).
enum class Durability { kNone, kData, kAll };
/// Writes a new private file. Once an operation on it failed, none follows.
void write_new_file(Files& files, const std::string& path, std::string_view text,
                    Durability durability);
/// Closes a file of which `bytes` bytes were written: what went wrong shows here at the latest.
void close_written(std::unique_ptr<File> file, int64_t bytes);

/// Deletes what a writer has put into a step's directory, then the directory, which stays when it
/// holds anything else (its removal then throws).
void remove_step_directory(Files& files, const std::string& directory);

}  // namespace plait

#include "checkpoint/store/root.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "checkpoint/format/trailer.h"
#include "checkpoint/store/root_files.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

/// Reads a MANIFEST and proves its trailer.
uint64_t read_sequence(Files& files, const std::string& path) {
  const std::unique_ptr<File> file = files.open_read(path, Links::kRefuse);
  const int64_t bytes = file->size();
  if (bytes > FormatLimits::kManifestBytes + kTrailerBytes) {
    throw Error("invalid_field", "a manifest is longer than one may be")
        .with("path", path)
        .with("bytes", bytes)
        .with("limit", FormatLimits::kManifestBytes + kTrailerBytes);
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  file->read_exactly(text.data(), bytes, 0, "corrupt");
  return open_sealed(text, path).sequence;
}

}  // namespace

RootListing list_root(Files& files, const std::string& root) {
  if (!files.exists(root) || files.stat(root).kind != FileInfo::Kind::kDirectory) {
    throw Error("no_checkpoint", "there is no such directory").with("path", root);
  }
  RootListing listing;
  for (const std::string& name : files.list(root)) {
    const std::optional<int64_t> step = parse_step_name(name);
    if (!step) continue;
    try {
      const std::string manifest = join_path(join_path(root, name), RootNames::kManifest);
      listing.steps.push_back({name, *step, read_sequence(files, manifest)});
    } catch (const Error& error) {
      listing.bad.push_back({name, error.message()});
    }
  }
  std::sort(listing.steps.begin(), listing.steps.end(), [](const StepEntry& a, const StepEntry& b) {
    return std::tie(a.sequence, a.step) > std::tie(b.sequence, b.step);
  });
  return listing;
}

}  // namespace plait

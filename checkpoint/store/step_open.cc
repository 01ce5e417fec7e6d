#include <algorithm>
#include <bit>
#include <cstdio>
#include <tuple>
#include <utility>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "checkpoint/store/boxes.h"
#include "checkpoint/store/root_files.h"
#include "checkpoint/store/step_state.h"

namespace plait {
namespace {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

constexpr size_t kKeptShards = 64;  // open files of one reader

bool is_directory(Files& files, const std::string& path) {
  return files.exists(path) && files.stat(path).kind == FileInfo::Kind::kDirectory;
}

std::unique_ptr<File> open_manifest_file(Files& files, const std::string& directory) {
  try {
    return files.open_read(join_path(directory, RootNames::kManifest), Links::kRefuse);
  } catch (const Error& error) {
    if (error.word() != "no_file" && is_directory(files, directory)) throw;
  }
  throw Error("no_checkpoint", "the path holds no step").with("path", directory);
}

/// A file that the manifest names.
std::unique_ptr<File> open_named_file(const OpenStep& step, const std::string& name,
                                      uint32_t ordinal) {
  try {
    return step.files->open_read(join_path(step.directory, name), Links::kRefuse);
  } catch (const Error& error) {
    if (error.word() != "no_file") throw;
  }
  throw Error("missing_shard", "a file that the manifest names is not there")
      .with("ordinal", ordinal)
      .with("file", name)
      .with("directory", step.directory);
}

Error size_error(const OpenStep& step, const std::string& name, int64_t want, int64_t got) {
  return Error("corrupt", "the file has not the size that the manifest says")
      .with("file", name)
      .with("offset", std::min(want, got))
      .with("want", want)
      .with("got", got)
      .with("directory", step.directory);
}

/// The whole of a small file, aligned for FlatBuffers.
class SealedBytes {
 public:
  SealedBytes(File& file, int64_t limit) : bytes_(file.size()) {
    if (bytes_ > limit + kTrailerBytes) {
      throw Error("invalid_field", "the file is too large")
          .with("path", file.path())
          .with("field", "file bytes")
          .with("value", bytes_)
          .with("limit", limit + kTrailerBytes);
    }
    blocks_ = std::make_unique_for_overwrite<Block[]>(static_cast<size_t>(bytes_ / 16 + 1));
    file.read_exactly(blocks_.get(), bytes_, 0, "corrupt");
  }
  std::string_view view() const {
    return {reinterpret_cast<const char*>(blocks_.get()), static_cast<size_t>(bytes_)};
  }

 private:
  struct alignas(16) Block {
    char bytes[16];
  };
  int64_t bytes_;
  std::unique_ptr<Block[]> blocks_;
};

void read_manifest(OpenStep* step) {
  step->manifest_file = open_manifest_file(*step->files, step->directory);
  if (!step->manifest_file->try_lock_shared()) {
    throw Error("locked", "the step is being removed").with("path", step->directory);
  }
  const SealedBytes bytes(*step->manifest_file, FormatLimits::kManifestBytes);
  step->manifest = decode_manifest(bytes.view(), step->manifest_file->path(), &step->sequence);
}

ShardIndex read_index(const OpenStep& step, const SavedFile& saved) {
  const std::string name = index_name(saved.ordinal);
  const std::unique_ptr<File> file = open_named_file(step, name, saved.ordinal);
  const SealedBytes bytes(*file, FormatLimits::kIndexBytes);
  return decode_index(bytes.view(), file->path(), step.manifest, saved);
}

auto slice_key(const Slice& slice) { return std::tie(slice.tensor, slice.kind, slice.box.first); }

void sort_slices(OpenStep* step) {
  size_t count = 0;
  for (const ShardIndex& index : step->indexes) count += index.slices.size();
  step->order.reserve(count);
  for (size_t file = 0; file < step->indexes.size(); ++file) {
    for (size_t i = 0; i < step->indexes[file].slices.size(); ++i) {
      step->order.push_back({static_cast<uint32_t>(file), static_cast<uint32_t>(i)});
    }
  }
  std::stable_sort(step->order.begin(), step->order.end(), [&](SliceRef a, SliceRef b) {
    return slice_key(step->slice(a)) < slice_key(step->slice(b));
  });
}

/// Every element of every state in exactly one slice of all shards.
void require_coverage(const OpenStep& step, int64_t tensor, StateKind kind) {
  const SavedTensor& saved = step.manifest.tensors[static_cast<size_t>(tensor)];
  const Box whole = Box::whole(saved.shape);
  std::vector<Box> boxes;
  for (const SliceRef ref : step.slices_of(tensor, kind)) boxes.push_back(step.slice(ref).box);
  if (boxes.size() == 1 && boxes[0] == whole) return;
  const std::optional<CoverageFault> fault = find_fault(whole, boxes);
  if (!fault) return;
  const bool is_twice = fault->kind == CoverageFault::Kind::kTwice;
  throw Error("invalid_field",
              is_twice ? "two slices hold the same elements" : "no slice holds an element")
      .with("path", join_path(step.directory, RootNames::kManifest))
      .with("field", "slices")
      .with("tensor", saved.name)
      .with("kind", state_kind_name(kind))
      .with("value", box_text(fault->box))
      .with("limit", "each element once");
}

}  // namespace

std::string hash_text(const Hash128& hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return text;
}

Error name_slice(Error error, const OpenStep& step, SliceRef ref) {
  const Slice& slice = step.slice(ref);
  return std::move(error)
      .with("tensor", step.manifest.tensors[slice.tensor].name)
      .with("kind", state_kind_name(slice.kind))
      .with("slice", ref.slice)
      .with("box", box_text(slice.box));
}

std::span<const SliceRef> OpenStep::slices_of(int64_t tensor, StateKind kind) const {
  const auto wanted = std::make_pair(static_cast<uint32_t>(tensor), kind);
  const auto key = [&](SliceRef ref) { return std::make_pair(slice(ref).tensor, slice(ref).kind); };
  const auto begin =
      std::lower_bound(order.begin(), order.end(), wanted,
                       [&](SliceRef ref, const auto& value) { return key(ref) < value; });
  const auto end =
      std::upper_bound(begin, order.end(), wanted,
                       [&](const auto& value, SliceRef ref) { return value < key(ref); });
  return {begin, end};
}

std::string OpenStep::shard_file(size_t file) const {
  return shard_name(manifest.files[file].ordinal);
}

void OpenStep::refuse_other_save(File& shard, size_t file) const {
  std::string bytes(static_cast<size_t>(kShardHeaderBytes), '\0');
  ShardHeader header;
  try {
    shard.read_exactly(bytes.data(), kShardHeaderBytes, 0, "corrupt");
    header = decode_shard_header(bytes, shard.path());
  } catch (const Error&) {
    return;
  }
  if (header.save_id == manifest.save_id) return;
  throw Error("save_id_mismatch", "the shard belongs to another save")
      .with("file", shard_file(file))
      .with("want", hash_text(manifest.save_id))
      .with("got", hash_text(header.save_id))
      .with("directory", directory);
}

std::shared_ptr<File> OpenStep::open_shard(size_t file) const {
  if (file < shards.size() && shards[file] != nullptr) return shards[file];
  const SavedFile& saved = manifest.files[file];
  const std::string name = shard_file(file);
  std::shared_ptr<File> shard = open_named_file(*this, name, saved.ordinal);
  const int64_t size = shard->size();
  if (size == saved.plt_bytes) return shard;
  refuse_other_save(*shard, file);
  throw size_error(*this, name, saved.plt_bytes, size);
}

StepReader::StepReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
StepReader::~StepReader() = default;

std::unique_ptr<StepReader> StepReader::open(Files& files, const std::string& directory,
                                             ShardAccess access) {
  auto state = std::make_unique<State>();
  OpenStep* step = state.get();
  step->files = &files;
  step->directory = directory;
  step->access = access;
  read_manifest(step);
  const std::vector<SavedFile>& saved = step->manifest.files;
  for (const SavedFile& file : saved) step->indexes.push_back(read_index(*step, file));
  std::vector<std::shared_ptr<File>> shards(saved.size());
  for (size_t i = 0; i < saved.size(); ++i) {
    std::shared_ptr<File> shard = step->open_shard(i);
    if (i < kKeptShards) shards[i] = std::move(shard);
  }
  step->shards = std::move(shards);
  sort_slices(step);
  for (size_t t = 0; t < step->manifest.tensors.size(); ++t) {
    for (const TensorState& one : step->manifest.tensors[t].states) {
      require_coverage(*step, static_cast<int64_t>(t), one.kind);
    }
  }
  return std::unique_ptr<StepReader>(new StepReader(std::move(state)));
}

const std::string& StepReader::directory() const { return state_->directory; }
const Manifest& StepReader::manifest() const { return state_->manifest; }
uint64_t StepReader::sequence() const { return state_->sequence; }
const std::vector<ShardIndex>& StepReader::indexes() const { return state_->indexes; }

int64_t StepReader::data_bytes() const {
  int64_t bytes = 0;
  for (const ShardIndex& index : state_->indexes) {
    for (const Slice& slice : index.slices) bytes += slice.bytes;
  }
  return bytes;
}

}  // namespace plait

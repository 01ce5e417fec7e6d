#include "checkpoint/store/shard_writer.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <tuple>
#include <utility>

#include "checkpoint/format/digest.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/store/root_files.h"
#include "kernels/base/error.h"
#include "kernels/base/mutation.h"

namespace plait {
namespace {

constexpr int64_t kWriteBytes = int64_t{8} << 20;   // of one pwrite
constexpr int64_t kHashBytes = int64_t{256} << 10;  // hashed and digested while a cache holds them
static_assert(kWriteBytes % kHashBytes == 0 && kHashBytes % sizeof(int64_t) == 0);

constexpr std::array<char, kShardHeaderBytes> kZeros{};

constexpr int64_t align_slice(int64_t position) {
  return (position + kShardHeaderBytes - 1) / kShardHeaderBytes * kShardHeaderBytes;
}

void check_source(const SliceSource& source, std::span<const Shape> shapes) {
  check(source.tensor < shapes.size(), "a slice belongs to a tensor");
  const Shape& shape = shapes[source.tensor];
  check(source.box.dims == shape.dims(), "a slice has the dims of its tensor");
  for (int dim = 0; dim < shape.dims(); ++dim) {
    const int64_t first = source.box.first[dim], size = source.box.size[dim];
    check(first >= 0 && size >= 0 && size <= shape[dim] - first, "a slice lies in its tensor");
  }
}

}  // namespace

struct ShardWriter::State {
  // Whatever throws leaves the files dead: they are written, synced and closed no more.
  enum class Phase { kNew, kWritten, kDead, kFinished };

  Files& files;
  std::string directory;
  ShardPlace place;
  int64_t step = 0;
  std::vector<Shape> shapes;
  std::vector<SliceSource> sources;
  std::vector<Slice> slices;  ///< one of each source
  int64_t file_bytes = 0;
  std::unique_ptr<File> file;
  Phase phase = Phase::kNew;

  void lay_out();
  void write_slice(size_t i, std::atomic<int64_t>* bytes_done,
                   const std::atomic<bool>* is_cancelled);
  void finish_shard(const Hash128& save_id);
  SavedFile finish_index(const Hash128& save_id);
};

void ShardWriter::State::lay_out() {
  int64_t end = kShardHeaderBytes;
  slices.reserve(sources.size());
  for (const SliceSource& source : sources) {
    Slice slice;
    slice.tensor = source.tensor;
    slice.kind = source.kind;
    slice.dtype = source.dtype;
    slice.box = source.box;
    slice.position = align_slice(end);
    slice.bytes = source.box.elements() * dtype_size(source.dtype);
    end = slice.position + slice.bytes;
    slices.push_back(slice);
  }
  file_bytes = end;
}

void ShardWriter::State::write_slice(size_t i, std::atomic<int64_t>* bytes_done,
                                     const std::atomic<bool>* is_cancelled) {
  Slice& slice = slices[i];
  const char* const data = static_cast<const char*>(sources[i].data);
  const Shape& shape = shapes[slice.tensor];
  const int64_t element = dtype_size(slice.dtype);
  const int64_t end = i == 0 ? kShardHeaderBytes : slices[i - 1].position + slices[i - 1].bytes;
  if (end < slice.position) file->pwrite(kZeros.data(), slice.position - end, end);

  XXH3_state_t hasher;
  XXH3_64bits_reset(&hasher);
  slice.digest = 0;
  for (int64_t done = 0; done < slice.bytes;) {
    if (is_cancelled != nullptr && is_cancelled->load()) {
      throw Error("cancelled", "the save was cancelled").with("path", file->path());
    }
    const int64_t chunk = std::min(kWriteBytes, slice.bytes - done);
    for (int64_t at = done; at < done + chunk; at += kHashBytes) {
      const int64_t part = std::min(kHashBytes, done + chunk - at);
      XXH3_64bits_update(&hasher, data + at, static_cast<size_t>(part));
      slice.digest +=
          digest_part(data + at, slice.dtype, slice.box, shape, at / element, part / element);
    }
    file->pwrite(data + done, chunk, slice.position + done);
    done += chunk;
    if (bytes_done != nullptr) bytes_done->fetch_add(chunk);
  }
  slice.hash = XXH3_64bits_digest(&hasher);
}

void ShardWriter::State::finish_shard(const Hash128& save_id) {
  ShardHeader header;
  header.save_id = save_id;
  header.ordinal = place.ordinal;
  header.file_bytes = file_bytes;
  header.slices = static_cast<int64_t>(slices.size());
  header.step = step;
  const std::string text = encode_shard_header(header);
  file->pwrite(text.data(), static_cast<int64_t>(text.size()), 0);
  if (!is_mutated(Mutation::kSkipSyncF1)) file->sync_data();
  close_written(std::move(file), file_bytes);
}

SavedFile ShardWriter::State::finish_index(const Hash128& save_id) {
  ShardIndex index;
  index.save_id = save_id;
  index.ordinal = place.ordinal;
  index.slices = slices;
  SavedFile saved;
  saved.ordinal = place.ordinal;
  saved.tensor = place.tensor;
  saved.pipeline = place.pipeline;
  saved.data = place.data;
  saved.plt_bytes = file_bytes;
  const std::string text = encode_index(index, &saved.idx_hash);
  saved.idx_bytes = static_cast<int64_t>(text.size());
  write_new_file(files, join_path(directory, index_name(place.ordinal)), text,
                 is_mutated(Mutation::kSkipSyncF2) ? Durability::kNone : Durability::kData);
  return saved;
}

ShardWriter::ShardWriter(Files& files, std::string directory, const ShardPlace& place, int64_t step,
                         std::span<const Shape> shapes, std::vector<SliceSource> sources)
    : state_(new State{files,
                       std::move(directory),
                       place,
                       step,
                       std::vector<Shape>(shapes.begin(), shapes.end()),
                       {},
                       {},
                       0,
                       nullptr,
                       State::Phase::kNew}) {
  for (const SliceSource& source : sources) {
    check_source(source, shapes);
    if (source.box.elements() == 0) continue;
    check(source.data != nullptr, "a slice has values");
    state_->sources.push_back(source);
  }
  const auto count = static_cast<int64_t>(state_->sources.size());
  if (count > FormatLimits::kSlices) {
    throw Error("too_large", "a shard has more slices than an index may hold")
        .with("ordinal", place.ordinal)
        .with("slices", count)
        .with("limit", FormatLimits::kSlices);
  }
  const auto key = [](const SliceSource& s) { return std::tie(s.tensor, s.kind, s.box.first); };
  std::stable_sort(state_->sources.begin(), state_->sources.end(),
                   [&](const SliceSource& a, const SliceSource& b) { return key(a) < key(b); });
  state_->lay_out();
}

ShardWriter::~ShardWriter() = default;

bool ShardWriter::is_empty() const { return state_->slices.empty(); }
int64_t ShardWriter::file_bytes() const { return is_empty() ? 0 : state_->file_bytes; }
const std::vector<Slice>& ShardWriter::slices() const { return state_->slices; }

void ShardWriter::write_slices(std::atomic<int64_t>* bytes_done,
                               const std::atomic<bool>* is_cancelled) {
  check(state_->phase == State::Phase::kNew, "the slices of a shard are written once");
  if (is_empty()) return;
  state_->phase = State::Phase::kDead;
  state_->file =
      state_->files.create_private(join_path(state_->directory, shard_name(state_->place.ordinal)));
  state_->file->allocate(state_->file_bytes);
  for (size_t i = 0; i < state_->slices.size(); ++i) {
    state_->write_slice(i, bytes_done, is_cancelled);
  }
  state_->phase = State::Phase::kWritten;
}

SavedFile ShardWriter::finish(const Hash128& save_id) {
  check(state_->phase == State::Phase::kWritten, "a shard ends once its slices are written");
  state_->phase = State::Phase::kDead;
  state_->finish_shard(save_id);
  SavedFile saved = state_->finish_index(save_id);
  state_->phase = State::Phase::kFinished;
  return saved;
}

}  // namespace plait

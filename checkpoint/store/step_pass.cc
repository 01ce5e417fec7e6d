#include "checkpoint/store/step_pass.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "checkpoint/format/shard_header.h"

namespace plait {
namespace {

constexpr int64_t kPieceBytes = int64_t{256} << 10;  // hashed, copied and digested while in cache

// Where malloc takes pages for a block, it hands out an address 16 bytes behind their start; to
// there some processors' kernel copies run at a quarter of their speed.
constexpr size_t kPage = 4096;

}  // namespace

struct ShardPass::Hash {
  XXH3_state_t state;
};

ShardPass::ShardPass(const OpenStep& step, size_t file, std::span<const uint32_t> slices,
                     bool reads_gaps)
    : step_(step),
      file_(file),
      slices_(slices),
      reads_gaps_(reads_gaps),
      hash_(std::make_unique<Hash>()) {}

ShardPass::~ShardPass() = default;

char* PassContext::room(int64_t bytes) {
  if (bytes > room_bytes_) {
    buffer_.reset();
    room_bytes_ = 0;
    size_t space = static_cast<size_t>(bytes) + kPage;
    buffer_ = std::make_unique_for_overwrite<char[]>(space);
    void* start = buffer_.get();
    room_ = static_cast<char*>(std::align(kPage, static_cast<size_t>(bytes), start, space));
    room_bytes_ = bytes;
  }
  return room_;
}

void PassContext::add_done(int64_t bytes) {
  if (bytes_done_ != nullptr) bytes_done_->fetch_add(bytes, std::memory_order_relaxed);
}

void PassContext::check_cancelled() const {
  if (is_cancelled_ != nullptr && is_cancelled_->load(std::memory_order_relaxed)) {
    throw Error("cancelled", "reading a checkpoint was cancelled");
  }
}

FileRange ShardPass::next_range(size_t* slice) const {
  const std::vector<Slice>& all = step_.indexes[file_].slices;
  // A gap below the alignment holds no slice.
  const int64_t align = int64_t{1} << step_.manifest.format.align_log2;
  FileRange range{all[slices_[*slice]].position, 0};
  do {
    const Slice& last = all[slices_[*slice]];
    range.end = last.position + last.bytes;
    ++*slice;
  } while (*slice < slices_.size() && all[slices_[*slice]].position - range.end < align);
  return range;
}

void ShardPass::run(File& shard, PassContext* context, SliceSink* sink) {
  context_ = context;
  sink_ = sink;
  size_t planned = 0;
  while (planned < slices_.size() || reads_gaps_) {
    const FileRange all{kShardHeaderBytes, step_.manifest.files[file_].plt_bytes};
    const FileRange range = reads_gaps_ ? all : next_range(&planned);
    for (int64_t at = range.begin; at < range.end; at += PassContext::kChunkBytes) {
      context_->check_cancelled();
      const FileRange chunk{at, std::min(at + PassContext::kChunkBytes, range.end)};
      if (const char* mapped = map_chunk(shard, chunk)) {
        deliver(chunk, mapped, true);
        continue;
      }
      char* data = context_->room(chunk.end - chunk.begin);
      deliver(chunk, data, read_chunk(shard, chunk, data));
    }
    if (reads_gaps_) return;
  }
}

/// Null: it is to be read.
const char* ShardPass::map_chunk(File& shard, const FileRange& chunk) {
  mapping_.reset();
  if (step_.access == ShardAccess::kMap) {
    mapping_ = shard.map(chunk.end - chunk.begin, chunk.begin);
  }
  return mapping_ != nullptr ? mapping_->data() : nullptr;
}

bool ShardPass::read_chunk(File& shard, const FileRange& chunk, char* data) {
  const int64_t want = chunk.end - chunk.begin;
  int64_t got = 0;
  try {
    got = shard.pread(data, want, chunk.begin);
  } catch (const Error& error) {
    sink_->lose(error, chunk.begin, want);
    return false;
  }
  if (got < want) sink_->lose(early_end(chunk, chunk.begin + got), chunk.begin, want);
  return got >= want;
}

Error ShardPass::early_end(const FileRange& chunk, int64_t end) const {
  Error error = Error("corrupt", "the file ends early")
                    .with("file", step_.shard_file(file_))
                    .with("offset", end)
                    .with("want", chunk.end)
                    .with("got", end)
                    .with("directory", step_.directory);
  const std::vector<Slice>& all = step_.indexes[file_].slices;
  for (size_t i = next_; i < slices_.size(); ++i) {
    const Slice& slice = all[slices_[i]];
    if (slice.position + slice.bytes <= end) continue;
    return name_slice(std::move(error), step_, {static_cast<uint32_t>(file_), slices_[i]});
  }
  return error;
}

void ShardPass::deliver(const FileRange& chunk, const char* data, bool is_there) {
  int64_t at = chunk.begin;
  while (at < chunk.end) {
    const bool is_behind = next_ == slices_.size();
    if (is_behind || at < next().position) {
      const int64_t end = is_behind ? chunk.end : std::min(chunk.end, next().position);
      if (reads_gaps_ && is_there) sink_->gap(data + (at - chunk.begin), at, end - at);
      at = end;
      continue;
    }
    const FileRange part{at, std::min(chunk.end, next().position + next().bytes)};
    deliver_slice(part, data + (at - chunk.begin), is_there);
    at = part.end;
  }
}

void ShardPass::deliver_slice(const FileRange& part, const char* data, bool is_there) {
  const Slice& slice = next();
  if (part.begin == slice.position) {
    sink_->begin({static_cast<uint32_t>(file_), slices_[next_]});
    is_whole_ = true;
    XXH3_64bits_reset(&hash_->state);
  }
  is_whole_ = is_whole_ && is_there;
  for (int64_t at = part.begin; is_there && at < part.end; at += kPieceBytes) {
    const char* piece = data + (at - part.begin);
    const int64_t bytes = std::min(kPieceBytes, part.end - at);
    XXH3_64bits_update(&hash_->state, piece, static_cast<size_t>(bytes));
    sink_->take(piece, at - slice.position, bytes);
  }
  context_->add_done(part.end - part.begin);
  if (part.end < slice.position + slice.bytes) return;
  if (is_whole_) {
    sink_->end(XXH3_64bits_digest(&hash_->state));
  } else {
    sink_->end(std::nullopt);
  }
  ++next_;
}

}  // namespace plait

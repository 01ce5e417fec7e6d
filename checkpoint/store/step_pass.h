// One ascending pass over one shard: chunks of 8 MiB, read through one buffer or mapped, each slice
// that is asked for hashed whole on the way and handed on in pieces that fit a cache.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "checkpoint/store/step_state.h"

namespace plait {

/// Receives what a pass reads.
class SliceSink {
 public:
  virtual ~SliceSink() = default;
  virtual void begin(SliceRef ref) = 0;
  /// Bytes [first, first + bytes) of the slice that was begun: whole elements, in order, without
  /// gaps but for what could not be read.
  virtual void take(const char* data, int64_t first, int64_t bytes) = 0;
  /// Nothing: some bytes of it could not be read.
  virtual void end(std::optional<uint64_t> hash) = 0;
  /// Bytes of the file that belong to no slice; only where the pass reads gaps.
  virtual void gap(const char* data, int64_t offset, int64_t bytes) = 0;
  /// A chunk could not be read. Throws it on, or returns and the pass goes on behind the chunk.
  virtual void lose(const Error& error, int64_t offset, int64_t bytes) = 0;
};

/// What a pass has room, time and ears for; one for each read.
class PassContext {
 public:
  static constexpr int64_t kChunkBytes = int64_t{8} << 20;

  PassContext(std::atomic<int64_t>* bytes_done, const std::atomic<bool>* is_cancelled)
      : bytes_done_(bytes_done), is_cancelled_(is_cancelled) {}
  char* room(int64_t bytes);  ///< valid until the next call
  void add_done(int64_t bytes);
  void check_cancelled() const;  ///< throws `cancelled`

 private:
  std::unique_ptr<char[]> buffer_;
  char* room_ = nullptr;  ///< in buffer_, at the start of a page
  int64_t room_bytes_ = 0;
  std::atomic<int64_t>* bytes_done_;
  const std::atomic<bool>* is_cancelled_;
};

/// Bytes [begin, end) of a file.
struct FileRange {
  int64_t begin = 0, end = 0;
};

/// `slices` of the index of `file`, ascending. Reads them and the padding between neighbours, but
/// no slice that is not named; `reads_gaps`: everything behind the header.
class ShardPass {
 public:
  ShardPass(const OpenStep& step, size_t file, std::span<const uint32_t> slices, bool reads_gaps);
  ~ShardPass();
  void run(File& shard, PassContext* context, SliceSink* sink);

 private:
  struct Hash;
  const Slice& next() const { return step_.indexes[file_].slices[slices_[next_]]; }
  FileRange next_range(size_t* slice) const;
  const char* map_chunk(File& shard, const FileRange& chunk);
  bool read_chunk(File& shard, const FileRange& chunk, char* data);
  Error early_end(const FileRange& chunk, int64_t end) const;
  void deliver(const FileRange& chunk, const char* data, bool is_there);
  void deliver_slice(const FileRange& part, const char* data, bool is_there);

  const OpenStep& step_;
  size_t file_;
  std::span<const uint32_t> slices_;
  bool reads_gaps_;
  PassContext* context_ = nullptr;
  SliceSink* sink_ = nullptr;
  std::unique_ptr<FileMapping> mapping_;  ///< of the chunk
  std::unique_ptr<Hash> hash_;            ///< of one slice after another
  size_t next_ = 0;                       ///< in slices_: the one that is being read or comes next
  bool is_whole_ = true;                  ///< nothing of it was lost so far
};

}  // namespace plait

#include <memory>
#include <mutex>
#include <utility>

#include "checkpoint/store/boxes.h"
#include "checkpoint/store/read_plan.h"
#include "checkpoint/store/step_pass.h"
#include "checkpoint/store/step_scatter.h"
#include "checkpoint/store/step_state.h"

namespace plait {
namespace {

constexpr int64_t kPartBytes = int64_t{32} << 20;  // of slices, at least, that a thread takes

/// What the targets have got so far. Any thread.
class Fill {
 public:
  explicit Fill(std::span<ReadTarget> targets) : targets_(targets), filled_(targets.size()) {
    for (ReadTarget& target : targets) target.digest = 0;
  }
  const ReadTarget& target(uint32_t i) const { return targets_[i]; }
  void add(std::span<const std::pair<uint32_t, ScatterCursor>> cursors) {
    const std::lock_guard lock(mutex_);
    for (const auto& [target, cursor] : cursors) {
      targets_[target].digest += cursor.digest();
      filled_[target] += cursor.filled();
    }
  }
  void require_full(const OpenStep& step) const {
    for (size_t i = 0; i < targets_.size(); ++i) {
      if (filled_[i] == targets_[i].box.elements()) continue;
      throw Error("invariant", "a target was not filled exactly once")
          .with("tensor", step.manifest.tensors[static_cast<size_t>(targets_[i].tensor)].name)
          .with("kind", state_kind_name(targets_[i].kind))
          .with("box", box_text(targets_[i].box))
          .with("got", filled_[i]);
    }
  }

 private:
  std::span<ReadTarget> targets_;
  std::mutex mutex_;
  std::vector<int64_t> filled_;  // [targets] elements
};

/// Contexts of passes, each with one thread at a time.
class ContextPool {
 public:
  ContextPool(std::atomic<int64_t>* bytes_done, const std::atomic<bool>* is_cancelled)
      : bytes_done_(bytes_done), is_cancelled_(is_cancelled) {}
  std::unique_ptr<PassContext> take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::make_unique<PassContext>(bytes_done_, is_cancelled_);
    std::unique_ptr<PassContext> context = std::move(free_.back());
    free_.pop_back();
    return context;
  }
  void give(std::unique_ptr<PassContext> context) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(context));
  }

 private:
  std::atomic<int64_t>* bytes_done_;
  const std::atomic<bool>* is_cancelled_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<PassContext>> free_;
};

/// Fills the targets of a read from a part of one shard.
class ScatterSink final : public SliceSink {
 public:
  /// `hits`: of this part.
  ScatterSink(const OpenStep& step, std::span<const ReadHit> hits, Fill* fill)
      : step_(step), hits_(hits), fill_(*fill) {}

  void open(File* shard) { shard_ = shard; }

  void begin(SliceRef ref) override {
    ref_ = ref;
    cursors_.clear();
    const Slice& slice = step_.slice(ref);
    while (next_ < hits_.size() && hits_[next_].slice.slice == ref.slice) {
      cursors_.push_back(
          {hits_[next_].target, {slice, step_.shape(slice), &fill_.target(hits_[next_].target)}});
      ++next_;
    }
  }

  void take(const char* data, int64_t first, int64_t bytes) override {
    const int64_t size = dtype_size(step_.slice(ref_).dtype);
    for (auto& [target, cursor] : cursors_) cursor.feed(data, first / size, bytes / size);
  }

  void end(std::optional<uint64_t> hash) override {
    const Slice& slice = step_.slice(ref_);
    if (hash != slice.hash) {
      step_.refuse_other_save(*shard_, ref_.file);
      throw name_slice(Error("corrupt", "a slice holds other bytes than were saved")
                           .with("file", step_.shard_file(ref_.file))
                           .with("offset", slice.position),
                       step_, ref_)
          .with("directory", step_.directory);
    }
    fill_.add(cursors_);
  }

  void gap(const char*, int64_t, int64_t) override {}
  void lose(const Error& error, int64_t, int64_t) override { throw error; }

 private:
  const OpenStep& step_;
  std::span<const ReadHit> hits_;
  Fill& fill_;
  File* shard_ = nullptr;
  SliceRef ref_;
  size_t next_ = 0;
  std::vector<std::pair<uint32_t, ScatterCursor>> cursors_;
};

/// Hits in runs of whole slices: of one shard each, and of not much more than kPartBytes.
std::vector<std::span<const ReadHit>> cut_hits(const OpenStep& step,
                                               std::span<const ReadHit> hits) {
  std::vector<std::span<const ReadHit>> parts;
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < hits.size(); ++i) {
    const SliceRef ref = hits[i].slice;
    const bool is_other_file = i > begin && hits[i - 1].slice.file != ref.file;
    const bool is_next = i == begin || is_other_file || hits[i - 1].slice.slice != ref.slice;
    if (is_other_file || (is_next && bytes >= kPartBytes)) {
      parts.push_back(hits.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    if (is_next) bytes += step.slice(ref).bytes;
  }
  if (begin < hits.size()) parts.push_back(hits.subspan(begin));
  return parts;
}

void read_part(const OpenStep& step, std::span<const ReadHit> hits, PassContext* context,
               Fill* fill) {
  const uint32_t file = hits.front().slice.file;
  std::vector<uint32_t> slices;
  for (const ReadHit& hit : hits) {
    if (slices.empty() || slices.back() != hit.slice.slice) slices.push_back(hit.slice.slice);
  }
  const std::shared_ptr<File> shard = step.open_shard(file);
  ScatterSink sink(step, hits, fill);
  sink.open(shard.get());
  ShardPass(step, file, slices, false).run(*shard, context, &sink);
}

}  // namespace

void StepReader::read(std::span<ReadTarget> targets, std::atomic<int64_t>* bytes_done,
                      const std::atomic<bool>* is_cancelled, const ReadCrew* crew) const {
  const OpenStep& step = *state_;
  Fill fill(targets);
  const std::vector<ReadHit> hits = plan_read(step, targets);
  const std::vector<std::span<const ReadHit>> parts = cut_hits(step, hits);
  ContextPool contexts(bytes_done, is_cancelled);
  const auto work = [&](size_t i) {
    std::unique_ptr<PassContext> context = contexts.take();
    read_part(step, parts[i], context.get(), &fill);
    contexts.give(std::move(context));
  };
  if (crew != nullptr) {
    (*crew)(parts.size(), work);
  } else {
    for (size_t i = 0; i < parts.size(); ++i) work(i);
  }
  fill.require_full(step);
}

void StepReader::read_whole(int64_t tensor, StateKind kind, void* data) const {
  const Manifest& manifest = state_->manifest;
  const TensorState* saved = manifest.state(tensor, kind);
  check(saved != nullptr, "a state that the step has");
  const SavedTensor& named = manifest.tensors[static_cast<size_t>(tensor)];
  ReadTarget target{tensor, kind, Box::whole(named.shape), saved->dtype, data, 0};
  read({&target, 1});
  if (target.digest == saved->digest) return;
  throw Error("digest_mismatch", "the digest of a tensor is not the one that was saved")
      .with("tensor", named.name)
      .with("kind", state_kind_name(kind))
      .with("want", saved->digest)
      .with("got", target.digest)
      .with("directory", state_->directory);
}

std::unique_ptr<FileMapping> StepReader::map_whole(int64_t tensor, StateKind kind) const {
  const std::span<const SliceRef> slices = state_->slices_of(tensor, kind);
  if (slices.size() != 1) return nullptr;
  const Slice& slice = state_->slice(slices[0]);
  std::unique_ptr<FileMapping> mapping =
      state_->open_shard(slices[0].file)->map(slice.bytes, slice.position);
  if (mapping != nullptr) read_whole(tensor, kind, nullptr);
  return mapping;
}

}  // namespace plait

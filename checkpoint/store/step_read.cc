#include <algorithm>
#include <utility>

#include "checkpoint/store/boxes.h"
#include "checkpoint/store/read_plan.h"
#include "checkpoint/store/step_pass.h"
#include "checkpoint/store/step_scatter.h"
#include "checkpoint/store/step_state.h"

namespace plait {
namespace {

/// Fills the targets of a read from one shard.
class ScatterSink final : public SliceSink {
 public:
  /// `hits`: of this shard; `filled` [targets]: elements, added to.
  ScatterSink(const OpenStep& step, std::span<const ReadHit> hits, std::span<ReadTarget> targets,
              std::vector<int64_t>* filled)
      : step_(step), hits_(hits), targets_(targets), filled_(*filled) {}

  void open(File* shard) { shard_ = shard; }

  void begin(SliceRef ref) override {
    ref_ = ref;
    cursors_.clear();
    const Slice& slice = step_.slice(ref);
    while (next_ < hits_.size() && hits_[next_].slice.slice == ref.slice) {
      cursors_.push_back(
          {hits_[next_].target, {slice, step_.shape(slice), &targets_[hits_[next_].target]}});
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
    for (const auto& [target, cursor] : cursors_) filled_[target] += cursor.filled();
  }

  void gap(const char*, int64_t, int64_t) override {}
  void lose(const Error& error, int64_t, int64_t) override { throw error; }

 private:
  const OpenStep& step_;
  std::span<const ReadHit> hits_;
  std::span<ReadTarget> targets_;
  std::vector<int64_t>& filled_;
  File* shard_ = nullptr;
  SliceRef ref_;
  size_t next_ = 0;
  std::vector<std::pair<uint32_t, ScatterCursor>> cursors_;
};

}  // namespace

void StepReader::read(std::span<ReadTarget> targets, std::atomic<int64_t>* bytes_done,
                      const std::atomic<bool>* is_cancelled) const {
  for (ReadTarget& target : targets) target.digest = 0;
  const OpenStep& step = *state_;
  const std::vector<ReadHit> hits = plan_read(step, targets);
  std::vector<int64_t> filled(targets.size());
  std::vector<uint32_t> slices;
  PassContext context(bytes_done, is_cancelled);
  for (size_t begin = 0, end = 0; begin < hits.size(); begin = end) {
    const uint32_t file = hits[begin].slice.file;
    slices.clear();
    for (; end < hits.size() && hits[end].slice.file == file; ++end) {
      if (slices.empty() || slices.back() != hits[end].slice.slice) {
        slices.push_back(hits[end].slice.slice);
      }
    }
    const std::shared_ptr<File> shard = step.open_shard(file);
    ScatterSink sink(step, std::span(hits).subspan(begin, end - begin), targets, &filled);
    sink.open(shard.get());
    ShardPass(step, file, slices, false).run(*shard, &context, &sink);
  }
  for (size_t i = 0; i < targets.size(); ++i) {
    if (filled[i] == targets[i].box.elements()) continue;
    throw Error("invariant", "a target was not filled exactly once")
        .with("tensor", step.manifest.tensors[static_cast<size_t>(targets[i].tensor)].name)
        .with("kind", state_kind_name(targets[i].kind))
        .with("box", box_text(targets[i].box))
        .with("got", filled[i]);
  }
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

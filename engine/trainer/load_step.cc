// A step of the native format as the source of a load.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <tuple>
#include <utility>

#include "checkpoint/store/step_reader.h"
#include "engine/trainer/io_threads.h"
#include "engine/trainer/load_source.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kScratchElements = int64_t{16} << 20;  // 64 MiB of float32

bool is_weight(StateKind kind) { return kind == StateKind::kParam || kind == StateKind::kMaster; }

class StepLoadSource final : public LoadSource {
 public:
  StepLoadSource(std::unique_ptr<StepReader> reader, const IoThreads& threads)
      : reader_(std::move(reader)), crew_([threads](size_t count, FunctionRef<void(size_t)> work) {
          threads.run(count, work);
        }) {}

  std::string identity() const override;
  ResumeDecision compare(const LoadingRun& run) override;
  DigestSums read(std::span<const StatePiece> pieces, bool is_live,
                  const std::atomic<bool>& is_cancelled) override;
  void verify(const std::atomic<bool>& is_cancelled) override;
  void prove(const DigestSums& sums) const override;
  const Manifest* manifest() const override { return &reader_->manifest(); }
  std::vector<SavedProperty> properties() const override { return reader_->manifest().properties; }
  void report(JsonObject* report) const override;

 private:
  const SavedTensor& tensor_of(const StatePiece& piece) const {
    return run_.expected->tensors[static_cast<size_t>(piece.tensor)];
  }
  ReadTarget target_of(const StatePiece& piece, bool is_live) const;
  void read_finite(std::span<const StatePiece> pieces, std::vector<ReadTarget>* targets,
                   const std::atomic<bool>& is_cancelled) const;
  void read_batch(std::span<const StatePiece> pieces, std::span<const size_t> batch,
                  std::vector<ReadTarget>* targets, const std::atomic<bool>& is_cancelled) const;
  void compare_copies(std::span<const StatePiece> pieces,
                      const std::vector<ReadTarget>& targets) const;

  std::unique_ptr<StepReader> reader_;
  ReadCrew crew_;
  LoadingRun run_;
  std::vector<int64_t> places_;  // in the file, by tensor of the run
};

std::string StepLoadSource::identity() const {
  const Hash128& id = reader_->manifest().save_id;
  char text[80];
  std::snprintf(text, sizeof text, "step %016llx%016llx %llu",
                static_cast<unsigned long long>(id.high), static_cast<unsigned long long>(id.low),
                static_cast<unsigned long long>(reader_->sequence()));
  return text;
}

ResumeDecision StepLoadSource::compare(const LoadingRun& run) {
  const Manifest& file = reader_->manifest();
  ResumeDecision decision = compare_runs(file, *run.expected, *run.config, *run.settings);
  const bool has_same_data =
      run.train != nullptr && !decision.is_weights_only &&
      compare_data(file.data, run.expected->data, {}, run.settings->checkpoint);
  if (has_same_data) seek_data(*run.train, file.data, file.progress.samples);
  run_ = run;
  places_.clear();
  for (const SavedTensor& tensor : run.expected->tensors) places_.push_back(file.find(tensor.name));
  return decision;
}

ReadTarget StepLoadSource::target_of(const StatePiece& piece, bool is_live) const {
  ReadTarget target;
  target.tensor = places_[static_cast<size_t>(piece.tensor)];
  const TensorState* state = stored_state(reader_->manifest(), target.tensor, piece.kind);
  check(state != nullptr, "a run takes only states that the file has");
  target.kind = state->kind;
  target.box = piece.box;
  target.data = is_live ? piece.data : nullptr;
  return target;
}

DigestSums StepLoadSource::read(std::span<const StatePiece> pieces, bool is_live,
                                const std::atomic<bool>& is_cancelled) {
  std::vector<ReadTarget> targets;
  targets.reserve(pieces.size());
  for (const StatePiece& piece : pieces) targets.push_back(target_of(piece, is_live));
  const bool wants_finite = run_.settings->checkpoint.check_finite;
  if (wants_finite && !is_live) {
    read_finite(pieces, &targets, is_cancelled);
  } else {
    reader_->read(targets, nullptr, &is_cancelled, &crew_);
  }
  for (const StatePiece& piece : pieces) {
    if (!wants_finite || !is_live || !is_weight(piece.kind)) continue;
    check_finite_values(piece, piece.data, tensor_of(piece));
  }
  compare_copies(pieces, targets);
  DigestSums sums(run_.expected->tensors.size() * kDigestKinds);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (pieces[i].is_owned)
      sums[digest_slot(pieces[i].tensor, pieces[i].kind)] += targets[i].digest;
  }
  return sums;
}

/// Weights pass through scratch memory, a few pieces at a time; moments go nowhere.
void StepLoadSource::read_finite(std::span<const StatePiece> pieces,
                                 std::vector<ReadTarget>* targets,
                                 const std::atomic<bool>& is_cancelled) const {
  std::vector<size_t> weights, others;
  int64_t elements = 0;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!is_weight(pieces[i].kind)) {
      others.push_back(i);
      continue;
    }
    const int64_t more = pieces[i].box.elements();
    if (elements + more > kScratchElements && !weights.empty()) {
      read_batch(pieces, weights, targets, is_cancelled);
      weights.clear();
      elements = 0;
    }
    weights.push_back(i);
    elements += more;
  }
  read_batch(pieces, weights, targets, is_cancelled);
  std::vector<ReadTarget> rest;
  for (const size_t i : others) rest.push_back((*targets)[i]);
  reader_->read(rest, nullptr, &is_cancelled, &crew_);
  for (size_t i = 0; i < others.size(); ++i) (*targets)[others[i]].digest = rest[i].digest;
}

void StepLoadSource::read_batch(std::span<const StatePiece> pieces, std::span<const size_t> batch,
                                std::vector<ReadTarget>* targets,
                                const std::atomic<bool>& is_cancelled) const {
  int64_t elements = 0;
  for (const size_t i : batch) elements += pieces[i].box.elements();
  std::vector<float> scratch(static_cast<size_t>(elements));
  std::vector<ReadTarget> some;
  float* next = scratch.data();
  for (const size_t i : batch) {
    some.push_back((*targets)[i]);
    some.back().data = next;
    next += pieces[i].box.elements();
  }
  reader_->read(some, nullptr, &is_cancelled, &crew_);
  for (size_t i = 0; i < batch.size(); ++i) {
    check_finite_values(pieces[batch[i]], static_cast<const float*>(some[i].data),
                        tensor_of(pieces[batch[i]]));
    (*targets)[batch[i]].digest = some[i].digest;
  }
}

/// Ranks of one process that hold the same box have read the same.
void StepLoadSource::compare_copies(std::span<const StatePiece> pieces,
                                    const std::vector<ReadTarget>& targets) const {
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  const auto key = [&](size_t i) {
    const StatePiece& piece = pieces[i];
    return std::tie(piece.tensor, piece.kind, piece.box.first, piece.box.size);
  };
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return key(a) < key(b); });
  for (size_t i = 1; i < order.size(); ++i) {
    const size_t a = order[i - 1], b = order[i];
    if (key(a) != key(b) || targets[a].digest == targets[b].digest) continue;
    throw Error("digest_mismatch", "two ranks that hold the same values have read others")
        .with("tensor", tensor_of(pieces[a]).name)
        .with("kind", state_kind_name(pieces[a].kind))
        .with("want", targets[a].digest)
        .with("got", targets[b].digest)
        .with("directory", reader_->directory());
  }
}

void StepLoadSource::verify(const std::atomic<bool>& is_cancelled) {
  const std::vector<Damage> damage = reader_->verify(true, nullptr, &is_cancelled);
  if (damage.empty()) return;
  throw Error("corrupt", "the step is damaged: " + damage[0].what)
      .with("file", damage[0].file)
      .with("offset", damage[0].offset)
      .with("damages", damage.size())
      .with("directory", reader_->directory());
}

void StepLoadSource::prove(const DigestSums& sums) const {
  const Manifest& file = reader_->manifest();
  for (size_t i = 0; i < places_.size(); ++i) {
    const auto tensor = static_cast<int64_t>(i);
    for (const TensorState& wanted : run_.expected->tensors[i].states) {
      const TensorState* saved = stored_state(file, places_[i], wanted.kind);
      const uint64_t got = sums[digest_slot(tensor, wanted.kind)];
      if (saved != nullptr && saved->digest == got) continue;
      throw Error("digest_mismatch", "the ranks hold other values than were saved")
          .with("tensor", run_.expected->tensors[i].name)
          .with("kind", state_kind_name(saved != nullptr ? saved->kind : wanted.kind))
          .with("want", saved != nullptr ? saved->digest : 0)
          .with("got", got)
          .with("directory", reader_->directory());
    }
  }
}

void StepLoadSource::report(JsonObject* report) const {
  const Manifest& file = reader_->manifest();
  report->field("directory", reader_->directory())
      .field("format", "plait")
      .field("step", file.progress.step)
      .field("sequence", reader_->sequence())
      .field("weights_only", run_.settings->checkpoint.weights_only)
      .field("tensors", file.tensors.size())
      .field("files", file.files.size())
      .field("bytes", reader_->data_bytes());
}

}  // namespace

size_t digest_slot(int64_t tensor, StateKind kind) {
  return static_cast<size_t>(tensor * kDigestKinds + static_cast<int64_t>(kind) -
                             static_cast<int64_t>(StateKind::kParam));
}

void check_finite_values(const StatePiece& piece, const float* values, const SavedTensor& tensor) {
  const int64_t count = piece.box.elements();
  const float* bad =
      std::find_if(values, values + count, [](float value) { return !std::isfinite(value); });
  if (bad == values + count) return;
  int64_t rest = bad - values, index = 0, stride = 1;
  for (int dim = piece.box.dims - 1; dim >= 0; --dim) {
    const auto d = static_cast<size_t>(dim);
    index += (piece.box.first[d] + rest % piece.box.size[d]) * stride;
    rest /= piece.box.size[d];
    stride *= tensor.shape[dim];
  }
  throw Error("nonfinite_weights", "a weight is not finite")
      .with("tensor", tensor.name)
      .with("index", index);
}

std::unique_ptr<LoadSource> open_step_source(Files& files, const std::string& directory,
                                             const CheckpointConfig& checkpoint,
                                             const ThreadHooks& hooks) {
  const ShardAccess access = checkpoint.mmap ? ShardAccess::kMap : ShardAccess::kRead;
  return std::make_unique<StepLoadSource>(StepReader::open(files, directory, access),
                                          IoThreads(checkpoint.io_threads, hooks));
}

}  // namespace plait

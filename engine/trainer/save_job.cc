#include "engine/trainer/save_job.h"

#include <algorithm>
#include <cstring>

namespace plait {
namespace {

constexpr int64_t kStagedAtOnce = int64_t{1} << 18;  // elements

struct StagedRun {
  const float* from = nullptr;
  float* to = nullptr;
  int64_t elements = 0;
};

}  // namespace

float* SaveStaging::take(size_t local, int64_t elements) {
  if (buffers_.size() <= local) buffers_.resize(local + 1);
  Buffer& buffer = buffers_[local];
  const int64_t bytes = elements * static_cast<int64_t>(sizeof(float));
  if (buffer.bytes() < bytes) {
    buffer = {};
    buffer = Buffer(bytes, MemoryCategory::kWorkspace, nullptr);
  }
  return reinterpret_cast<float*>(buffer.data());
}

std::vector<SliceSource> SaveShard::sources() const {
  std::vector<SliceSource> sources;
  const float* staged_piece = staged;
  for (const StatePiece& piece : pieces) {
    const float* data = staged == nullptr ? piece.data : staged_piece;
    sources.push_back(
        {static_cast<uint32_t>(piece.tensor), piece.kind, DType::kFloat32, piece.box, data});
    if (staged != nullptr) staged_piece += piece.box.elements();
  }
  return sources;
}

int64_t SaveJob::local_bytes() const {
  int64_t elements = 0;
  for (const SaveShard& shard : shards) elements += shard.elements;
  return elements * dtype_size(DType::kFloat32);
}

int64_t SaveJob::world_bytes() const {
  int64_t bytes = 0;
  for (const SavedTensor& tensor : manifest.tensors) {
    for (const TensorState& state : tensor.states)
      bytes += state.elements * dtype_size(state.dtype);
  }
  return bytes;
}

void stage(Rank& rank, const SaveShard& shard) {
  std::vector<StagedRun> runs;
  float* to = shard.staged;
  for (const StatePiece& piece : shard.pieces) {
    const int64_t elements = piece.box.elements();
    for (int64_t done = 0; done < elements; done += kStagedAtOnce) {
      runs.push_back({piece.data + done, to + done, std::min(kStagedAtOnce, elements - done)});
    }
    to += elements;
  }
  rank.device().pool().run(static_cast<int64_t>(runs.size()), [&](int64_t i, int) {
    const StagedRun& run = runs[static_cast<size_t>(i)];
    std::memcpy(run.to, run.from, static_cast<size_t>(run.elements) * sizeof(float));
  });
}

SaveShard make_save_shard(Rank& rank, bool weights_only) {
  SaveShard shard;
  shard.place = {static_cast<uint32_t>(rank.rank()), static_cast<uint32_t>(rank.at().tensor),
                 static_cast<uint32_t>(rank.at().pipeline), static_cast<uint32_t>(rank.at().data)};
  for (StatePiece& piece : state_pieces(rank, sorted_tensors(rank.tensors()), weights_only)) {
    if (!piece.is_owned) continue;
    shard.elements += piece.box.elements();
    shard.pieces.push_back(std::move(piece));
  }
  return shard;
}

}  // namespace plait

#include "checkpoint/format/manifest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <bit>
#include <cstddef>

#include "checkpoint/format/hash.h"
#include "checkpoint/format/little_endian.h"

namespace plait {
namespace {

class IdentityHasher {
 public:
  IdentityHasher() { XXH3_128bits_reset(&state_); }
  void add(std::string_view bytes) { XXH3_128bits_update(&state_, bytes.data(), bytes.size()); }
  void number(uint64_t value) { XXH3_128bits_update(&state_, &value, sizeof value); }
  // By sign.
  void integer(int64_t value) { number(static_cast<uint64_t>(value)); }
  void real(double value) { number(std::bit_cast<uint64_t>(value)); }
  void text(std::string_view value) { number(xxh3_64(value)); }
  Hash128 result() const {
    const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
    return {hash.low64, hash.high64};
  }

 private:
  XXH3_state_t state_;
};

void add_states(const SavedTensor& tensor, IdentityHasher* hasher) {
  const uint64_t name = xxh3_64(tensor.name);
  for (const TensorState& state : tensor.states) {
    std::string record;
    append_integer(&record, name);
    append_integer(&record, static_cast<uint16_t>(state.kind));
    append_integer(&record, static_cast<uint8_t>(state.dtype));
    append_integer(&record, static_cast<uint8_t>(tensor.shape.dims()));
    append_integer(&record, uint32_t{0});
    for (int d = 0; d < Shape::kMaxDims; ++d) {
      append_integer(&record, d < tensor.shape.dims() ? tensor.shape[d] : int64_t{1});
    }
    append_integer(&record, state.digest);
    hasher->add(record);
  }
}

void add_training(const Manifest& manifest, IdentityHasher* hasher) {
  const SavedProgress& progress = manifest.progress;
  hasher->integer(progress.step);
  hasher->integer(progress.updates);
  hasher->integer(progress.samples);
  hasher->integer(progress.tokens);
  hasher->integer(progress.skipped);
  hasher->integer(progress.overflows);
  hasher->real(progress.lr);
  const SavedScaler scaler = manifest.scaler.is_present ? manifest.scaler : SavedScaler{};
  hasher->real(scaler.scale);
  hasher->integer(scaler.good_steps);
  hasher->integer(scaler.hysteresis_left);
  hasher->text(manifest.random.algorithm);
  hasher->integer(manifest.random.key_version);
  hasher->number(manifest.random.seed);
  const SavedData& data = manifest.data;
  hasher->text(data.order);
  hasher->integer(data.order_version);
  hasher->number(data.seed);
  hasher->number(data.parts.size());
  for (const SavedDataset& part : data.parts) {
    hasher->number(part.fingerprint);
    hasher->number(part.tokens);
    hasher->number(part.drawn);
    hasher->number(part.weight);
    hasher->integer(part.credit);
  }
}

}  // namespace

void seal_identity(Manifest* manifest) {
  IdentityHasher state;
  for (const SavedTensor& tensor : manifest->tensors) add_states(tensor, &state);
  add_training(*manifest, &state);
  manifest->state_digest = state.result();

  IdentityHasher save;
  save.number(manifest->state_digest.low);
  save.number(manifest->state_digest.high);
  save.integer(manifest->format.major);
  save.integer(manifest->format.minor);
  save.integer(manifest->format.align_log2);
  const SavedLayout& layout = manifest->layout;
  save.integer(layout.tensor);
  save.integer(layout.pipeline);
  save.integer(layout.data);
  save.integer(layout.interleave);
  save.integer(layout.zero);
  save.number(layout.sequence_parallel ? 1 : 0);
  save.number(layout.stage_layers.size());
  for (const int64_t layers : layout.stage_layers) save.integer(layers);
  manifest->save_id = save.result();
}

}  // namespace plait

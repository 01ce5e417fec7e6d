#include <algorithm>
#include <numeric>
#include <tuple>
#include <utility>

#include "checkpoint/format/digest.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/store/root_files.h"
#include "checkpoint/store/step_pass.h"
#include "checkpoint/store/step_state.h"

namespace plait {
namespace {

/// What the slices of one (tensor, kind) have shown so far.
struct StateProof {
  const TensorState* saved = nullptr;
  uint64_t digest = 0;
  bool is_damaged = false;  ///< its digest would say nothing new
};

class StateProofs {
 public:
  explicit StateProofs(const Manifest& manifest) {
    for (const SavedTensor& tensor : manifest.tensors) {
      first_.push_back(proofs_.size());
      for (const TensorState& state : tensor.states) proofs_.push_back({&state});
    }
  }
  StateProof& of(const Slice& slice) {
    size_t i = first_[slice.tensor];
    while (proofs_[i].saved->kind != slice.kind) ++i;
    return proofs_[i];
  }
  const StateProof& at(size_t tensor, size_t state) const {
    return proofs_[first_[tensor] + state];
  }

 private:
  std::vector<size_t> first_;  // [tensors]
  std::vector<StateProof> proofs_;
};

bool is_all_zero(const char* data, int64_t bytes) {
  return std::all_of(data, data + bytes, [](char c) { return c == 0; });
}

/// Collects what is wrong with the slices and gaps of one shard.
class ProofSink final : public SliceSink {
 public:
  ProofSink(const OpenStep& step, std::string file, StateProofs* proofs,
            std::vector<Damage>* damage)
      : step_(step), file_(std::move(file)), proofs_(*proofs), damage_(*damage) {}

  void begin(SliceRef ref) override {
    ref_ = ref;
    digest_ = 0;
    is_zero_ = true;
  }

  void take(const char* data, int64_t first, int64_t bytes) override {
    const Slice& slice = step_.slice(ref_);
    const int64_t size = dtype_size(slice.dtype);
    digest_ +=
        digest_part(data, slice.dtype, slice.box, step_.shape(slice), first / size, bytes / size);
    if (proofs_.of(slice).saved->is_zero) is_zero_ = is_zero_ && is_all_zero(data, bytes);
  }

  void end(std::optional<uint64_t> hash) override {
    const Slice& slice = step_.slice(ref_);
    StateProof& proof = proofs_.of(slice);
    proof.digest += digest_;
    if (hash == slice.hash && digest_ == slice.digest && is_zero_) return;
    proof.is_damaged = true;
    if (!hash) return;  // said when it was lost
    const char* what = "a slice that its state calls zero is not";
    if (digest_ != slice.digest) what = "the digest of a slice is not the one in its index";
    if (*hash != slice.hash) what = "a slice holds other bytes than were saved";
    add(slice.position, name_slice(Error("corrupt", what), step_, ref_).message());
  }

  void gap(const char* data, int64_t offset, int64_t bytes) override {
    const bool is_known = offset == gap_end_ && is_gap_damaged_;  // the same gap, next chunk
    gap_end_ = offset + bytes;
    is_gap_damaged_ = is_known || !is_all_zero(data, bytes);
    if (is_known || !is_gap_damaged_) return;
    const char* first = std::find_if(data, data + bytes, [](char c) { return c != 0; });
    add(offset + (first - data), "corrupt: a gap between slices is not zero");
  }

  void lose(const Error& error, int64_t offset, int64_t bytes) override {
    const bool is_known = offset == lost_end_;  // chunk after chunk of a file that ends early
    lost_end_ = offset + bytes;
    if (!is_known) add(offset, error.message());
  }

 private:
  void add(int64_t offset, std::string what) {
    damage_.push_back({file_, offset, std::move(what)});
  }

  const OpenStep& step_;
  std::string file_;
  StateProofs& proofs_;
  std::vector<Damage>& damage_;
  SliceRef ref_;
  uint64_t digest_ = 0;
  bool is_zero_ = true, is_gap_damaged_ = false;
  int64_t gap_end_ = -1, lost_end_ = -1;
};

void verify_header(const OpenStep& step, size_t file, File& shard, std::vector<Damage>* damage) {
  const SavedFile& saved = step.manifest.files[file];
  const std::string name = step.shard_file(file);
  ShardHeader header;
  try {
    std::string bytes(static_cast<size_t>(kShardHeaderBytes), '\0');
    shard.read_exactly(bytes.data(), kShardHeaderBytes, 0, "corrupt");
    header = decode_shard_header(bytes, name);
  } catch (const Error& error) {
    damage->push_back({name, 0, error.message()});
    return;
  }
  const auto compare = [&](int64_t offset, const char* field, const std::string& want,
                           const std::string& got) {
    if (want == got) return;
    Error error = Error("corrupt", "the header of a shard is not that of its index")
                      .with("field", field)
                      .with("want", want)
                      .with("got", got);
    damage->push_back({name, offset, error.message()});
  };
  const ShardIndex& index = step.indexes[file];
  compare(8, "major", std::to_string(index.major), std::to_string(header.major));
  compare(10, "minor", std::to_string(index.minor), std::to_string(header.minor));
  compare(16, "save_id", hash_text(step.manifest.save_id), hash_text(header.save_id));
  compare(32, "ordinal", std::to_string(saved.ordinal), std::to_string(header.ordinal));
  compare(36, "align_log2", std::to_string(step.manifest.format.align_log2),
          std::to_string(header.align_log2));
  compare(40, "file bytes", std::to_string(saved.plt_bytes), std::to_string(header.file_bytes));
  compare(48, "slices", std::to_string(index.slices.size()), std::to_string(header.slices));
  compare(56, "step", std::to_string(step.manifest.progress.step), std::to_string(header.step));
}

/// What stands behind the last slice is no gap.
void verify_end(const OpenStep& step, size_t file, std::vector<Damage>* damage) {
  const std::vector<Slice>& slices = step.indexes[file].slices;
  const int64_t end =
      slices.empty() ? kShardHeaderBytes : slices.back().position + slices.back().bytes;
  if (end == step.manifest.files[file].plt_bytes) return;
  damage->push_back({step.shard_file(file), end, "corrupt: bytes stand behind the last slice"});
}

void verify_shard(const OpenStep& step, size_t file, bool is_full, PassContext* context,
                  StateProofs* proofs, std::vector<Damage>* damage) {
  std::vector<uint32_t> slices(step.indexes[file].slices.size());
  std::iota(slices.begin(), slices.end(), 0u);
  std::shared_ptr<File> shard;
  try {
    shard = step.open_shard(file);
  } catch (const Error& error) {
    damage->push_back({step.shard_file(file), 0, error.message()});
    for (const Slice& slice : step.indexes[file].slices) proofs->of(slice).is_damaged = true;
    return;
  }
  if (is_full) {
    verify_header(step, file, *shard, damage);
    verify_end(step, file, damage);
  }
  ProofSink sink(step, step.shard_file(file), proofs, damage);
  ShardPass(step, file, slices, is_full).run(*shard, context, &sink);
}

void verify_states(const OpenStep& step, const StateProofs& proofs, std::vector<Damage>* damage) {
  for (size_t t = 0; t < step.manifest.tensors.size(); ++t) {
    const SavedTensor& tensor = step.manifest.tensors[t];
    for (size_t s = 0; s < tensor.states.size(); ++s) {
      const StateProof& proof = proofs.at(t, s);
      if (proof.is_damaged || proof.digest == proof.saved->digest) continue;
      Error error = Error("digest_mismatch", "the slices do not add up to the digest of a tensor")
                        .with("tensor", tensor.name)
                        .with("kind", state_kind_name(proof.saved->kind))
                        .with("want", proof.saved->digest)
                        .with("got", proof.digest);
      damage->push_back({RootNames::kManifest, 0, error.message()});
    }
  }
}

void verify_identity(const Manifest& manifest, std::vector<Damage>* damage) {
  Manifest sealed = manifest;
  seal_identity(&sealed);
  const auto compare = [&](const char* field, const Hash128& want, const Hash128& got) {
    if (want == got) return;
    Error error = Error("corrupt", "an identity does not follow from the other fields")
                      .with("field", field)
                      .with("want", hash_text(want))
                      .with("got", hash_text(got));
    damage->push_back({RootNames::kManifest, 0, error.message()});
  };
  compare("state_digest", sealed.state_digest, manifest.state_digest);
  compare("save_id", sealed.save_id, manifest.save_id);
}

void verify_names(const OpenStep& step, std::vector<Damage>* damage) {
  std::vector<std::string> known = {RootNames::kManifest, RootNames::kInfo};
  for (const SavedFile& file : step.manifest.files) {
    known.push_back(shard_name(file.ordinal));
    known.push_back(index_name(file.ordinal));
  }
  std::sort(known.begin(), known.end());
  for (const std::string& name : step.files->list(step.directory)) {
    if (std::binary_search(known.begin(), known.end(), name)) continue;
    damage->push_back({name, 0, "invalid_file: no one names this file"});
  }
}

}  // namespace

std::vector<Damage> StepReader::verify(bool is_full, std::atomic<int64_t>* bytes_done,
                                       const std::atomic<bool>* is_cancelled) const {
  const OpenStep& step = *state_;
  std::vector<Damage> damage;
  StateProofs proofs(step.manifest);
  PassContext context(bytes_done, is_cancelled);
  for (size_t file = 0; file < step.indexes.size(); ++file) {
    verify_shard(step, file, is_full, &context, &proofs, &damage);
  }
  verify_states(step, proofs, &damage);
  verify_identity(step.manifest, &damage);
  if (is_full) verify_names(step, &damage);
  std::stable_sort(damage.begin(), damage.end(), [](const Damage& a, const Damage& b) {
    return std::tie(a.file, a.offset) < std::tie(b.file, b.offset);
  });
  return damage;
}

}  // namespace plait

#include "engine/trainer/row_digests.h"

#include <unordered_map>
#include <utility>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/comm/wire_bytes.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr uint8_t kHasTargets = 1, kHasDocuments = 2;

uint64_t add_row(const BatchTensor& tensor, size_t row, uint64_t hash) {
  if (tensor.data == nullptr) return hash;
  return XXH3_64bits_withSeed(tensor.data + static_cast<int64_t>(row) * tensor.columns,
                              static_cast<size_t>(tensor.columns) * sizeof(int32_t), hash);
}

std::string tensor_names(uint8_t flags) {
  std::string names = "tokens";
  if ((flags & kHasTargets) != 0) names += ",targets";
  if ((flags & kHasDocuments) != 0) names += ",documents";
  return names;
}

Error differing(const char* sentence, const WorldPeer& one, const WorldPeer& other) {
  return Error("mismatch", sentence)
      .with("rank", one.first_rank)
      .with("other_rank", other.first_rank)
      .subsystem("engine/trainer");
}

}  // namespace

std::string digest_rows(const Batch& batch, const std::vector<int64_t>& positions) {
  uint8_t flags = batch.targets.data != nullptr ? kHasTargets : 0;
  if (batch.documents.data != nullptr) flags |= kHasDocuments;
  ByteWriter out;
  out.number(flags);
  for (size_t row = 0; row < positions.size(); ++row) {
    uint64_t hash = add_row(batch.tokens, row, 0);
    hash = add_row(batch.targets, row, hash);
    out.number(positions[row]).number(add_row(batch.documents, row, hash));
  }
  return out.bytes();
}

void compare_rows(const std::vector<std::string_view>& digests,
                  const std::vector<WorldPeer>& peers) {
  size_t first = digests.size();
  uint8_t first_flags = 0;
  std::unordered_map<int64_t, std::pair<uint64_t, size_t>> known;  // by position: hash, peer
  for (size_t peer = 0; peer < digests.size(); ++peer) {
    if (digests[peer].empty()) continue;
    ByteReader in(digests[peer]);
    const auto flags = in.number<uint8_t>();
    if (first == digests.size()) {
      first = peer;
      first_flags = flags;
    }
    if (flags != first_flags) {
      throw differing("two processes supply different tensors", peers[first], peers[peer])
          .with("tensors", tensor_names(first_flags))
          .with("other_tensors", tensor_names(flags));
    }
    while (!in.rest().empty()) {
      const auto position = in.number<int64_t>();
      const auto hash = in.number<uint64_t>();
      const auto [entry, is_new] = known.try_emplace(position, hash, peer);
      if (is_new || entry->second.first == hash) continue;
      throw differing("two processes supply different rows of one sequence",
                      peers[entry->second.second], peers[peer])
          .with("sequence", position);
    }
  }
}

}  // namespace plait

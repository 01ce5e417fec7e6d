#include "engine/data/fingerprint.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstddef>

namespace plait {
namespace {

constexpr int64_t kBlockBytes = 65536;
constexpr int64_t kBlocks = 64;

class Hasher {
 public:
  Hasher() : block_(kBlockBytes) { XXH3_64bits_reset(&state_); }

  void add_file(File& file, int64_t offset, int64_t bytes) {
    while (bytes > 0) {
      const int64_t part = std::min(bytes, kBlockBytes);
      file.read_exactly(block_.data(), part, offset, "dataset_truncated");
      XXH3_64bits_update(&state_, block_.data(), static_cast<size_t>(part));
      offset += part;
      bytes -= part;
    }
  }

  void add_number(uint64_t value) { XXH3_64bits_update(&state_, &value, sizeof value); }

  uint64_t digest() const { return XXH3_64bits_digest(&state_); }

 private:
  XXH3_state_t state_;
  std::vector<char> block_;
};

}  // namespace

uint64_t hash_file(File& file) {
  Hasher hasher;
  hasher.add_file(file, 0, file.size());
  return hasher.digest();
}

uint64_t hash_file_samples(File& file) {
  const int64_t bytes = file.size();
  if (bytes < kBlocks * kBlockBytes) return hash_file(file);
  Hasher hasher;
  const int64_t last = bytes - kBlockBytes;
  for (int64_t i = 0; i < kBlocks; ++i) {
    // ⌊last·i/63⌋ without overflow.
    const int64_t offset = last / (kBlocks - 1) * i + last % (kBlocks - 1) * i / (kBlocks - 1);
    hasher.add_file(file, offset, kBlockBytes);
  }
  return hasher.digest();
}

uint64_t fingerprint_of(const std::vector<TokenFileFacts>& files) {
  Hasher hasher;
  for (const TokenFileFacts& facts : files) {
    hasher.add_number(static_cast<uint64_t>(facts.bytes));
    hasher.add_number(static_cast<uint64_t>(facts.tokens));
    hasher.add_number(static_cast<uint64_t>(facts.documents));
    hasher.add_number(facts.index_hash);
    hasher.add_number(facts.content_hash);
  }
  return hasher.digest();
}

}  // namespace plait

#include "checkpoint/format/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace plait {

uint64_t xxh3_64(std::string_view bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

Hash128 xxh3_128(std::string_view bytes) {
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return {hash.low64, hash.high64};
}

}  // namespace plait

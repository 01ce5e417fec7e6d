// The 40 bytes that end MANIFEST and every index: u64 payload bytes, u64 sequence, u64 low and high
// of XXH3-128 over payload and the first 16 trailer bytes, "PLAITEND". Little-endian.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/format/manifest.h"

namespace plait {

inline constexpr int64_t kTrailerBytes = 40;

/// Appends the trailer to `payload`; the hash is returned.
Hash128 append_trailer(std::string* payload, uint64_t sequence);

struct Sealed {
  std::string_view payload;  ///< a part of `file`
  uint64_t sequence = 0;
  Hash128 hash;
};
/// Throws `corrupt` with path, offset and what is wrong unless `file` is payload and trailer
/// exactly.
Sealed open_sealed(std::string_view file, const std::string& path);

}  // namespace plait

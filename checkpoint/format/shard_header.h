// The first 4096 bytes of a shard (.plt). Written last, so a shard that lost its writer has no
// magic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "checkpoint/format/manifest.h"

namespace plait {

inline constexpr int64_t kShardHeaderBytes = 4096;

struct ShardHeader {
  int major = kFormatMajor, minor = kFormatMinor;
  Hash128 save_id;
  uint32_t ordinal = 0;
  int align_log2 = 12;
  int64_t file_bytes = 0;
  int64_t slices = 0;
  int64_t step = 0;
};

std::string encode_shard_header(const ShardHeader& header);  ///< kShardHeaderBytes of them
/// `corrupt` or `invalid_field` with path, offset, value and limit; `format` for another major or
/// byte order.
ShardHeader decode_shard_header(std::string_view data, const std::string& path);

/// "s00012.plt", "s00012.idx".
std::string shard_name(uint32_t ordinal);
std::string index_name(uint32_t ordinal);

}  // namespace plait

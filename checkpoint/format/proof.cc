#include "checkpoint/format/proof.h"

#include <algorithm>

namespace plait {

Sealed open_buffer(std::string_view file, const char* identifier, int64_t most_bytes,
                   const FieldChecker& checker) {
  constexpr size_t kIdentifierAt = 4, kIdentifierBytes = 4;
  const auto bytes = static_cast<int64_t>(file.size());
  checker.require_limit(bytes, most_bytes, {"file bytes"});
  Sealed sealed = open_sealed(file, checker.path());
  check(reinterpret_cast<uintptr_t>(file.data()) % 16 == 0, "an aligned buffer");
  const std::string_view payload = sealed.payload;
  const std::string_view found =
      payload.substr(std::min(kIdentifierAt, payload.size()), kIdentifierBytes);
  checker.require(found == identifier, "the file has another identifier", {"identifier"}, found,
                  identifier);
  constexpr int64_t kMostBufferBytes = (int64_t{1} << 31) - 2;
  checker.require(static_cast<int64_t>(payload.size()) <= kMostBufferBytes,
                  "more than a buffer holds", {"payload bytes"}, payload.size(), kMostBufferBytes);
  return sealed;
}

flatbuffers::Verifier::Options verifier_options(int64_t bytes) {
  constexpr int64_t kLeastTableBytes = 16;
  flatbuffers::Verifier::Options options;
  options.max_depth = 8;
  options.max_tables =
      static_cast<flatbuffers::uoffset_t>(std::min(kMostTables, bytes / kLeastTableBytes));
  return options;
}

void require_verified(bool is_verified, std::string_view payload, const FieldChecker& checker) {
  checker.require(is_verified, "the buffer's offsets, tables or vectors are wrong", {"buffer"},
                  payload.size(), FormatLimits::kIndexBytes);
}

}  // namespace plait

#include "checkpoint/format/trailer.h"

#include "checkpoint/format/hash.h"
#include "checkpoint/format/little_endian.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr std::string_view kTrailerMagic = "PLAITEND";
constexpr size_t kHashedTrailerBytes = 16;

[[noreturn]] void refuse_seal(const std::string& path, size_t offset, const char* sentence) {
  throw Error("corrupt", sentence).with("path", path).with("offset", offset);
}

}  // namespace

Hash128 append_trailer(std::string* payload, uint64_t sequence) {
  append_integer(payload, static_cast<uint64_t>(payload->size()));
  append_integer(payload, sequence);
  const Hash128 hash = xxh3_128(*payload);
  append_integer(payload, hash.low);
  append_integer(payload, hash.high);
  payload->append(kTrailerMagic);
  return hash;
}

Sealed open_sealed(std::string_view file, const std::string& path) {
  constexpr auto kBytes = static_cast<size_t>(kTrailerBytes);
  if (file.size() < kBytes) refuse_seal(path, 0, "the file is too short for its trailer");
  const size_t payload_bytes = file.size() - kBytes;
  const size_t magic = file.size() - kTrailerMagic.size();
  if (file.substr(magic) != kTrailerMagic) {
    refuse_seal(path, magic, "the file does not end with a trailer");
  }
  if (load_integer<uint64_t>(file, payload_bytes) != payload_bytes) {
    refuse_seal(path, payload_bytes, "the file is not as long as its trailer says");
  }
  Sealed sealed;
  sealed.payload = file.substr(0, payload_bytes);
  sealed.sequence = load_integer<uint64_t>(file, payload_bytes + 8);
  const size_t hash = payload_bytes + kHashedTrailerBytes;
  sealed.hash = {load_integer<uint64_t>(file, hash), load_integer<uint64_t>(file, hash + 8)};
  if (xxh3_128(file.substr(0, hash)) != sealed.hash) {
    refuse_seal(path, 0, "the file does not have the hash that its trailer says");
  }
  return sealed;
}

}  // namespace plait

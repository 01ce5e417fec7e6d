// Values of the native format that use every field, and sealed buffers that can be changed in
// place.
#pragma once

#include <flatbuffers/flatbuffers.h>

#include <cstdint>
#include <cstring>
#include <string>

#include "checkpoint/format/manifest.h"
#include "checkpoint/format/shard_header.h"
#include "shard_index_generated.h"

namespace plait {

/// Four tensors of one to four dims and all kinds, three files, every type of property, text
/// outside the basic plane, sealed identity.
Manifest rich_manifest();
/// One tensor, one file, nothing that may be left out.
Manifest least_manifest();
/// Two slices of each tensor of `rich_manifest`, for file 1 of it, whose entry is made to fit.
ShardIndex rich_index(Manifest* manifest);

/// `rich_manifest`, and the bytes of its second index.
struct IndexedStep {
  Manifest manifest = rich_manifest();
  ShardIndex index = rich_index(&manifest);
  std::string bytes;

  IndexedStep();
  const SavedFile& file() const { return manifest.files[1]; }
  ShardIndex read(const std::string& data) const;
  /// As if the manifest had named these bytes.
  ShardIndex read_named(const std::string& data) const;
};

/// A header whose fields are all told apart by their bytes.
ShardHeader sample_header();

/// Every field as text, doubles by their bits.
std::string describe(const Manifest& manifest);
std::string describe(const ShardIndex& index);

/// The payload of a sealed buffer, to be changed in place and sealed again. All fields are there,
/// so each has a place.
class OpenBuffer {
 public:
  explicit OpenBuffer(const std::string& sealed);

  const wire::Manifest* manifest() const {
    return flatbuffers::GetRoot<wire::Manifest>(payload.data());
  }
  const wire::Index* index() const { return flatbuffers::GetRoot<wire::Index>(payload.data()); }

  /// A scalar of a table; `field` is its VT_ constant.
  template <class Value>
  void set(const void* table, flatbuffers::voffset_t field, Value value) {
    uint8_t* place = place_of(table, field);
    std::memcpy(place, &value, sizeof value);
  }
  /// Makes a field of a table, and of all with the same fields, absent.
  void remove(const void* table, flatbuffers::voffset_t field);
  /// Points an offset of a table at `target`, which lies behind it.
  void point(const void* table, flatbuffers::voffset_t field, const void* target);
  /// Bytes `offset` behind `place`, which lies inside the payload.
  template <class Value>
  void poke(const void* place, size_t offset, Value value) {
    std::memcpy(reinterpret_cast<uint8_t*>(const_cast<void*>(place)) + offset, &value,
                sizeof value);
  }
  /// With a right trailer again.
  std::string sealed(uint64_t sequence = 1) const;

  std::string payload;

 private:
  uint8_t* place_of(const void* table, flatbuffers::voffset_t field);
};

}  // namespace plait

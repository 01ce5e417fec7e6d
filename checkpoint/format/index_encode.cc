#include "checkpoint/format/manifest.h"

#include <cstddef>
#include <utility>

#include <flatbuffers/flatbuffers.h>

#include "checkpoint/format/rules.h"
#include "checkpoint/format/trailer.h"
#include "shard_index_generated.h"

namespace plait {
namespace {

wire::Slice build_slice(const Slice& slice) {
  std::array<uint64_t, Shape::kMaxDims> first{0, 0, 0, 0}, size{1, 1, 1, 1};
  for (size_t d = 0; d < static_cast<size_t>(slice.box.dims); ++d) {
    first[d] = static_cast<uint64_t>(slice.box.first[d]);
    size[d] = static_cast<uint64_t>(slice.box.size[d]);
  }
  return {slice.tensor,
          static_cast<uint16_t>(slice.kind),
          static_cast<uint8_t>(slice.dtype),
          static_cast<uint8_t>(slice.box.dims),
          flatbuffers::make_span(std::as_const(first)),
          flatbuffers::make_span(std::as_const(size)),
          static_cast<uint64_t>(slice.position),
          static_cast<uint64_t>(slice.bytes),
          slice.hash,
          slice.digest};
}

}  // namespace

std::string encode_index(const ShardIndex& index, Hash128* hash) {
  const FieldChecker checker = FieldChecker::writer("index");
  check_slices(index, kLeastAlignLog2, checker);
  checker.require_between(index.major, 0, UINT16_MAX, {"major"});
  checker.require_between(index.minor, 0, UINT16_MAX, {"minor"});
  checker.require_limit(index.ordinal, FormatLimits::kFiles - 1, {"ordinal"});
  constexpr size_t kRest = 256;
  flatbuffers::FlatBufferBuilder builder(index.slices.size() * sizeof(wire::Slice) + kRest);
  builder.ForceDefaults(true);
  const auto slices = builder.CreateVectorOfNativeStructs<wire::Slice, Slice>(
      index.slices.data(), index.slices.size(), build_slice);
  const wire::Id128 save_id(index.save_id.low, index.save_id.high);
  builder.Finish(
      wire::CreateIndex(builder, static_cast<uint16_t>(index.major),
                        static_cast<uint16_t>(index.minor), &save_id, index.ordinal, slices),
      wire::IndexIdentifier());
  checker.require_limit(static_cast<int64_t>(builder.GetSize()) + kTrailerBytes,
                        FormatLimits::kIndexBytes, {"file bytes"});
  std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  *hash = append_trailer(&bytes, 0);
  return bytes;
}

}  // namespace plait

#include "checkpoint/format/manifest.h"

#include <cstddef>

#include "checkpoint/format/proof.h"
#include "checkpoint/format/rules.h"
#include "shard_index_generated.h"

namespace plait {
namespace {

std::string id_text(const Hash128& id) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const uint64_t half : {id.high, id.low}) {
    for (int shift = 60; shift >= 0; shift -= 4) text += kDigits[(half >> shift) & 15];
  }
  return text;
}

// That the index is the one of `file`, in the save of `manifest`.
void require_identity(const wire::Index& root, const Sealed& sealed, const WireReader& reader,
                      const Manifest& manifest, const SavedFile& file) {
  const FieldChecker& checker = reader.checker();
  if (root.major() != kFormatMajor) {
    throw Error("format", "the index is of a format that this build does not read")
        .with("path", checker.path())
        .with("found", root.major())
        .with("supported", kFormatMajor);
  }
  const wire::Id128& id = reader.part(root.save_id(), {"save_id"});
  const Hash128 save_id{id.low(), id.high()};
  if (save_id != manifest.save_id) {
    throw Error("save_id_mismatch", "the index belongs to another save")
        .with("path", checker.path())
        .with("got", id_text(save_id))
        .with("want", id_text(manifest.save_id));
  }
  checker.require_between(root.minor(), manifest.format.minor, manifest.format.minor, {"minor"});
  checker.require_between(root.ordinal(), file.ordinal, file.ordinal, {"ordinal"});
  checker.require(sealed.sequence == 0, "an index has no sequence", {"sequence"}, sealed.sequence,
                  0);
  const auto bytes = static_cast<int64_t>(sealed.payload.size()) + kTrailerBytes;
  if (sealed.hash == file.idx_hash && bytes == file.idx_bytes) return;
  throw Error("corrupt", "the index is not the one that the manifest names")
      .with("path", checker.path())
      .with("offset", bytes - kTrailerBytes)
      .with("got", id_text(sealed.hash))
      .with("want", id_text(file.idx_hash))
      .with("bytes", bytes)
      .with("limit", file.idx_bytes);
}

Box read_box(const wire::Slice& slice, int64_t number, const WireReader& reader) {
  const FieldChecker& checker = reader.checker();
  checker.require_between(slice.ndim(), 1, Shape::kMaxDims, {"slices", number, "ndim"});
  Box box;
  box.dims = slice.ndim();
  for (int d = 0; d < Shape::kMaxDims; ++d) {
    const auto dim = static_cast<size_t>(d);
    const FieldPath first{"slices", number, "off", d}, size{"slices", number, "ext", d};
    const auto place = static_cast<flatbuffers::uoffset_t>(d);
    const uint64_t off = slice.off()->Get(place), ext = slice.ext()->Get(place);
    if (d < box.dims) {
      box.first[dim] = reader.integer(off, first);
      box.size[dim] = reader.integer(ext, size);
    } else {
      checker.require(off == 0, "an unused dim does not start at 0", first, off, 0);
      checker.require(ext == 1, "an unused dim is not of size 1", size, ext, 1);
    }
  }
  return box;
}

Slice read_slice(const wire::Slice& slice, int64_t number, const WireReader& reader) {
  Slice out;
  out.tensor = slice.tensor();
  out.kind = static_cast<StateKind>(slice.kind());
  out.dtype = static_cast<DType>(slice.dtype());
  out.box = read_box(slice, number, reader);
  out.position = reader.integer(slice.pos(), {"slices", number, "pos"});
  out.bytes = reader.integer(slice.nbytes(), {"slices", number, "nbytes"});
  out.hash = slice.xxh3();
  out.digest = slice.digest();
  return out;
}

// That a slice, sound by itself, is one of the manifest's.
void require_known(const Slice& slice, int64_t number, const Manifest& manifest,
                   const SavedFile& file, const FieldChecker& checker) {
  const auto field = [number](const char* name) { return FieldPath{"slices", number, name}; };
  checker.require(slice.tensor < manifest.tensors.size(), "no such tensor", field("tensor"),
                  slice.tensor, manifest.tensors.size());
  const TensorState* state = manifest.state(slice.tensor, slice.kind);
  checker.require(state != nullptr, "the tensor has no such kind", field("kind"),
                  static_cast<int>(slice.kind), manifest.tensors[slice.tensor].name);
  checker.require(slice.dtype == state->dtype, "not the element type of the manifest",
                  field("dtype"), static_cast<int>(slice.dtype), static_cast<int>(state->dtype));
  const Shape& shape = manifest.tensors[slice.tensor].shape;
  checker.require(slice.box.dims == shape.dims(), "not the dims of the tensor", field("ndim"),
                  slice.box.dims, shape.dims());
  for (int d = 0; d < shape.dims(); ++d) {
    const auto dim = static_cast<size_t>(d);
    const int64_t end = slice.box.first[dim] + slice.box.size[dim];
    checker.require(end <= shape[d], "a box reaches beyond its tensor",
                    {"slices", number, "ext", d}, end, shape[d]);
  }
  checker.require(slice.position + slice.bytes <= file.plt_bytes,
                  "a slice reaches beyond the shard", field("pos"), slice.position + slice.bytes,
                  file.plt_bytes);
}

}  // namespace

ShardIndex decode_index(std::string_view data, const std::string& path, const Manifest& manifest,
                        const SavedFile& file) {
  const FieldChecker checker = FieldChecker::reader(path);
  Sealed sealed;
  const auto& root = prove<wire::Index>(data, wire::IndexIdentifier(), FormatLimits::kIndexBytes,
                                        checker, &sealed);
  const WireReader reader(sealed.payload, checker);
  require_identity(root, sealed, reader, manifest, file);
  const auto& slices = reader.vector(root.slices(), FormatLimits::kSlices, {"slices"});
  ShardIndex out;
  out.major = root.major();
  out.minor = root.minor();
  out.save_id = manifest.save_id;
  out.ordinal = root.ordinal();
  out.slices.reserve(slices.size());
  for (const wire::Slice* slice : slices) {
    out.slices.push_back(read_slice(*slice, static_cast<int64_t>(out.slices.size()), reader));
  }
  check_slices(out, manifest.format.align_log2, checker);
  for (size_t i = 0; i < out.slices.size(); ++i) {
    require_known(out.slices[i], static_cast<int64_t>(i), manifest, file, checker);
  }
  return out;
}

}  // namespace plait

// Manifests with a right trailer that lie: each is refused by the field that is wrong.
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "checkpoint/format/trailer.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/hostile_corpus.h"

namespace plait {
namespace {

using BufferChange = std::function<void(OpenBuffer&)>;

/// A change of `rich_manifest`.
struct BadManifest {
  const char* field;  ///< as the error names it
  const char* why;    ///< a part of the message
  BufferChange change;
};
using BadManifests = std::vector<BadManifest>;

HostileFile hostile_manifest(std::string bytes, const std::string& field, const std::string& why) {
  return {HostileFile::Kind::kManifest,
          field + ": " + why,
          std::move(bytes),
          "invalid_field",
          {"path=MANIFEST", "field=" + field, "value=", "limit=", why}};
}

/// A scalar of one of the root's tables.
template <class Value, class Table>
BufferChange scalar(const Table* (wire::Manifest::*table)() const, flatbuffers::voffset_t field,
                    Value value) {
  return [=](OpenBuffer& b) { b.set((b.manifest()->*table)(), field, value); };
}

/// The first byte of a text becomes `byte`.
template <class Text>
BufferChange text_byte(Text text, int byte) {
  return [=](OpenBuffer& b) {
    const flatbuffers::String* string = text(*b.manifest());
    b.poke(string->c_str(), 0, static_cast<uint8_t>(byte));
  };
}

/// The length of a vector or text.
template <class Vector>
BufferChange length(Vector vector, uint32_t value) {
  return [=](OpenBuffer& b) { b.poke(vector(*b.manifest()), 0, value); };
}

/// A text without bytes.
template <class Text>
BufferChange emptied(Text text) {
  return [=](OpenBuffer& b) {
    const flatbuffers::String* string = text(*b.manifest());
    b.poke(string, 0, uint32_t{0});
    b.poke(string->c_str(), 0, '\0');
  };
}

constexpr uint64_t kTopBit = uint64_t{1} << 63;
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinite = std::numeric_limits<double>::infinity();
using Root = wire::Manifest;

BadManifests without_a_part() {
  const auto absent = [](flatbuffers::voffset_t field) {
    return [=](OpenBuffer& b) { b.remove(b.manifest(), field); };
  };
  return {
      {"format", "missing", absent(Root::VT_FORMAT)},
      {"save_id", "missing", absent(Root::VT_SAVE_ID)},
      {"state_digest", "missing", absent(Root::VT_STATE_DIGEST)},
      {"layout", "missing", absent(Root::VT_LAYOUT)},
      {"config", "missing", absent(Root::VT_CONFIG)},
      {"progress", "missing", absent(Root::VT_PROGRESS)},
      {"rng", "missing", absent(Root::VT_RNG)},
      {"data", "missing", absent(Root::VT_DATA)},
      {"groups", "missing", absent(Root::VT_GROUPS)},
      {"tensors", "missing", absent(Root::VT_TENSORS)},
      {"files", "missing", absent(Root::VT_FILES)},
      {"properties", "missing", absent(Root::VT_PROPERTIES)},
  };
}

BadManifests without_a_text_or_list() {
  const auto absent = [](auto table, flatbuffers::voffset_t field) {
    return [=](OpenBuffer& b) { b.remove(table(*b.manifest()), field); };
  };
  return {
      {"format.writer", "missing",
       absent([](const Root& m) { return m.format(); }, wire::Format::VT_WRITER)},
      {"format.numerics", "missing",
       absent([](const Root& m) { return m.format(); }, wire::Format::VT_NUMERICS)},
      {"layout.stage_layers", "missing",
       absent([](const Root& m) { return m.layout(); }, wire::Layout::VT_STAGE_LAYERS)},
      {"rng.algorithm", "missing",
       absent([](const Root& m) { return m.rng(); }, wire::Rng::VT_ALGORITHM)},
      {"data.order", "missing",
       absent([](const Root& m) { return m.data(); }, wire::Data::VT_ORDER)},
      {"data.parts", "missing",
       absent([](const Root& m) { return m.data(); }, wire::Data::VT_PARTS)},
      {"config[0].key", "missing",
       absent([](const Root& m) { return m.config()->Get(0); }, wire::Pair::VT_KEY)},
      {"config[0].value", "missing",
       absent([](const Root& m) { return m.config()->Get(0); }, wire::Pair::VT_VALUE)},
      {"groups[0].name", "missing",
       absent([](const Root& m) { return m.groups()->Get(0); }, wire::Group::VT_NAME)},
      {"groups[0].algorithm", "missing",
       absent([](const Root& m) { return m.groups()->Get(0); }, wire::Group::VT_ALGORITHM)},
      {"tensors[0].name", "missing",
       absent([](const Root& m) { return m.tensors()->Get(0); }, wire::Tensor::VT_NAME)},
      {"tensors[0].shape", "missing",
       absent([](const Root& m) { return m.tensors()->Get(0); }, wire::Tensor::VT_SHAPE)},
      {"tensors[0].states", "missing",
       absent([](const Root& m) { return m.tensors()->Get(0); }, wire::Tensor::VT_STATES)},
      {"properties[0].name", "missing",
       absent([](const Root& m) { return m.properties()->Get(0); }, wire::Property::VT_NAME)},
      {"properties[3].text", "missing",
       absent([](const Root& m) { return m.properties()->Get(3); }, wire::Property::VT_TEXT)},
  };
}

BadManifests out_of_range() {
  using F = wire::Format;
  using L = wire::Layout;
  using P = wire::Progress;
  return {
      {"format.min_reader_minor", "too large",
       scalar(&Root::format, F::VT_MIN_READER_MINOR, uint16_t{2})},
      {"format.align_log2", "limit=6", scalar(&Root::format, F::VT_ALIGN_LOG2, uint8_t{5})},
      {"format.align_log2", "limit=16", scalar(&Root::format, F::VT_ALIGN_LOG2, uint8_t{17})},
      {"format.align_log2", "value=255", scalar(&Root::format, F::VT_ALIGN_LOG2, uint8_t{255})},
      {"layout.tensor", "limit=1", scalar(&Root::layout, L::VT_TENSOR, uint32_t{0})},
      {"layout.pipeline", "limit=1", scalar(&Root::layout, L::VT_PIPELINE, uint32_t{0})},
      {"layout.data", "limit=1", scalar(&Root::layout, L::VT_DATA, uint32_t{0})},
      {"layout.interleave", "limit=1", scalar(&Root::layout, L::VT_INTERLEAVE, uint32_t{0})},
      {"layout.zero", "limit=3", scalar(&Root::layout, L::VT_ZERO, uint8_t{4})},
      {"layout.stage_layers", "virtual stages",
       scalar(&Root::layout, L::VT_INTERLEAVE, uint32_t{3})},
      {"layout", "overflows",
       [](OpenBuffer& b) {
         for (const auto field : {L::VT_TENSOR, L::VT_PIPELINE, L::VT_DATA}) {
           b.set(b.manifest()->layout(), field, UINT32_MAX);
         }
       }},
      {"files[1].ordinal", "too large", scalar(&Root::layout, L::VT_TENSOR, uint32_t{1})},
      {"files[1].data", "limit=0",
       [](OpenBuffer& b) {
         b.set(b.manifest()->layout(), L::VT_DATA, uint32_t{1});
         b.set(b.manifest()->layout(), L::VT_TENSOR, uint32_t{6});
       }},
      {"progress.step", "limit=999999999999",
       scalar(&Root::progress, P::VT_STEP, uint64_t{1'000'000'000'000})},
      {"progress.step", "too large", scalar(&Root::progress, P::VT_STEP, kTopBit)},
      {"progress.updates", "too large", scalar(&Root::progress, P::VT_UPDATES, kTopBit)},
      {"progress.samples", "too large", scalar(&Root::progress, P::VT_SAMPLES, kTopBit)},
      {"progress.tokens", "too large", scalar(&Root::progress, P::VT_TOKENS, UINT64_MAX)},
      {"progress.skipped", "too large", scalar(&Root::progress, P::VT_SKIPPED, kTopBit)},
      {"progress.overflows", "too large", scalar(&Root::progress, P::VT_OVERFLOWS, kTopBit)},
      {"progress.lr", "value=nan", scalar(&Root::progress, P::VT_LR, kNan)},
      {"progress.lr", "value=infinite", scalar(&Root::progress, P::VT_LR, -kInfinite)},
      {"scaler.scale", "not finite", scalar(&Root::scaler, wire::Scaler::VT_SCALE, kInfinite)},
  };
}

BadManifests wrong_groups_and_keys() {
  using G = wire::Group;
  const auto group = [](flatbuffers::voffset_t field, double value) {
    return [=](OpenBuffer& b) { b.set(b.manifest()->groups()->Get(1), field, value); };
  };
  const auto key = [](uint32_t i) {
    return [i](const Root& m) { return m.config()->Get(i)->key(); };
  };
  return {
      {"groups[1].lr_scale", "not finite", group(G::VT_LR_SCALE, kNan)},
      {"groups[1].weight_decay", "not finite", group(G::VT_WEIGHT_DECAY, kInfinite)},
      {"groups[1].beta1", "not finite", group(G::VT_BETA1, -kInfinite)},
      {"groups[1].beta2", "not finite", group(G::VT_BETA2, kNan)},
      {"groups[1].epsilon", "not finite", group(G::VT_EPSILON, kNan)},
      {"groups[0].name", "UTF-8",
       text_byte([](const Root& m) { return m.groups()->Get(0)->name(); }, 0xFF)},
      {"groups[0].algorithm", "UTF-8",
       text_byte([](const Root& m) { return m.groups()->Get(0)->algorithm(); }, 0xC0)},
      {"format.writer", "UTF-8",
       text_byte([](const Root& m) { return m.format()->writer(); }, 0x80)},
      {"format.numerics", "UTF-8",
       text_byte([](const Root& m) { return m.format()->numerics(); }, 0xED)},
      {"rng.algorithm", "UTF-8",
       text_byte([](const Root& m) { return m.rng()->algorithm(); }, 0xF5)},
      {"data.order", "UTF-8", text_byte([](const Root& m) { return m.data()->order(); }, 0xFF)},
      {"config[1].key", "UTF-8", text_byte(key(1), 0xFF)},
      {"config[1].key", "sorted", text_byte(key(1), 'a')},
      {"config[1].key", "sorted",
       [](OpenBuffer& b) {  // twice the same table
         const uint8_t* offsets = b.manifest()->config()->Data();
         b.poke(offsets, 4, flatbuffers::ReadScalar<uint32_t>(offsets) - 4);
       }},
      {"config[0].key", "empty", emptied(key(0))},
      {"config[1].value", "UTF-8",
       text_byte([](const Root& m) { return m.config()->Get(1)->value(); }, 0xFE)},
  };
}

BadManifests wrong_tensors() {
  const auto tensor = [](uint32_t i) { return [i](const Root& m) { return m.tensors()->Get(i); }; };
  const auto name = [](uint32_t i) {
    return [i](const Root& m) { return m.tensors()->Get(i)->name(); };
  };
  const auto shape = [](uint32_t i) {
    return [i](const Root& m) { return m.tensors()->Get(i)->shape(); };
  };
  const auto size = [=](uint32_t i, size_t d, uint64_t value) {
    return [=](OpenBuffer& b) { b.poke(shape(i)(*b.manifest())->Data(), 8 * d, value); };
  };
  const auto state = [=](uint32_t i, uint32_t s, size_t offset, auto value) {
    return
        [=](OpenBuffer& b) { b.poke(tensor(i)(*b.manifest())->states()->Get(s), offset, value); };
  };
  constexpr size_t kKind = 0, kDType = 2, kZero = 3, kReserved = 4, kElements = 8;
  return {
      {"tensors[0].name", "empty", emptied(name(0))},
      {"tensors[0].name", "UTF-8", text_byte(name(0), 0xFF)},
      {"tensors[1].name", "sorted", text_byte(name(0), 'b')},
      {"tensors[3].name", "UTF-8", text_byte(name(3), 0xF8)},
      {"tensors[1].shape", "limit=1", length(shape(1), 0)},
      {"tensors[1].shape", "limit=4", length(shape(1), 5)},
      {"tensors[3].shape", "limit=4", length(shape(3), 20)},
      {"tensors[1].shape[0]", "limit=1", size(1, 0, 0)},
      {"tensors[1].shape[1]", "too large", size(1, 1, kTopBit)},
      {"tensors[1].shape[1]", "overflows", size(1, 1, uint64_t{1} << 62)},
      {"tensors[0].shape[0]", "overflows", size(0, 0, uint64_t{1} << 60)},
      {"tensors[0].states[0].elements", "volume", size(0, 0, (uint64_t{1} << 60) - 1)},
      {"tensors[3].shape[3]", "overflows", size(3, 3, (uint64_t{1} << 61) + 1)},
      {"tensors[1].states", "without states",
       length([](const Root& m) { return m.tensors()->Get(1)->states(); }, 0)},
      {"tensors[1].states", "limit=5",
       length([](const Root& m) { return m.tensors()->Get(1)->states(); }, 6)},
      {"tensors[1].states[0].kind", "limit=1", state(1, 0, kKind, uint16_t{0})},
      {"tensors[1].states[2].kind", "limit=5", state(1, 2, kKind, uint16_t{6})},
      {"tensors[1].states[2].kind", "value=65535", state(1, 2, kKind, uint16_t{65535})},
      {"tensors[1].states[1].kind", "ascend", state(1, 1, kKind, uint16_t{2})},
      {"tensors[1].states[1].kind", "ascend", state(1, 1, kKind, uint16_t{1})},
      {"tensors[1].states[1].dtype", "element type", state(1, 1, kDType, uint8_t{0})},
      {"tensors[1].states[1].dtype", "value=4", state(1, 1, kDType, uint8_t{4})},
      {"tensors[1].states[1].dtype", "value=9", state(1, 1, kDType, uint8_t{9})},
      {"tensors[1].states[1].dtype", "value=255", state(1, 1, kDType, uint8_t{255})},
      {"tensors[1].states[0].zero", "limit=1", state(1, 0, kZero, uint8_t{2})},
      {"tensors[1].states[0].reserved", "reserved", state(1, 0, kReserved, uint32_t{1})},
      {"tensors[1].states[0].elements", "value=29", state(1, 0, kElements, uint64_t{29})},
      {"tensors[1].states[0].elements", "too large", state(1, 0, kElements, kTopBit)},
      {"tensors[2].group", "limit=1",
       [=](OpenBuffer& b) {
         b.set(tensor(2)(*b.manifest()), wire::Tensor::VT_GROUP, uint16_t{2});
       }},
  };
}

BadManifests wrong_files_and_properties() {
  const auto file = [](uint32_t i, size_t offset, auto value) {
    return [=](OpenBuffer& b) { b.poke(b.manifest()->files()->Get(i), offset, value); };
  };
  constexpr size_t kOrdinal = 0, kTensor = 4, kPipeline = 8, kData = 12, kShardBytes = 16,
                   kIndexBytes = 24;
  const auto property = [](uint32_t i) {
    return [i](const Root& m) { return m.properties()->Get(i); };
  };
  const auto name = [](uint32_t i) {
    return [i](const Root& m) { return m.properties()->Get(i)->name(); };
  };
  const auto type = [=](uint32_t i, uint8_t value) {
    return
        [=](OpenBuffer& b) { b.set(property(i)(*b.manifest()), wire::Property::VT_TYPE, value); };
  };
  return {
      {"files[1].ordinal", "limit=1", file(1, kOrdinal, uint32_t{0})},
      {"files[2].ordinal", "limit=5", file(2, kOrdinal, uint32_t{6})},
      {"files[2].ordinal", "limit=65535", file(2, kOrdinal, UINT32_MAX)},
      {"files[2].ordinal", "limit=4", file(2, kOrdinal, uint32_t{3})},
      {"files[0].tensor", "limit=2", file(0, kTensor, uint32_t{3})},
      {"files[0].pipeline", "limit=0", file(0, kPipeline, uint32_t{1})},
      {"files[0].data", "limit=1", file(0, kData, UINT32_MAX)},
      {"files[0].plt_bytes", "limit=4097", file(0, kShardBytes, uint64_t{4096})},
      {"files[0].plt_bytes", "too large", file(0, kShardBytes, kTopBit)},
      {"files[1].plt_bytes", "too large", file(1, kShardBytes, UINT64_MAX)},
      {"files[2].plt_bytes", "overflows", file(0, kShardBytes, uint64_t{INT64_MAX} - 90000)},
      {"files[0].idx_bytes", "limit=41", file(0, kIndexBytes, uint64_t{40})},
      {"files[0].idx_bytes", "limit=268435456", file(0, kIndexBytes, (uint64_t{256} << 20) + 1)},
      {"properties[0].type", "limit=1", type(0, 0)},
      {"properties[0].type", "limit=3", type(0, 4)},
      {"properties[0].text", "missing", type(0, 3)},
      {"properties[0].name", "[a-z0-9_.-]", text_byte(name(0), 'A')},
      {"properties[0].name", "[a-z0-9_.-]", text_byte(name(0), '/')},
      {"properties[0].name", "[a-z0-9_.-]", text_byte(name(0), 0)},
      {"properties[0].name", "[a-z0-9_.-]", emptied(name(0))},
      {"properties[1].name", "sorted", text_byte(name(0), 'c')},
      {"properties[3].text", "UTF-8",
       text_byte([](const Root& m) { return m.properties()->Get(3)->text(); }, 0xFF)},
  };
}

BadManifests wrong_structure() {
  const auto tensors = [](const Root& m) { return m.tensors(); };
  return {
      {"identifier", "limit=PLCM", [](OpenBuffer& b) { b.payload[4] = 'Q'; }},
      {"identifier", "value=PLSI", [](OpenBuffer& b) { b.payload.replace(4, 4, "PLSI"); }},
      {"identifier", "identifier", [](OpenBuffer& b) { b.payload.resize(7); }},
      {"identifier", "identifier", [](OpenBuffer& b) { b.payload.clear(); }},
      {"buffer", "offsets", [](OpenBuffer& b) { b.payload.resize(8); }},
      {"buffer", "offsets", [](OpenBuffer& b) { b.payload.resize(12); }},
      {"buffer", "offsets", [](OpenBuffer& b) { b.payload.resize(15); }},
      {"buffer", "offsets", [](OpenBuffer& b) { b.poke(b.payload.data(), 0, uint32_t{0}); }},
      {"buffer", "offsets", [](OpenBuffer& b) { b.poke(b.payload.data(), 0, uint32_t{2}); }},
      {"buffer", "offsets", [](OpenBuffer& b) { b.poke(b.payload.data(), 0, UINT32_MAX); }},
      {"buffer", "offsets",
       [](OpenBuffer& b) { b.poke(b.payload.data(), 0, static_cast<uint32_t>(b.payload.size())); }},
      {"buffer", "offsets", [](OpenBuffer& b) { b.poke(b.manifest(), 0, int32_t{INT32_MIN}); }},
      {"buffer", "offsets", length(tensors, 5)},
      {"buffer", "offsets", length(tensors, 1 << 29)},
      {"buffer", "offsets", length(tensors, UINT32_MAX)},
      {"buffer", "offsets", length([](const Root& m) { return m.files(); }, 1 << 27)},
      {"buffer", "offsets", length([](const Root& m) { return m.format()->writer(); }, 5)},
      {"buffer", "offsets", length([](const Root& m) { return m.format()->writer(); }, UINT32_MAX)},
      {"buffer", "offsets",
       [](OpenBuffer& b) { b.poke(b.manifest()->tensors()->Data(), 0, UINT32_MAX); }},
      {"buffer", "offsets",
       [](OpenBuffer& b) { b.poke(b.manifest()->tensors()->Data(), 0, uint32_t{2}); }},
  };
}

/// A group that nothing has.
HostileFile without_groups() {
  OpenBuffer buffer(encode_manifest(least_manifest(), 1));
  buffer.set(buffer.manifest()->tensors()->Get(0), wire::Tensor::VT_GROUP, uint16_t{1});
  return hostile_manifest(buffer.sealed(), "tensors[0].group", "limit=0");
}

/// Elements between their places.
HostileFile unaligned() {
  Manifest manifest = rich_manifest();
  manifest.tensors[0].name = std::string(64, '!');
  seal_identity(&manifest);
  OpenBuffer buffer(encode_manifest(manifest, 1));
  const wire::Tensor* tensor = buffer.manifest()->tensors()->Get(0);
  const char* name = tensor->name()->c_str();
  // A vector of one size inside the text, whose length has a place where the size has none.
  size_t inside = 8;
  while ((name + inside - buffer.payload.data()) % 8 != 0) ++inside;
  buffer.poke(name, inside, uint32_t{1});
  buffer.point(tensor, wire::Tensor::VT_SHAPE, name + inside);
  return hostile_manifest(buffer.sealed(), "tensors[0].shape", "aligned");
}

/// Texts that share bytes and are more than the file.
HostileFile shared_texts() {
  Manifest manifest = rich_manifest();
  manifest.format.numerics = std::string(5000, 'n');
  OpenBuffer buffer(encode_manifest(manifest, 1));
  const flatbuffers::String* numerics = buffer.manifest()->format()->numerics();
  for (const wire::Pair* pair : *buffer.manifest()->config()) {
    buffer.point(pair, wire::Pair::VT_VALUE, numerics);
  }
  return hostile_manifest(buffer.sealed(), "config[0].value", "share bytes");
}

/// Many tables in few bytes.
HostileFile shared_tables() {
  flatbuffers::FlatBufferBuilder builder;
  const auto pair = wire::CreatePairDirect(builder, "k", "v");
  const auto config =
      builder.CreateVector(std::vector<flatbuffers::Offset<wire::Pair>>(1000, pair));
  wire::ManifestBuilder root(builder);
  root.add_config(config);
  builder.Finish(root.Finish(), wire::ManifestIdentifier());
  std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  append_trailer(&bytes, 1);
  return hostile_manifest(bytes, "buffer", "tables");
}

/// Of versions and features that this build does not read.
HostileFile other_format(flatbuffers::voffset_t field, uint64_t value) {
  OpenBuffer buffer(encode_manifest(rich_manifest(), 1));
  const wire::Format* format = buffer.manifest()->format();
  if (field == wire::Format::VT_REQUIRED) {
    buffer.set(format, field, value);
  } else {
    buffer.set(format, wire::Format::VT_MINOR, uint16_t{65535});
    buffer.set(format, field, static_cast<uint16_t>(value));
  }
  HostileFile file = hostile_manifest(buffer.sealed(), "format", "found=");
  file.word = "format";
  file.parts = {"path=MANIFEST", "found=", "supported=0"};
  return file;
}

}  // namespace

std::vector<HostileFile> hostile_manifests() {
  std::vector<HostileFile> files;
  const std::string good = encode_manifest(rich_manifest(), 1);
  for (const BadManifests& rows :
       {without_a_part(), without_a_text_or_list(), out_of_range(), wrong_groups_and_keys(),
        wrong_tensors(), wrong_files_and_properties(), wrong_structure()}) {
    for (const BadManifest& row : rows) {
      OpenBuffer buffer(good);
      row.change(buffer);
      files.push_back(hostile_manifest(buffer.sealed(), row.field, row.why));
    }
  }
  for (HostileFile& file : std::vector<HostileFile>{
           without_groups(), unaligned(), shared_texts(), shared_tables(),
           other_format(wire::Format::VT_MAJOR, 1), other_format(wire::Format::VT_MAJOR, 65535),
           other_format(wire::Format::VT_MIN_READER_MINOR, 2),
           other_format(wire::Format::VT_MIN_READER_MINOR, 65535),
           other_format(wire::Format::VT_REQUIRED, 1),
           other_format(wire::Format::VT_REQUIRED, uint64_t{1} << 63)}) {
    files.push_back(std::move(file));
  }
  return files;
}

}  // namespace plait

#include "tests/checkpoint/format_fixture.h"

#include <bit>
#include <catch2/catch.hpp>
#include <sstream>

#include "checkpoint/format/trailer.h"

namespace plait {
namespace {

SavedTensor format_tensor(const std::string& name, const Shape& shape, int group,
                          const std::vector<std::pair<StateKind, DType>>& states) {
  SavedTensor tensor{name, shape, {}, group};
  uint64_t digest = 0x1111111111111111;
  for (const auto& [kind, dtype] : states) {
    tensor.states.push_back(
        {kind, dtype, kind == StateKind::kMoment1, shape.elements(), digest += 0x0123456789ABCDEF});
  }
  return tensor;
}

SavedProperty text_property(const std::string& name, const std::string& text) {
  return {name, SavedProperty::Type::kText, 0, 0, text};
}

void describe_states(const SavedTensor& tensor, std::ostringstream* out) {
  *out << "tensor " << tensor.name << ' ' << tensor.shape.text() << " group " << tensor.group;
  for (const TensorState& state : tensor.states) {
    *out << " {" << state_kind_name(state.kind) << ' ' << dtype_name(state.dtype) << ' '
         << state.is_zero << ' ' << state.elements << ' ' << state.digest << '}';
  }
  *out << '\n';
}

void describe_run(const Manifest& m, std::ostringstream* out) {
  const auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
  const SavedProgress& p = m.progress;
  *out << "progress " << p.step << ' ' << p.updates << ' ' << p.samples << ' ' << p.tokens << ' '
       << p.skipped << ' ' << p.overflows << ' ' << bits(p.lr) << '\n';
  *out << "scaler " << m.scaler.is_present << ' ' << bits(m.scaler.scale) << ' '
       << m.scaler.good_steps << ' ' << m.scaler.hysteresis_left << '\n';
  *out << "random " << m.random.algorithm << ' ' << m.random.key_version << ' ' << m.random.seed
       << '\n';
  *out << "data " << m.data.order << ' ' << m.data.order_version << ' ' << m.data.seed;
  for (const SavedDataset& d : m.data.parts) {
    *out << " {" << d.fingerprint << ' ' << d.tokens << ' ' << d.drawn << ' ' << d.weight << ' '
         << d.credit << '}';
  }
  *out << '\n';
  for (const SavedGroup& g : m.groups) {
    *out << "group " << g.name << ' ' << g.algorithm << ' ' << bits(g.lr_scale) << ' '
         << bits(g.weight_decay) << ' ' << bits(g.beta1) << ' ' << bits(g.beta2) << ' '
         << bits(g.epsilon) << '\n';
  }
}

}  // namespace

Manifest rich_manifest() {
  Manifest m;
  m.format.optional = uint64_t{1} << 63;
  m.format.writer = "plait 0.1.0";
  m.format.numerics = "device=cpu\nisa=avx2\n";
  m.layout = {3, 1, 2, 4, 2, true, {1, 2, 0, 7}};
  m.config = {{"layout.data", "2"}, {"model.family", "\"gpt2\""}, {"optimizer.lr", ""}};
  m.progress = {999'999'999'999, INT64_MAX, 12345, 678901, 3, 2, -0.0};
  m.scaler = {true, 65536.0, 77, -5};
  m.random = {"philox4x32-10", 65535, UINT64_MAX};
  m.data.order = "feistel";
  m.data.order_version = 2;
  m.data.seed = 42;
  m.data.parts = {{UINT64_MAX, 1, 2, 3, INT64_MIN}, {4, 5, 6, 7, 8}};
  m.groups = {{"decay", "adamw", 1.0, 0.1, 0.9, 0.95, 1e-8},
              {"no_decay", "adamw", 0.5, 0.0, 0.8, 0.999, 5e-324}};
  using Kind = StateKind;
  m.tensors = {
      format_tensor("a.bias", {11}, 1, {{Kind::kParam, DType::kFloat32}}),
      format_tensor("a.weight", {6, 5}, 0,
                    {{Kind::kMaster, DType::kFloat32},
                     {Kind::kMoment1, DType::kFloat32},
                     {Kind::kMoment2, DType::kBFloat16}}),
      format_tensor("b", {2, 3, 4}, 0,
                    {{Kind::kParam, DType::kFloat16}, {Kind::kExtra, DType::kUInt8}}),
      format_tensor("\xF0\x9F\x8E\xB6", {2, 1, 2, 3}, 1, {{Kind::kExtra, DType::kInt64}}),
  };
  m.files = {{0, 0, 0, 0, 5000, 400, {1, 2}},
             {3, 1, 0, 1, 70000, 1200, {3, 4}},
             {5, 2, 0, 1, INT64_MAX / 2, FormatLimits::kIndexBytes, {UINT64_MAX, 0}}};
  SavedProperty integer{"a-1", SavedProperty::Type::kInteger, INT64_MAX, 0, ""};
  SavedProperty nan{"b_2", SavedProperty::Type::kReal, 0, 0, ""};
  nan.real = std::bit_cast<double>(uint64_t{0x7FF4000000000123});  // signalling
  SavedProperty minus_zero{"c.3", SavedProperty::Type::kReal, 0, -0.0, ""};
  m.properties = {integer,
                  nan,
                  minus_zero,
                  text_property("d", "na\xC3\xAFve \xF0\x9F\x8E\xB6"),
                  text_property("e", std::string("with\0nul", 8)),
                  text_property("f", "")};
  seal_identity(&m);
  return m;
}

Manifest least_manifest() {
  Manifest m;
  m.tensors = {format_tensor("w", {3}, 0, {{StateKind::kParam, DType::kFloat32}})};
  m.files = {{0, 0, 0, 0, 4108, 264, {}}};
  seal_identity(&m);
  return m;
}

ShardIndex rich_index(Manifest* manifest) {
  ShardIndex index;
  index.save_id = manifest->save_id;
  index.ordinal = 3;
  int64_t position = kShardHeaderBytes;
  for (size_t t = 0; t < manifest->tensors.size(); ++t) {
    const SavedTensor& tensor = manifest->tensors[t];
    for (const TensorState& state : tensor.states) {
      // The first row, then the others.
      for (const bool is_first : {true, false}) {
        Slice slice;
        slice.tensor = static_cast<uint32_t>(t);
        slice.kind = state.kind;
        slice.dtype = state.dtype;
        slice.box = Box::whole(tensor.shape);
        slice.box.first[0] = is_first ? 0 : 1;
        slice.box.size[0] = is_first ? 1 : tensor.shape[0] - 1;
        slice.position = position = (position + 4095) / 4096 * 4096;
        slice.bytes = slice.box.elements() * dtype_size(state.dtype);
        slice.hash = UINT64_MAX - t;
        slice.digest = 0x8000000000000000 + t;
        position += slice.bytes;
        index.slices.push_back(slice);
      }
    }
  }
  SavedFile& file = manifest->files[1];
  file.plt_bytes = position;
  const std::string bytes = encode_index(index, &file.idx_hash);
  file.idx_bytes = static_cast<int64_t>(bytes.size());
  return index;
}

IndexedStep::IndexedStep() {
  Hash128 hash;
  bytes = encode_index(index, &hash);
}
ShardIndex IndexedStep::read(const std::string& data) const {
  return decode_index(data, "s00003.idx", manifest, file());
}
ShardIndex IndexedStep::read_named(const std::string& data) const {
  SavedFile named = file();
  named.idx_hash = open_sealed(data, "s00003.idx").hash;
  named.idx_bytes = static_cast<int64_t>(data.size());
  return decode_index(data, "s00003.idx", manifest, named);
}

ShardHeader sample_header() {
  ShardHeader header;
  header.save_id = {0x0102030405060708, 0x1112131415161718};
  header.ordinal = 0x1234;
  header.file_bytes = 0x212223242526;
  header.slices = 0x31;
  header.step = 0x4142434445;
  return header;
}

std::string describe(const Manifest& m) {
  std::ostringstream out;
  const SavedFormat& f = m.format;
  out << "format " << f.major << ' ' << f.minor << ' ' << f.min_reader_minor << ' ' << f.required
      << ' ' << f.optional << ' ' << f.writer << ' ' << f.numerics << ' ' << f.align_log2 << '\n';
  out << "ids " << m.save_id.low << ' ' << m.save_id.high << ' ' << m.state_digest.low << ' '
      << m.state_digest.high << '\n';
  const SavedLayout& l = m.layout;
  out << "layout " << l.tensor << ' ' << l.pipeline << ' ' << l.data << ' ' << l.interleave << ' '
      << l.zero << ' ' << l.sequence_parallel;
  for (const int64_t layers : l.stage_layers) out << ' ' << layers;
  out << '\n';
  for (const auto& [key, value] : m.config) out << "config " << key << '=' << value << '\n';
  describe_run(m, &out);
  for (const SavedTensor& tensor : m.tensors) describe_states(tensor, &out);
  for (const SavedFile& s : m.files) {
    out << "file " << s.ordinal << ' ' << s.tensor << ' ' << s.pipeline << ' ' << s.data << ' '
        << s.plt_bytes << ' ' << s.idx_bytes << ' ' << s.idx_hash.low << ' ' << s.idx_hash.high
        << '\n';
  }
  for (const SavedProperty& p : m.properties) {
    out << "property " << p.name << ' ' << static_cast<int>(p.type) << ' ' << p.integer << ' '
        << std::bit_cast<uint64_t>(p.real) << ' ' << p.text << '\n';
  }
  return out.str();
}

std::string describe(const ShardIndex& index) {
  std::ostringstream out;
  out << index.major << '.' << index.minor << ' ' << index.save_id.low << ' ' << index.save_id.high
      << ' ' << index.ordinal << '\n';
  for (const Slice& s : index.slices) {
    out << s.tensor << ' ' << state_kind_name(s.kind) << ' ' << dtype_name(s.dtype) << ' '
        << s.box.dims;
    for (size_t d = 0; d < Shape::kMaxDims; ++d) {
      out << ' ' << s.box.first[d] << '+' << s.box.size[d];
    }
    out << " at " << s.position << ' ' << s.bytes << ' ' << s.hash << ' ' << s.digest << '\n';
  }
  return out.str();
}

OpenBuffer::OpenBuffer(const std::string& sealed)
    : payload(sealed.substr(0, sealed.size() - static_cast<size_t>(kTrailerBytes))) {}

uint8_t* OpenBuffer::place_of(const void* table, flatbuffers::voffset_t field) {
  const auto offset = static_cast<const flatbuffers::Table*>(table)->GetOptionalFieldOffset(field);
  REQUIRE(offset != 0);
  return reinterpret_cast<uint8_t*>(const_cast<void*>(table)) + offset;
}

void OpenBuffer::remove(const void* table, flatbuffers::voffset_t field) {
  place_of(table, field);
  const auto* vtable = static_cast<const flatbuffers::Table*>(table)->GetVTable();
  poke(vtable, field, flatbuffers::voffset_t{0});
}

void OpenBuffer::point(const void* table, flatbuffers::voffset_t field, const void* target) {
  const uint8_t* place = place_of(table, field);
  const auto distance = static_cast<const uint8_t*>(target) - place;
  REQUIRE(distance > 0);
  poke(place, 0, static_cast<flatbuffers::uoffset_t>(distance));
}

std::string OpenBuffer::sealed(uint64_t sequence) const {
  std::string bytes = payload;
  append_trailer(&bytes, sequence);
  return bytes;
}

}  // namespace plait

// Manifests there and back, the names of steps, damage, and other versions of the format.
#include <bit>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "checkpoint/format/hash.h"
#include "checkpoint/format/trailer.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

Manifest read_back(const std::string& bytes, uint64_t* sequence = nullptr) {
  uint64_t unused = 0;
  return decode_manifest(bytes, "MANIFEST", sequence != nullptr ? sequence : &unused);
}

TEST_CASE("a manifest reads back as it was, every field") {
  for (const Manifest& manifest : {rich_manifest(), least_manifest(), Manifest{}}) {
    const std::string bytes = encode_manifest(manifest, 77);
    uint64_t sequence = 0;
    CHECK(describe(read_back(bytes, &sequence)) == describe(manifest));
    CHECK(sequence == 77);
  }
}

TEST_CASE("equal values have equal bytes, and the sequence is in the trailer alone") {
  const std::string bytes = encode_manifest(rich_manifest(), 7);
  CHECK(encode_manifest(rich_manifest(), 7) == bytes);
  CHECK(encode_manifest(read_back(bytes), 7) == bytes);
  const std::string other = encode_manifest(rich_manifest(), 8);
  const auto payload = bytes.size() - static_cast<size_t>(kTrailerBytes);
  CHECK(other != bytes);
  CHECK(other.substr(0, payload) == bytes.substr(0, payload));
  CHECK(bytes.substr(4, 4) == "PLCM");
}

TEST_CASE("tensors are found by name") {
  const Manifest manifest = rich_manifest();
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    CHECK(manifest.find(manifest.tensors[i].name) == static_cast<int64_t>(i));
  }
  CHECK(manifest.find("") == -1);
  CHECK(manifest.find("a.biat") == -1);
  CHECK(manifest.find("zzz") == -1);
  REQUIRE(manifest.state(1, StateKind::kMoment2) != nullptr);
  CHECK(manifest.state(1, StateKind::kMoment2)->dtype == DType::kBFloat16);
  CHECK(manifest.state(1, StateKind::kParam) == nullptr);
}

/// Little-endian numbers, one after another.
class Numbers {
 public:
  Numbers& add(uint64_t value, size_t bytes = 8) {
    for (size_t i = 0; i < bytes; ++i) text_.push_back(static_cast<char>(value >> 8 * i));
    return *this;
  }
  Numbers& add(double value) { return add(std::bit_cast<uint64_t>(value)); }
  Hash128 hash() const { return xxh3_128(text_); }

 private:
  std::string text_;
};

TEST_CASE("state digest and save id, by their definition") {
  const Manifest m = rich_manifest();
  Numbers state;
  for (const SavedTensor& tensor : m.tensors) {
    for (const TensorState& s : tensor.states) {
      state.add(xxh3_64(tensor.name)).add(static_cast<uint64_t>(s.kind), 2);
      state.add(static_cast<uint64_t>(s.dtype), 1).add(uint64_t(tensor.shape.dims()), 1);
      state.add(uint64_t{0}, 4);
      for (int d = 0; d < 4; ++d) {
        state.add(d < tensor.shape.dims() ? uint64_t(tensor.shape[d]) : uint64_t{1});
      }
      state.add(s.digest);
    }
  }
  state.add(uint64_t{999'999'999'999}).add(uint64_t{INT64_MAX}).add(uint64_t{12345});
  state.add(uint64_t{678901}).add(uint64_t{3}).add(uint64_t{2}).add(-0.0);
  state.add(65536.0).add(uint64_t{77}).add(~uint64_t{0} - 4);
  state.add(xxh3_64("philox4x32-10")).add(uint64_t{65535}).add(UINT64_MAX);
  state.add(xxh3_64("feistel")).add(uint64_t{2}).add(uint64_t{42}).add(uint64_t{2});
  for (const uint64_t value : {UINT64_MAX, uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{1} << 63,
                               uint64_t{4}, uint64_t{5}, uint64_t{6}, uint64_t{7}, uint64_t{8}}) {
    state.add(value);
  }
  CHECK(m.state_digest == state.hash());

  Numbers save;
  save.add(m.state_digest.low).add(m.state_digest.high);
  for (const uint64_t value : {0, 1, 12, 3, 1, 2, 4, 2, 1, 4, 1, 2, 0, 7}) save.add(value);
  CHECK(m.save_id == save.hash());
}

TEST_CASE("the state digest is of the state, the save id of state and layout") {
  const Manifest base = rich_manifest();
  const auto sealed = [&](void (*change)(Manifest*)) {
    Manifest m = base;
    change(&m);
    seal_identity(&m);
    return m;
  };
  const std::vector<void (*)(Manifest*)> states = {
      [](Manifest* m) { m->tensors[0].name = "a.biat"; },
      [](Manifest* m) { m->tensors[3].states[0].digest ^= 1; },
      [](Manifest* m) { m->tensors[2].states[1].kind = StateKind::kMoment2; },
      [](Manifest* m) { m->tensors[2].states[0].dtype = DType::kBFloat16; },
      [](Manifest* m) {
        m->tensors[3].shape = {2, 2, 3};
      },
      [](Manifest* m) { m->progress.overflows++; },
      [](Manifest* m) { m->progress.lr = 0; },
      [](Manifest* m) { m->scaler.is_present = false; },
      [](Manifest* m) { m->scaler.hysteresis_left--; },
      [](Manifest* m) { m->random.seed--; },
      [](Manifest* m) { m->random.algorithm += 'x'; },
      [](Manifest* m) { m->data.parts.pop_back(); },
      [](Manifest* m) { m->data.parts[0].credit++; }};
  for (const auto& change : states) {
    CHECK(sealed(change).state_digest != base.state_digest);
    CHECK(sealed(change).save_id != base.save_id);
  }
  const std::vector<void (*)(Manifest*)> layouts = {
      [](Manifest* m) { m->layout.data = 3; },
      [](Manifest* m) { m->layout.sequence_parallel = false; },
      [](Manifest* m) { m->layout.stage_layers.pop_back(); },
      [](Manifest* m) { m->format.align_log2 = 13; }};
  for (const auto& change : layouts) {
    CHECK(sealed(change).state_digest == base.state_digest);
    CHECK(sealed(change).save_id != base.save_id);
  }
  const std::vector<void (*)(Manifest*)> others = {
      [](Manifest* m) { m->config.clear(); }, [](Manifest* m) { m->properties.clear(); },
      [](Manifest* m) { m->files.clear(); }, [](Manifest* m) { m->format.writer = "other"; },
      // What is absent has no values.
      [](Manifest* m) { m->groups.clear(); }};
  for (const auto& change : others) CHECK(sealed(change).save_id == base.save_id);
}

TEST_CASE("every truncation and every flipped bit of a manifest is corrupt") {
  const std::string bytes = encode_manifest(least_manifest(), 1);
  REQUIRE(bytes.size() < 2000);
  const auto refuse = [](const std::string& damaged) {
    require_error([&] { read_back(damaged); }, "corrupt", {"path=MANIFEST"});
  };
  for (size_t size = 0; size < bytes.size(); ++size) refuse(bytes.substr(0, size));
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    refuse(flipped);
  }
}

TEST_CASE("every truncation and every flipped bit under a right trailer is refused or read") {
  const OpenBuffer whole(encode_manifest(least_manifest(), 1));
  int read = 0;
  const auto attempt = [&read](const OpenBuffer& buffer) {
    try {
      encode_manifest(read_back(buffer.sealed()), 1);
      ++read;
    } catch (const Error& error) {
      INFO(error.message());
      REQUIRE((error.word() == "invalid_field" || error.word() == "format"));
    }
  };
  for (size_t size = 0; size < whole.payload.size(); ++size) {
    OpenBuffer cut = whole;
    cut.payload.resize(size);
    attempt(cut);
  }
  for (size_t bit = 0; bit < whole.payload.size() * 8; ++bit) {
    OpenBuffer flipped = whole;
    flipped.payload[bit / 8] = static_cast<char>(flipped.payload[bit / 8] ^ (1 << bit % 8));
    attempt(flipped);
  }
  // Bits of digests, counters and paddings say nothing that can be wrong.
  CHECK(read > 0);
}

TEST_CASE("a manifest without a scaler has none") {
  OpenBuffer buffer(encode_manifest(rich_manifest(), 1));
  buffer.remove(buffer.manifest(), wire::Manifest::VT_SCALER);
  CHECK(!read_back(buffer.sealed()).scaler.is_present);
}

TEST_CASE("other versions of the format") {
  const auto changed = [](auto change) {
    OpenBuffer buffer(encode_manifest(rich_manifest(), 1));
    change(&buffer, buffer.manifest()->format());
    return buffer.sealed();
  };
  using Table = const wire::Format*;
  const std::string major =
      changed([](OpenBuffer* b, Table t) { b->set(t, wire::Format::VT_MAJOR, uint16_t{1}); });
  require_error([&] { read_back(major); }, "format", {"found=1.1", "supported=0.1"});
  const std::string minor = changed([](OpenBuffer* b, Table t) {
    b->set(t, wire::Format::VT_MINOR, uint16_t{9});
    b->set(t, wire::Format::VT_MIN_READER_MINOR, uint16_t{2});
  });
  require_error([&] { read_back(minor); }, "format", {"found=0.9", "min_reader_minor=2"});
  const std::string bit =
      changed([](OpenBuffer* b, Table t) { b->set(t, wire::Format::VT_REQUIRED, uint64_t{4}); });
  require_error([&] { read_back(bit); }, "format", {"found=4", "supported=0"});

  const std::string readable = changed([](OpenBuffer* b, Table t) {
    b->set(t, wire::Format::VT_MINOR, uint16_t{9});
    b->set(t, wire::Format::VT_OPTIONAL, uint64_t{0xFF});
    b->poke(b->manifest()->tensors()->Get(0)->states()->Get(0), 4, uint32_t{5});
  });
  CHECK(read_back(readable).format.minor == 9);
  CHECK(read_back(readable).format.optional == 0xFF);
}

TEST_CASE("a field of a later minor is passed over") {
  flatbuffers::FlatBufferBuilder builder;
  builder.ForceDefaults(true);
  const auto text = [&] { return builder.CreateString("x"); };
  const auto writer = text(), numerics = text();
  const auto format = wire::CreateFormat(builder, 0, 2, 1, 0, 0, writer, numerics, 12);
  const std::vector<uint32_t> no_layers;
  const auto layout = wire::CreateLayoutDirect(builder, 1, 1, 1, 1, 0, false, &no_layers);
  const auto progress = wire::CreateProgress(builder);
  const auto random = wire::CreateRng(builder, text());
  const std::vector<flatbuffers::Offset<wire::Dataset>> no_parts;
  const auto data = wire::CreateDataDirect(builder, "", 0, 0, &no_parts);
  const auto config = builder.CreateVector(std::vector<flatbuffers::Offset<wire::Pair>>());
  const auto groups = builder.CreateVector(std::vector<flatbuffers::Offset<wire::Group>>());
  const auto tensors = builder.CreateVector(std::vector<flatbuffers::Offset<wire::Tensor>>());
  const auto files = builder.CreateVectorOfStructs(std::vector<wire::ShardFile>());
  const auto properties = builder.CreateVector(std::vector<flatbuffers::Offset<wire::Property>>());
  const auto later = text();
  const wire::Id128 id(1, 2);
  wire::ManifestBuilder root(builder);
  root.add_format(format);
  root.add_save_id(&id);
  root.add_state_digest(&id);
  root.add_layout(layout);
  root.add_config(config);
  root.add_progress(progress);
  root.add_rng(random);
  root.add_data(data);
  root.add_groups(groups);
  root.add_tensors(tensors);
  root.add_files(files);
  root.add_properties(properties);
  constexpr flatbuffers::voffset_t kLaterText = 4 + 2 * 20, kLaterNumber = 4 + 2 * 21;
  builder.AddOffset(kLaterText, later);
  builder.AddElement<uint64_t>(kLaterNumber, 99, 0);
  builder.Finish(root.Finish(), wire::ManifestIdentifier());
  std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  append_trailer(&bytes, 1);
  const Manifest manifest = read_back(bytes);
  CHECK(manifest.format.minor == 2);
  CHECK(manifest.save_id == Hash128{1, 2});
}

}  // namespace
}  // namespace plait

// The limits of the format: what is at one is written and read, what is one past it is refused when
// it would be written, by the word for it.
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/format/trailer.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/support/sanitized.h"

namespace plait {
namespace {

using test::kIsSanitized;

void require_accepted(const Manifest& manifest) {
  const std::string bytes = encode_manifest(manifest, 3);
  uint64_t sequence = 0;
  const Manifest back = decode_manifest(bytes, "MANIFEST", &sequence);
  REQUIRE(encode_manifest(back, 3) == bytes);
}

void require_too_large(const Manifest& manifest, const std::string& field) {
  INFO(field);
  require_error([&] { encode_manifest(manifest, 1); }, "too_large",
                {"path=MANIFEST", "field=" + field, "value=", "limit="});
}

void require_invariant(const Manifest& manifest, const std::string& field) {
  INFO(field);
  require_error([&] { encode_manifest(manifest, 1); }, "invariant", {"field=" + field});
}

std::string numbered(int64_t number) {
  char text[32];
  std::snprintf(text, sizeof text, "%06lld", static_cast<long long>(number));
  return text;
}

Manifest with_tensors(int64_t count) {
  Manifest manifest = least_manifest();
  const SavedTensor model = manifest.tensors[0];
  manifest.tensors.assign(static_cast<size_t>(count), model);
  for (size_t i = 0; i < manifest.tensors.size(); ++i) {
    manifest.tensors[i].name = numbered(static_cast<int64_t>(i));
  }
  return manifest;
}

Manifest with_files(int64_t count) {
  Manifest manifest = least_manifest();
  manifest.layout.data = 1 << 20;
  manifest.files.assign(static_cast<size_t>(count), manifest.files[0]);
  for (size_t i = 0; i < manifest.files.size(); ++i) {
    manifest.files[i].ordinal = static_cast<uint32_t>(i);
  }
  return manifest;
}

Manifest with_properties(int64_t count, size_t text_bytes) {
  Manifest manifest = least_manifest();
  for (int64_t i = 0; i < count; ++i) {
    manifest.properties.push_back(
        {numbered(i), SavedProperty::Type::kText, 0, 0, std::string(text_bytes, 'x')});
  }
  return manifest;
}

TEST_CASE("names, texts and counts at their limits and one past them") {
  Manifest manifest = least_manifest();
  manifest.tensors[0].name = std::string(256, 'n');
  require_accepted(manifest);
  manifest.tensors[0].name += 'n';
  require_too_large(manifest, "tensors[0].name");

  require_accepted(with_properties(4096, 8));
  require_too_large(with_properties(4097, 0), "properties");
  require_accepted(with_properties(1, 65536));
  require_too_large(with_properties(1, 65537), "properties[0].text");
  // 16 texts and their names of six bytes.
  require_accepted(with_properties(16, 65536 - 6));
  Manifest full = with_properties(16, 65536 - 6);
  full.properties[15].text += 'x';
  require_too_large(full, "properties");
  full = with_properties(1, 0);
  full.properties[0].name = std::string(128, 'p');
  require_accepted(full);
  full.properties[0].name += 'p';
  require_too_large(full, "properties[0].name");

  manifest = least_manifest();
  manifest.progress.step = 999'999'999'999;
  require_accepted(manifest);
  ++manifest.progress.step;
  require_too_large(manifest, "progress.step");

  require_accepted(with_files(65536));
  require_too_large(with_files(65537), "files");
}

TEST_CASE("the number of tensors at its limit and one past it") {
  if (kIsSanitized) return;
  require_too_large(with_tensors(FormatLimits::kTensors + 1), "tensors");
  // The largest counts of all at once, three states of each tensor.
  Manifest manifest = with_tensors(FormatLimits::kTensors);
  for (SavedTensor& tensor : manifest.tensors) {
    TensorState state = tensor.states[0];
    for (const StateKind kind : {StateKind::kMoment1, StateKind::kMoment2}) {
      state.kind = kind;
      tensor.states.push_back(state);
    }
  }
  const Manifest files = with_files(FormatLimits::kFiles);
  manifest.layout = files.layout;
  manifest.files = files.files;
  manifest.properties = with_properties(4096, 200).properties;
  require_accepted(manifest);
}

TEST_CASE("more tensors than the limit are refused in a file too") {
  flatbuffers::FlatBufferBuilder builder;
  // Text, so that the tables are few for the bytes.
  const auto text = builder.CreateString(std::string(5 << 20, 'x'));
  const auto short_text = builder.CreateString("x");
  const std::vector<uint64_t> no_sizes;
  const auto tensor = wire::CreateTensorDirect(builder, "t", &no_sizes);
  const auto tensors = builder.CreateVector(std::vector<flatbuffers::Offset<wire::Tensor>>(
      static_cast<size_t>(FormatLimits::kTensors) + 1, tensor));
  const auto format = wire::CreateFormat(builder, 0, 1, 1, 0, 0, short_text, text, 12);
  const std::vector<uint32_t> no_layers;
  const auto layout = wire::CreateLayoutDirect(builder, 1, 1, 1, 1, 0, false, &no_layers);
  const auto random = wire::CreateRng(builder, short_text);
  const std::vector<flatbuffers::Offset<wire::Dataset>> no_parts;
  const auto data = wire::CreateDataDirect(builder, "", 0, 0, &no_parts);
  const auto config = builder.CreateVector(std::vector<flatbuffers::Offset<wire::Pair>>());
  const auto groups = builder.CreateVector(std::vector<flatbuffers::Offset<wire::Group>>());
  const auto progress = wire::CreateProgress(builder);
  const wire::Id128 id(1, 2);
  builder.Finish(wire::CreateManifest(builder, format, &id, &id, layout, config, progress, 0,
                                      random, data, groups, tensors),
                 wire::ManifestIdentifier());
  std::string bytes(reinterpret_cast<const char*>(builder.GetBufferPointer()), builder.GetSize());
  append_trailer(&bytes, 1);
  uint64_t sequence = 0;
  require_error([&] { decode_manifest(bytes, "MANIFEST", &sequence); }, "invalid_field",
                {"field=tensors", "value=262145", "limit=262144"});
}

TEST_CASE("a manifest larger than its limit is neither written nor read") {
  if (kIsSanitized) return;
  Manifest manifest = least_manifest();
  const size_t most = static_cast<size_t>(FormatLimits::kManifestBytes);
  const size_t rest = encode_manifest(manifest, 1).size();
  manifest.config = {{"k", std::string(most - rest - 200, 'v')}};
  require_accepted(manifest);
  manifest.config[0].second.append(200, 'v');
  require_too_large(manifest, "\"file bytes\"");
  manifest.config[0].second.append(most, 'v');
  require_too_large(manifest, "texts");
  uint64_t sequence = 0;
  require_error([&] { decode_manifest(std::string(most + 1, '\0'), "MANIFEST", &sequence); },
                "invalid_field", {"field=\"file bytes\"", "limit=67108864"});
}

TEST_CASE("an index with more slices than its limit is not written") {
  if (kIsSanitized) return;
  ShardIndex index;
  index.slices.resize(static_cast<size_t>(FormatLimits::kSlices) + 1);
  Hash128 hash;
  require_error([&] { encode_index(index, &hash); }, "too_large",
                {"field=slices", "value=2097153", "limit=2097152"});
}

TEST_CASE("values that no caller may give are faults of the writer") {
  const auto changed = [](void (*change)(Manifest*)) {
    Manifest manifest = rich_manifest();
    change(&manifest);
    return manifest;
  };
  require_invariant(changed([](Manifest* m) { std::swap(m->tensors[0], m->tensors[1]); }),
                    "tensors[1].name");
  require_invariant(changed([](Manifest* m) { m->tensors[1].name = m->tensors[0].name; }),
                    "tensors[1].name");
  require_invariant(changed([](Manifest* m) { m->tensors[0].shape = {}; }), "tensors[0].shape");
  require_invariant(changed([](Manifest* m) { m->tensors[0].shape = {0}; }), "tensors[0].shape[0]");
  require_invariant(changed([](Manifest* m) { m->tensors[0].states[0].elements = 1; }),
                    "tensors[0].states[0].elements");
  require_invariant(changed([](Manifest* m) { m->tensors[0].group = -1; }), "tensors[0].group");
  require_invariant(changed([](Manifest* m) { m->layout.tensor = -1; }), "layout.tensor");
  require_invariant(changed([](Manifest* m) { m->progress.samples = -1; }), "progress.samples");
  require_invariant(changed([](Manifest* m) { m->random.key_version = 1 << 16; }),
                    "rng.key_version");
  require_invariant(changed([](Manifest* m) { m->data.order_version = -1; }), "data.order_version");
  require_invariant(changed([](Manifest* m) { m->config[0].second = "\xFF"; }), "config[0].value");
  require_invariant(changed([](Manifest* m) { m->files[1].ordinal = 0; }), "files[1].ordinal");
  require_invariant(changed([](Manifest* m) { m->format.minor = -1; }), "format.minor");
}

}  // namespace
}  // namespace plait

// Checkpoints of every released minor: each loads, and holds what it has always held; each altered
// copy ends as it always has.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "checkpoint/store/step_reader.h"
#include "kernels/base/error.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/golden_steps.h"
#include "tests/support/sim_files.h"

namespace plait {
namespace {

/// All fields, all slices, and of each (tensor, kind) the bits of its first and last element.
std::string step_text(const StepReader& reader) {
  std::ostringstream out;
  const Manifest& manifest = reader.manifest();
  out << "sequence " << reader.sequence() << '\n' << describe(manifest);
  for (const ShardIndex& index : reader.indexes()) out << "index " << describe(index);
  for (size_t t = 0; t < manifest.tensors.size(); ++t) {
    for (const TensorState& state : manifest.tensors[t].states) {
      REQUIRE(state.dtype == DType::kFloat32);
      std::vector<uint32_t> bits(static_cast<size_t>(state.elements));
      reader.read_whole(static_cast<int64_t>(t), state.kind, bits.data());
      out << "values " << manifest.tensors[t].name << ' ' << state_kind_name(state.kind) << ' '
          << std::hex << bits.front() << " to " << bits.back() << std::dec << '\n';
    }
  }
  return out.str();
}

TEST_CASE("golden checkpoints hold what they have always held") {
  for (const std::string name : kGoldenSteps) {
    INFO(name);
    const auto reader = StepReader::open(posix_env().files, golden_path(name));
    for (const Damage& damage : reader->verify(true)) FAIL_CHECK(damage.file << damage.what);
    const std::string path = golden_path(name + ".txt"), text = step_text(*reader);
    const bool is_new = !std::filesystem::exists(path);
    if (is_new && std::getenv("PLAIT_UPDATE_GOLDENS") != nullptr) std::ofstream(path) << text;
    CHECK(text == read_file(posix_env().files, path, 1 << 20));
  }
}

/// Files of a step by name.
using StepBytes = std::map<std::string, std::string>;
using Altered = std::function<void(StepBytes&)>;

struct Ending {
  Code code = Code::kOk;
  std::string word;
};

struct AlteredCopy {
  const char* name;
  Altered change;
  Ending ending;
};

/// The step on a disk, as "/step".
SimFiles on_disk(const StepBytes& files) {
  SimFiles disk;
  disk.make_private_directory("/step");
  for (const auto& [name, bytes] : files) {
    const auto file = disk.create_private("/step/" + name);
    file->pwrite(bytes.data(), static_cast<int64_t>(bytes.size()), 0);
  }
  return disk;
}

/// One bit of a file, counted from its first byte or, if negative, from behind its last.
Altered flipped(const char* name, int64_t byte) {
  return [=](StepBytes& files) {
    std::string& bytes = files.at(name);
    const int64_t place = byte < 0 ? static_cast<int64_t>(bytes.size()) + byte : byte;
    char& c = bytes.at(static_cast<size_t>(place));
    c = static_cast<char>(c ^ 4);
  };
}
Altered longer(const char* name, int64_t bytes) {
  return [=](StepBytes& files) {
    std::string& old = files.at(name);
    old.resize(static_cast<size_t>(static_cast<int64_t>(old.size()) + bytes));
  };
}
Altered without(const char* name) {
  return [=](StepBytes& files) { files.erase(name); };
}

/// Fields of the table Format, under a right trailer.
Altered poked_format(const std::function<void(OpenBuffer&, const wire::Format*)>& change) {
  return [=](StepBytes& files) {
    OpenBuffer buffer(files.at("MANIFEST"));
    change(buffer, buffer.manifest()->format());
    files.at("MANIFEST") = buffer.sealed();
  };
}
template <class Value>
Altered poked_format(flatbuffers::voffset_t field, Value value) {
  return poked_format(
      [=](OpenBuffer& b, const wire::Format* table) { b.set(table, field, value); });
}

/// The first index, named by the manifest as it then is.
Altered changed_index(void (*change)(ShardIndex*)) {
  return [=](StepBytes& files) {
    SimFiles disk = on_disk(files);
    const auto reader = StepReader::open(disk, "/step");
    Manifest manifest = reader->manifest();
    ShardIndex index = reader->indexes().front();
    change(&index);
    files.at("s00000.idx") = encode_index(index, &manifest.files.front().idx_hash);
    files.at("MANIFEST") = encode_manifest(manifest, reader->sequence());
  };
}

/// The first header, under a right hash.
Altered changed_header(void (*change)(ShardHeader*)) {
  return [=](StepBytes& files) {
    std::string& bytes = files.at("s00000.plt");
    ShardHeader header = decode_shard_header(bytes, "s00000.plt");
    change(&header);
    bytes.replace(0, static_cast<size_t>(kShardHeaderBytes), encode_shard_header(header));
  };
}

/// As a later library may write the same state: every file says so.
Altered later(void (*change)(SavedFormat*)) {
  return [=](StepBytes& files) {
    SimFiles disk = on_disk(files);
    const auto reader = StepReader::open(disk, "/step");
    Manifest manifest = reader->manifest();
    change(&manifest.format);
    seal_identity(&manifest);
    for (size_t i = 0; i < manifest.files.size(); ++i) {
      SavedFile& file = manifest.files[i];
      ShardIndex index = reader->indexes()[i];
      index.save_id = manifest.save_id;
      index.minor = manifest.format.minor;
      files.at(index_name(file.ordinal)) = encode_index(index, &file.idx_hash);
      std::string& shard = files.at(shard_name(file.ordinal));
      ShardHeader header = decode_shard_header(shard, "shard");
      header.save_id = manifest.save_id;
      header.minor = manifest.format.minor;
      shard.replace(0, static_cast<size_t>(kShardHeaderBytes), encode_shard_header(header));
    }
    files.at("MANIFEST") = encode_manifest(manifest, reader->sequence());
  };
}

const std::vector<AlteredCopy>& altered_copies() {
  using F = wire::Format;
  constexpr Code kLost = Code::kDataLoss, kUnbuilt = Code::kUnimplemented;
  static const std::vector<AlteredCopy> copies = {
      {"as it is", [](StepBytes&) {}, {}},
      // MANIFEST
      {"no MANIFEST", without("MANIFEST"), {Code::kNotFound, "no_checkpoint"}},
      {"a bit of MANIFEST", flipped("MANIFEST", 100), {kLost, "corrupt"}},
      {"a bit of its trailer's size", flipped("MANIFEST", -40), {kLost, "corrupt"}},
      {"a bit of its trailer's sequence", flipped("MANIFEST", -32), {kLost, "corrupt"}},
      {"a bit of its trailer's hash", flipped("MANIFEST", -20), {kLost, "corrupt"}},
      {"a bit of its trailer's end", flipped("MANIFEST", -1), {kLost, "corrupt"}},
      {"MANIFEST cut short", longer("MANIFEST", -1), {kLost, "corrupt"}},
      {"MANIFEST with a byte behind it", longer("MANIFEST", 1), {kLost, "corrupt"}},
      {"half of MANIFEST", longer("MANIFEST", -4096), {kLost, "corrupt"}},
      {"another major", poked_format(F::VT_MAJOR, uint16_t{1}), {kUnbuilt, "format"}},
      {"another major, 65535", poked_format(F::VT_MAJOR, uint16_t{65535}), {kUnbuilt, "format"}},
      {"a later minor that keeps this reader out",
       poked_format([](OpenBuffer& b, const F* table) {
         b.set(table, F::VT_MINOR, uint16_t{kFormatMinor + 8});
         b.set(table, F::VT_MIN_READER_MINOR, uint16_t{kFormatMinor + 1});
       }),
       {kUnbuilt, "format"}},
      {"a later minor that lets this reader in",
       later([](SavedFormat* f) { f->minor = kFormatMinor + 8; }),
       {}},
      {"the lowest unknown required bit",
       poked_format(F::VT_REQUIRED, uint64_t{1}),
       {kUnbuilt, "format"}},
      {"the highest unknown required bit",
       poked_format(F::VT_REQUIRED, uint64_t{1} << 63),
       {kUnbuilt, "format"}},
      {"an unknown required bit of a later minor",
       poked_format([](OpenBuffer& b, const F* table) {
         b.set(table, F::VT_MINOR, uint16_t{kFormatMinor + 1});
         b.set(table, F::VT_REQUIRED, uint64_t{4});
       }),
       {kUnbuilt, "format"}},
      {"unknown optional bits", later([](SavedFormat* f) { f->optional = ~uint64_t{0}; }), {}},
      // index
      {"no index", without("s00000.idx"), {kLost, "missing_shard"}},
      {"a bit of an index", flipped("s00000.idx", 60), {kLost, "corrupt"}},
      {"a bit of an index' trailer", flipped("s00000.idx", -9), {kLost, "corrupt"}},
      {"an index cut short", longer("s00000.idx", -104), {kLost, "corrupt"}},
      {"an index of another major",
       changed_index([](ShardIndex* index) { index->major = 1; }),
       {kUnbuilt, "format"}},
      {"an index of a later minor than the manifest's",
       changed_index([](ShardIndex* index) { index->minor = kFormatMinor + 1; }),
       {kLost, "invalid_field"}},
      {"an index of another save",
       changed_index([](ShardIndex* index) { index->save_id.low ^= 1; }),
       {kLost, "save_id_mismatch"}},
      {"an index of another shard",
       changed_index([](ShardIndex* index) { index->ordinal += 1; }),
       {kLost, "invalid_field"}},
      {"a digest of a slice",
       changed_index([](ShardIndex* index) { index->slices.front().digest ^= 1; }),
       {kLost, "corrupt"}},
      // shard
      {"no shard", without("s00000.plt"), {kLost, "missing_shard"}},
      {"a bit of the first value", flipped("s00000.plt", 4096), {kLost, "corrupt"}},
      {"a bit of the last value", flipped("s00000.plt", -1), {kLost, "corrupt"}},
      {"a shard cut short", longer("s00000.plt", -1), {kLost, "corrupt"}},
      {"a byte behind a shard", longer("s00000.plt", 1), {kLost, "corrupt"}},
      {"a shard of another save",
       [](StepBytes& files) {
         changed_header([](ShardHeader* header) { header->save_id.low ^= 1; })(files);
         flipped("s00000.plt", 4096)(files);
       },
       {kLost, "save_id_mismatch"}},
      {"a file that no one names",
       [](StepBytes& files) { files["s00099.plt"] = "x"; },
       {kLost, "invalid_file"}},
      // what only a full verification reads
      {"a header of another save",
       changed_header([](ShardHeader* header) { header->save_id.low ^= 1; }),
       {kLost, "corrupt"}},
      {"a header of another major",
       changed_header([](ShardHeader* header) { header->major = 1; }),
       {kUnbuilt, "format"}},
      {"a header that its writer never wrote", flipped("s00000.plt", 0), {kLost, "corrupt"}},
      {"a gap that is not zero", flipped("s00000.plt", 8191), {kLost, "corrupt"}},
  };
  return copies;
}

/// The error of opening the step or of reading all its values, else what a full verification finds
/// first.
Ending ending_of(const StepBytes& files) {
  std::vector<Damage> damage;
  try {
    SimFiles disk = on_disk(files);
    const auto reader = StepReader::open(disk, "/step");
    step_text(*reader);
    damage = reader->verify(true);
  } catch (const Error& error) {
    return {error.code(), error.word()};
  }
  if (damage.empty()) return {};
  const std::string word = damage.front().what.substr(0, damage.front().what.find(':'));
  return {Error(word, "").code(), word};
}

TEST_CASE("altered copies of golden checkpoints end as they always have") {
  for (const std::string name : kGoldenSteps) {
    for (const AlteredCopy& copy : altered_copies()) {
      INFO(name << ": " << copy.name);
      StepBytes files;
      for (const std::string& file : posix_env().files.list(golden_path(name))) {
        files[file] = read_file(posix_env().files, golden_path(name + "/" + file), 1 << 20);
      }
      copy.change(files);
      const Ending ending = ending_of(files);
      CHECK(ending.word == copy.ending.word);
      CHECK(ending.code == copy.ending.code);
    }
  }
}

}  // namespace
}  // namespace plait

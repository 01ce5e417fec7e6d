// Hostile Hugging Face directories met by a live engine: refused with all that is wrong, the
// engine's weights bit-unchanged, exports whole or not at all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "tests/host/process_state.h"
#include "tests/host/rig.h"

using host::Err;
using host::Rig;

namespace {

using Parts = std::vector<std::string>;

/// Keys of an engine whose model is that of host::write_tiny_gpt2.
constexpr char kTinyGpt2[] = R"({"model":{"layers":1,"hidden":4,"heads":2,"vocab_size":8,
  "sequence_length":6,"tied":true}})";

/// The header of a safetensors file and what follows it.
struct Parted {
  std::string header, data;
};

Parted read_parts(const std::string& path) {
  const std::string bytes = host::read_file(path);
  uint64_t length = 0;
  std::memcpy(&length, bytes.data(), 8);
  return {bytes.substr(8, length), bytes.substr(8 + length)};
}

std::string joined(const Parted& parts) {
  const auto length = static_cast<uint64_t>(parts.header.size());
  return std::string(reinterpret_cast<const char*>(&length), 8) + parts.header + parts.data;
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

class Loads {
 public:
  Loads() : rig_(kTinyGpt2) {
    host::write_tiny_gpt2(model());
    state_ = rig_.state();
    good_ = read_parts(file());
  }
  std::string model() const { return folder_.path("m"); }
  std::string file() const { return folder_.path("m/model.safetensors"); }
  const Parted& good() const { return good_; }
  Rig& rig() { return rig_; }

  /// Writes the weights file, loads, and checks that the load is refused and changed nothing.
  void refused(const std::string& bytes, int32_t code, const std::string& word,
               const Parts& parts) {
    folder_.write("m/model.safetensors", bytes);
    const int64_t descriptors = host::descriptor_count();
    Err err;
    CHECK(load(err) == code);
    INFO(err.message());
    CHECK(err.word() == word);
    CHECK(err.message().find('\n') == std::string::npos);
    for (const std::string& part : parts) {
      INFO(part);
      CHECK(err.message().find(part) != std::string::npos);
    }
    CHECK(rig_.state() == state_);
    CHECK(host::descriptor_count() == descriptors);
    CHECK(plait_engine_state(rig_.engine) == PLAIT_ENGINE_READY);
  }
  int32_t load(Err& err) {
    host::Bytes report;
    return plait_checkpoint_load(rig_.engine, model().c_str(), 60000, report.out(), err);
  }
  void restore() { folder_.write("m/model.safetensors", joined(good_)); }

 private:
  host::Folder folder_;
  Rig rig_;
  std::string state_;
  Parted good_;
};

}  // namespace

TEST_CASE("L11: a safetensors header that lies is refused", "[bad_weights]") {
  Loads loads;
  const Parted& good = loads.good();
  const auto refused = [&](const std::string& bytes, const Parts& parts) {
    loads.refused(bytes, PLAIT_DATA_LOSS, "invalid_field", parts);
  };
  refused("", {"model.safetensors"});
  refused(joined(good).substr(0, 7), {"model.safetensors"});
  refused(joined(good).substr(0, joined(good).size() / 2), {"model.safetensors"});
  refused(joined({good.header, good.data.substr(4)}), {"model.safetensors"});
  refused(joined({good.header, good.data + "x"}), {"model.safetensors"});
  std::string huge = joined(good);
  std::memset(huge.data(), 0xFF, 8);
  refused(huge, {"18446744073709551615"});
  refused(joined({replaced(good.header, "[4,12]", "[4,13]"), good.data}), {"c_attn.weight"});
  refused(joined({replaced(good.header, "\"F32\"", "\"F99\""), good.data}), {"F99"});
  refused(joined({replaced(good.header, "[0,48]", "[4,48]"), good.data}), {"data_offsets"});
  Err err;
  loads.restore();
  REQUIRE(loads.load(err) == PLAIT_OK);
  CHECK(loads.rig().read("final_norm.weight")[1] - loads.rig().read("final_norm.weight")[0] ==
        1.0f / 64);
}

TEST_CASE("missing and extra tensors are all listed", "[bad_weights]") {
  Loads loads;
  Parted wrong = loads.good();
  wrong.header = replaced(wrong.header, "\"ln_f.bias\"", "\"ln_g.bias\"");
  wrong.header = replaced(wrong.header, "\"wpe.weight\"", "\"wpf.weight\"");
  loads.refused(joined(wrong), PLAIT_FAILED_PRECONDITION, "name_mismatch",
                {"ln_f.bias", "ln_g.bias", "wpe.weight", "wpf.weight", "missing_count=2",
                 "unexpected_count=2"});
}

TEST_CASE("L10: a NaN weight loads, unless checkpoint.check_finite asks", "[bad_weights]") {
  Loads loads;
  Parted wrong = loads.good();
  const float bad[] = {std::numeric_limits<float>::quiet_NaN(),
                       std::numeric_limits<float>::infinity()};
  const size_t embedding = wrong.data.size() - size_t{8 * 4 * 4};
  Err err;
  for (const float value : bad) {
    REQUIRE(plait_engine_set(loads.rig().engine, "checkpoint.check_finite", "true", err) ==
            PLAIT_OK);
    std::memcpy(wrong.data.data() + embedding + 4 * 9, &value, 4);
    loads.refused(joined(wrong), PLAIT_OUT_OF_RANGE, "nonfinite_weights",
                  {"tensor=embedding.token.weight", "index=9"});
  }
  REQUIRE(plait_engine_set(loads.rig().engine, "checkpoint.check_finite", "false", err) ==
          PLAIT_OK);
  REQUIRE(loads.load(err) == PLAIT_OK);
  CHECK(loads.rig().read("embedding.token.weight")[9] == bad[1]);
  // The step that meets it says so and changes nothing.
  const std::string state = loads.rig().state();
  loads.rig().set_tokens(host::make_rows(4, 7, 1, 8), 7);
  CHECK(loads.rig().step(err) == PLAIT_OUT_OF_RANGE);
  CHECK(err.word() == "nonfinite_loss");
  CHECK(loads.rig().state() == state);
  loads.restore();
  REQUIRE(loads.load(err) == PLAIT_OK);
  CHECK(loads.rig().step(err) == PLAIT_OK);
}

TEST_CASE("an export that is refused writes nothing", "[bad_weights]") {
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  host::Checkpoint checkpoint;
  Err err;
  REQUIRE(plait_checkpoint_open(context, folder.path("m").c_str(), checkpoint.out(), err) ==
          PLAIT_OK);
  const auto names = [&] {
    Parts found;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder.path())) {
      found.push_back(entry.path().string());
    }
    std::sort(found.begin(), found.end());
    return found;
  };
  const auto exported = [&](const std::string& target) {
    host::Op op;
    const int32_t code =
        plait_checkpoint_export_hf(checkpoint, config, target.c_str(), op.out(), err);
    return code == PLAIT_OK ? plait_op_wait(op, 60000, err) : code;
  };
  const Parts before = names();
  CHECK(exported(folder.path("m")) == PLAIT_ALREADY_EXISTS);
  CHECK(err.word() == "target_exists");
  CHECK(exported(folder.path("no/such/parent")) == PLAIT_NOT_FOUND);
  CHECK(names() == before);
  CHECK(exported(folder.path("out")) == PLAIT_OK);
}

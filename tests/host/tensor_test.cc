// Numbers across the ABI: tensors at any address, 64-bit counts, sizes that no memory has.
#include <sys/resource.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "kernels/base/sanitizer.h"
#include "tests/host/rig.h"

using host::Err;
using host::Rig;

namespace {

uint16_t bfloat16_of(float value) {
  uint32_t bits = 0;
  std::memcpy(&bits, &value, 4);
  return static_cast<uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace

TEST_CASE("B5: bf16 buffers of the host may start at any byte", "[tensor]") {
  const std::string name = "layers.1.attention.key.weight";
  Rig rig(R"({"precision.compute":"bf16"})");
  const std::vector<float> master = rig.read(name, PLAIT_KIND_MASTER);
  const int64_t bytes = static_cast<int64_t>(master.size()) * 2;
  std::vector<uint16_t> want;
  for (const float value : master) want.push_back(bfloat16_of(value));
  alignas(64) static char memory[64 + 2048 + 64];
  REQUIRE(bytes == 2048);
  Err err;
  for (int offset = 0; offset < 64; ++offset) {  // 2, 6 and 62 among them
    INFO("offset " << offset);
    std::memset(memory, 0x5A, sizeof memory);
    char* data = memory + offset;
    REQUIRE(plait_engine_tensor_read(rig.engine, name.c_str(), PLAIT_KIND_PARAM,
                                     PLAIT_DTYPE_BFLOAT16, 60000, data, bytes, err) == PLAIT_OK);
    CHECK(std::memcmp(data, want.data(), static_cast<size_t>(bytes)) == 0);
    bool is_guarded = true;
    for (const char* p = memory; p < memory + sizeof memory; ++p) {
      if ((p < data || p >= data + bytes) && *p != 0x5A) is_guarded = false;
    }
    CHECK(is_guarded);
    // Reversed bytes of another order: every element differs, so a shifted read would show.
    std::vector<uint16_t> other(want.rbegin(), want.rend());
    std::memcpy(data, other.data(), static_cast<size_t>(bytes));
    REQUIRE(plait_engine_tensor_write(rig.engine, name.c_str(), PLAIT_KIND_PARAM,
                                      PLAIT_DTYPE_BFLOAT16, data, bytes, 60000, err) == PLAIT_OK);
    const std::vector<float> got = rig.read(name, PLAIT_KIND_MASTER);
    bool is_equal = true;
    for (size_t i = 0; i < got.size(); ++i) is_equal &= bfloat16_of(got[i]) == other[i];
    CHECK(is_equal);
    want = other;
  }
}

TEST_CASE("A6: 64-bit numbers keep every bit on every way through the ABI", "[tensor]") {
  Rig rig;
  Err err;
  const int64_t numbers[] = {int64_t{1} << 31, (int64_t{1} << 32) + 5, int64_t{1} << 40,
                             (int64_t{1} << 53) + 1, INT64_MAX};
  for (const int64_t number : numbers) {
    const std::string text = std::to_string(number);
    host::Bytes value;
    REQUIRE(plait_config_set(rig.config, "seed", text.c_str(), err) == PLAIT_OK);
    REQUIRE(plait_config_get(rig.config, "seed", value.out(), err) == PLAIT_OK);
    CHECK(value.text() == text);
    REQUIRE(plait_config_dump(rig.config, 0, value.out(), err) == PLAIT_OK);
    CHECK(value.text().find("\"seed\":" + text) != std::string::npos);
    const host::Config other = host::make_config(rig.context, value.text());
    REQUIRE(plait_config_get(other, "seed", value.out(), err) == PLAIT_OK);
    CHECK(value.text() == text);
    for (const int64_t integer : {number, -number}) {
      REQUIRE(plait_engine_set_property(rig.engine, "count", PLAIT_PROPERTY_INTEGER, integer, 0,
                                        nullptr, err) == PLAIT_OK);
      REQUIRE(plait_engine_report(rig.engine, "properties", value.out(), err) == PLAIT_OK);
      CHECK(value.text() == "{\"count\":" + std::to_string(integer) + "}");
    }
    // As sizes and places: refused, and named in full.
    if (number >= int64_t{1} << 40) {
      CHECK(plait_batch_set(rig.batch, "tokens", host::make_rows(1, 1).data(), number, 17, err) !=
            PLAIT_OK);
      CHECK(err.message().find(text) != std::string::npos);
    }
    auto info = host::sized<plait_entry_info>();
    CHECK(plait_engine_tensor_at(rig.engine, number, &info, err) == PLAIT_INVALID_ARGUMENT);
    CHECK(err.message().find(text) != std::string::npos);
  }
}

TEST_CASE("A6: far samples of a small data set", "[tensor]") {
  const host::Folder folder;
  std::string data;
  for (int i = 0; i < 129; ++i) data += std::string{static_cast<char>(i), '\0'};
  const std::string path = folder.write("d.bin", data);
  const host::Context context = host::make_context();
  const host::Config config = host::small_config(
      context, "{\"model.vocab_size\":300,\"data.shuffle\":false,\"data.train\":\"" + path + "\"}");
  host::Dataset dataset;
  Err err;
  REQUIRE(plait_dataset_open(context, config, "train", dataset.out(), err) == PLAIT_OK);
  for (const int64_t sample :
       {int64_t{1} << 31, (int64_t{1} << 32) + 5, (int64_t{1} << 53) + 1, int64_t{3'000'000'000}}) {
    host::Bytes far, near;
    REQUIRE(plait_dataset_read(dataset, "tokens", sample, 1, far.out(), err) == PLAIT_OK);
    REQUIRE(plait_dataset_read(dataset, "tokens", sample % 8, 1, near.out(), err) == PLAIT_OK);
    CHECK(far.integers() == near.integers());
    CHECK(far.integers()[0] == 16 * (sample % 8));
  }
  host::Bytes none;
  CHECK(plait_dataset_read(dataset, "tokens", INT64_MAX, 2, none.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_dataset_read(dataset, "tokens", 0, INT64_MAX, none.out(), err) != PLAIT_OK);
}

#if !PLAIT_ADDRESS_SANITIZER && !PLAIT_THREAD_SANITIZER
TEST_CASE("R14: a model beyond all memory is refused, no engine is made", "[tensor]") {
  Rig rig;
  Err err;
  struct rlimit before {};
  REQUIRE(getrlimit(RLIMIT_AS, &before) == 0);
  const struct rlimit limit { rlim_t{6} << 30, before.rlim_max };
  const host::Config large =
      host::small_config(rig.context, R"({"model.layers":48,"model.hidden":8192,"model.heads":64,
        "model.vocab_size":50257})");  // 40 billion parameters
  const host::Group group = host::make_group(rig.context, large);
  REQUIRE(setrlimit(RLIMIT_AS, &limit) == 0);
  host::Engine engine;
  const int32_t code = plait_engine_create(group, large, 60000, engine.out(), err);
  setrlimit(RLIMIT_AS, &before);
  CHECK(code == PLAIT_RESOURCE_EXHAUSTED);
  CHECK(err.word() == "no_memory");
  CHECK(err.message().find("need=") != std::string::npos);
  CHECK(static_cast<plait_engine*>(engine) == nullptr);
  REQUIRE(plait_engine_create(group, rig.config, 60000, engine.out(), err) == PLAIT_OK);
  rig.good_step();
}
#endif

TEST_CASE("R14, A4: what this build lacks says so before and when it is asked for", "[tensor]") {
  Rig rig;
  Err err;
  const auto lacks = [&](const char* feature, int32_t code) {
    INFO(feature);
    const std::string key = std::string("feature.") + feature;
    REQUIRE(plait_build_info(key.c_str()) != nullptr);
    if (std::string(plait_build_info(key.c_str())) == "yes") return;
    CHECK(code == PLAIT_UNIMPLEMENTED);
    CHECK(err.word() == "not_built");
    CHECK(err.message().find("feature=" + std::string(feature)) != std::string::npos);
  };
  const host::Config cuda = host::small_config(rig.context, R"({"device":"cuda"})");
  const host::Group group = host::make_group(rig.context, cuda);
  host::Engine engine;
  lacks("cuda", plait_engine_create(group, cuda, 60000, engine.out(), err));
  CHECK(static_cast<plait_engine*>(engine) == nullptr);
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  host::Checkpoint source;
  REQUIRE(plait_checkpoint_open(rig.context, folder.path("m").c_str(), source.out(), err) ==
          PLAIT_OK);
  host::Op op;
  lacks("verify", plait_checkpoint_verify(source, 0, op.out(), err));
  lacks("convert",
        plait_checkpoint_convert(source, rig.config, folder.path("r").c_str(), op.out(), err));
  lacks("checkpoint",
        plait_checkpoint_save(rig.engine, folder.path("r").c_str(), 60000, op.out(), err));
  host::Bytes bytes;
  lacks("measure", plait_group_measure(rig.group, "links", 1000, bytes.out(), err));
  rig.good_step();
}

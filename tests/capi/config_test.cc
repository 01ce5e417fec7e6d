#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "tests/capi/host.h"

using host::Err;

namespace {

std::string get(plait_config* config, const char* key) {
  host::Bytes value;
  Err err;
  REQUIRE(plait_config_get(config, key, value.out(), err) == PLAIT_OK);
  return value.text();
}

}  // namespace

TEST_CASE("Keys are set, read, reset and refused", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  Err err;
  CHECK(get(config, "seed") == "1234");
  REQUIRE(plait_config_set(config, "seed", "99", err) == PLAIT_OK);
  CHECK(get(config, "seed") == "99");
  REQUIRE(plait_config_set(config, "seed", nullptr, err) == PLAIT_OK);
  CHECK(get(config, "seed") == "1234");
  CHECK(plait_config_set(config, "seed", "-1", err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.message().find("key=seed") != std::string::npos);
  CHECK(plait_config_set(config, "seed", "\xff", err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_config_set(config, nullptr, "1", err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_config_set(config, "\xc3(", "1", err) == PLAIT_INVALID_ARGUMENT);
  CHECK(get(config, "seed") == "1234");
}

TEST_CASE("A configuration loads all or nothing and dumps what loads again", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context, host::tiny_model());
  Err err;
  CHECK(get(config, "model.hidden") == "16");
  const std::string half = R"({"seed":5,"no.such":1})";
  CHECK(plait_config_load(config, half.data(), static_cast<int64_t>(half.size()), err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(get(config, "seed") == "7");
  CHECK(plait_config_load(config, "{", 1, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_config_load(config, nullptr, 0, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_config_load(config, "{}", -1, err) == PLAIT_INVALID_ARGUMENT);
  REQUIRE(plait_config_set(config, "network.token", "secret", err) == PLAIT_OK);
  host::Bytes set_only, complete;
  REQUIRE(plait_config_dump(config, 0, set_only.out(), err) == PLAIT_OK);
  REQUIRE(plait_config_dump(config, 1, complete.out(), err) == PLAIT_OK);
  CHECK(set_only.text().find("optimizer.beta1") == std::string::npos);
  CHECK(complete.text().find("optimizer.beta1") != std::string::npos);
  CHECK(complete.text().find("secret") == std::string::npos);
  const host::Config again = host::make_config(context, set_only.text());
  host::Bytes second;
  REQUIRE(plait_config_dump(again, 1, second.out(), err) == PLAIT_OK);
  CHECK(second.text() == complete.text());
}

TEST_CASE("Rules between keys name both numbers", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context, host::tiny_model());
  Err err;
  CHECK(plait_config_check(config, err) == PLAIT_OK);
  REQUIRE(plait_config_set(config, "model.heads", "3", err) == PLAIT_OK);
  CHECK(plait_config_check(config, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.message().find("16") != std::string::npos);
  CHECK(err.message().find("3") != std::string::npos);
}

TEST_CASE("The key table can be enumerated", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  const int64_t count = plait_config_key_count(config);
  REQUIRE(count > 80);
  CHECK(plait_config_key_count(nullptr) == 0);
  std::set<std::string> names;
  Err err;
  for (int64_t i = 0; i < count; ++i) {
    auto info = host::sized<plait_key_info>();
    REQUIRE(plait_config_key_at(config, i, &info, err) == PLAIT_OK);
    CHECK(info.valid == PLAIT_VALID_ALL);
    for (const char* text : {info.key, info.type, info.default_value, info.minimum, info.maximum,
                             info.choices, info.unit, info.doc, info.resume}) {
      REQUIRE(text != nullptr);
    }
    CHECK(std::string(info.doc).size() > 3);
    names.insert(info.key);
  }
  CHECK(static_cast<int64_t>(names.size()) == count);
  for (const char* key : {"model.family", "layout.zero", "precision.compute", "train.global_batch",
                          "run.steps", "run.save_every", "run.checkpoint", "seed"}) {
    CHECK(names.count(key) == 1);
  }
  auto info = host::sized<plait_key_info>();
  CHECK(plait_config_key_at(config, count, &info, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_config_key_at(config, -1, &info, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_config_key_at(config, 0, nullptr, err) == PLAIT_OK);
}

TEST_CASE("Model keys come from a Hugging Face directory", "[capi]") {
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  Err err;
  REQUIRE(plait_config_load_hf(config, folder.path("m").c_str(), err) == PLAIT_OK);
  CHECK(get(config, "model.family") == "gpt2");
  CHECK(get(config, "model.layers") == "1");
  CHECK(get(config, "model.hidden") == "4");
  CHECK(get(config, "model.vocab_size") == "8");
  CHECK(get(config, "model.sequence_length") == "6");
  CHECK(plait_config_load_hf(config, folder.path("none").c_str(), err) == PLAIT_NOT_FOUND);
  CHECK(plait_config_load_hf(config, nullptr, err) == PLAIT_INVALID_ARGUMENT);
  folder.write("m/config.json", R"({"model_type":"bert"})");
  CHECK(plait_config_load_hf(config, folder.path("m").c_str(), err) == PLAIT_UNIMPLEMENTED);
  CHECK(err.word() == "unsupported_model");
  CHECK(get(config, "model.hidden") == "4");
}

#include "engine/config/keys.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "engine/config/config.h"
#include "tests/engine/config/config_samples.h"

using namespace plait;

namespace {

const std::string kGolden = PLAIT_TESTS_DIR "/goldens/config_keys.txt";

std::string table_text() {
  std::string text;
  for (const KeyInfo& info : all_keys()) {
    text += std::string(info.name) + ' ' + type_name(info.type) + ' ' + resume_name(info.resume);
    if (info.flags & kKeyMutable) text += " mutable";
    if (info.flags & kKeyLocal) text += " local";
    if (info.flags & kKeyHostOnly) text += " host";
    if (info.default_text[0] != '\0') text += std::string(" = ") + info.default_text;
    text += '\n';
  }
  return text;
}

std::string default_of(std::string_view key) { return key_info(key).default_text; }

}  // namespace

TEST_CASE("the key table equals its golden", "[keys]") {
  if (std::getenv("PLAIT_UPDATE_GOLDENS") != nullptr) std::ofstream(kGolden) << table_text();
  std::ifstream file(kGolden);
  REQUIRE(file.good());
  std::stringstream golden;
  golden << file.rdbuf();
  CHECK(table_text() == golden.str());
}

TEST_CASE("every row is complete and consistent", "[keys]") {
  std::set<std::string> names;
  for (const KeyInfo& info : all_keys()) {
    INFO(info.name);
    CHECK(names.insert(info.name).second);
    CHECK(&key_info(info.name) == &info);
    CHECK(&all_keys()[key_index(info)] == &info);
    const std::string doc = info.doc;
    CHECK(doc.size() > 10);
    CHECK(doc.back() == '.');
    CHECK(doc.find(". ") == std::string::npos);
    if (info.type == KeyType::kWord) CHECK(info.choices[0] != '\0');
    const std::string text = info.default_text;
    if (!text.empty()) CHECK(canonical_value(info, text) == text);
    if (info.has(kTraitRequired) || info.has(kTraitDerived)) CHECK(text.empty());
    for (const char* limit : {info.minimum, info.maximum}) {
      if (limit[0] != '\0') CHECK(std::isfinite(std::stod(limit)));
    }
  }
}

TEST_CASE("rows hold what the design promises", "[keys]") {
  CHECK(default_of("seed") == "1234");
  CHECK(default_of("precision.loss_scale_max") == "16777216");
  CHECK(default_of("optimizer.beta2") == "0.95");
  CHECK(default_of("timeout.first_steps_ms") == "600000");
  CHECK(default_of("export.max_shard_bytes") == "5000000000");
  CHECK(default_of("hardware.failures.per_device_hour") == "2e-05");
  CHECK(key_info("model.hidden").resume == Resume::kSame);
  CHECK(key_info("optimizer.lr").resume == Resume::kAsk);
  CHECK(key_info("layout.tensor").resume == Resume::kFree);
  CHECK(key_info("run.checkpoint").flags == (kKeyHostOnly | kKeyLocal));
  CHECK(key_info("data.train").flags == kKeyLocal);
  CHECK(key_info("generate.max_tokens").flags == (kKeyHostOnly | kKeyMutable));
  for (const KeyInfo& info : all_keys()) {
    if (std::string_view(info.name).starts_with("layout.")) {
      INFO(info.name);
      CHECK(has_choice(info.choices, "auto"));
    }
  }
}

TEST_CASE("mutable keys are those that may change at run time", "[keys]") {
  CHECK(is_mutable("generate.temperature"));
  CHECK(is_mutable("checkpoint.keep_last"));
  CHECK(is_mutable("trace.steps"));
  CHECK_FALSE(is_mutable("optimizer.lr"));
  CHECK_FALSE(is_mutable("threads"));
  CHECK(caught([] { is_mutable("trace.step"); }).fields["nearest"] == "trace.steps");
}

TEST_CASE("an unknown key names the nearest known one", "[keys]") {
  const Caught error = caught([] { key_info("model.hiden"); });
  CHECK(error.word == "argument");
  CHECK(error.fields["key"] == "model.hiden");
  CHECK(error.fields["nearest"] == "model.hidden");
  CHECK(std::string(nearest_key("lr").name) == "optimizer.lr");
  CHECK(std::string(nearest_key("global_batch").name) == "train.global_batch");
  CHECK(std::string(nearest_key("layout.tensors").name) == "layout.tensor");
  CHECK(std::string(nearest_key("sed").name) == "seed");
  CHECK(find_key("") == nullptr);
  CHECK(find_key("model") == nullptr);
  const Caught longest = caught([] { key_info(std::string(1 << 20, 'x')); });
  CHECK(longest.message.size() < 400);
}

TEST_CASE("choices are found by whole words", "[keys]") {
  CHECK(choice_index("cpu,cuda", "cuda") == 1);
  CHECK(choice_index("cpu,cuda", "cpu") == 0);
  CHECK(choice_index("cpu,cuda", "cud") == -1);
  CHECK(choice_index("cpu,cuda", "cpu,cuda") == -1);
  CHECK(choice_index("cpu,cuda", "") == -1);
  CHECK(choice_index("", "") == -1);
}

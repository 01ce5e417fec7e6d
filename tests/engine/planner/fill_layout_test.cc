// What stands in the place of `auto`.
#include "engine/planner/fill_layout.h"

#include <catch2/catch.hpp>
#include <string>

#include "engine/config/checks.h"
#include "engine/planner/layout_keys.h"
#include "engine/planner/search.h"
#include "tests/engine/config/config_samples.h"

using namespace plait;

namespace {

Config free_config() {
  Config config = small_config();
  for (const auto& [key, value] : layout_keys({})) config.set(key, "auto");
  return config;
}

}  // namespace

TEST_CASE("a configuration without auto is filled by itself", "[fill_layout]") {
  const Config config = small_config();
  const FilledLayout filled = fill_layout(config, 7);
  CHECK(filled.config == config);
  CHECK(filled.layout.empty());
}

TEST_CASE("auto becomes what the search finds first, and the rest stays", "[fill_layout]") {
  Config config = free_config();
  config.set("layout.pipeline", "2");
  const FilledLayout filled = fill_layout(config, 6);
  check(filled.config);
  const LayoutConfig layout = make_layout(filled.config);
  CHECK(layout.auto_keys.empty());
  CHECK(layout.pipeline == 2);
  CHECK(layout.tensor * layout.pipeline * layout.data == 6);
  CHECK(filled.layout == layout_text(layout));
  CHECK(filled.tried > 1);
  CHECK_FALSE(filled.config.is_set("hardware.name"));  // what is assumed is no part of a run
  const Job job = make_job(with_assumed_hardware(config), 6);
  const SearchResult result = search(job, make_layout(config));
  CHECK(layout_text(result.candidates.at(0).estimate.layout) == filled.layout);
  CHECK(fill_layout(config, 6).config == filled.config);
}

TEST_CASE("a layout that another rule of the configuration refuses is passed over",
          "[fill_layout]") {
  Config config = free_config();
  config.load_json(R"({"train.batch_ramp": [3, 13, 100], "planner.top": 200})");
  const FilledLayout filled = fill_layout(config, 1);
  CHECK(make_layout(filled.config).micro_batch == 1);  // 3 and 16 have no other divisor
}

TEST_CASE("where nothing can be run, the error says the rule and what would do", "[fill_layout]") {
  Config config = free_config();
  config.set("layout.pipeline", "1");
  config.set("layout.data", "1");
  const Caught error = caught([&] { fill_layout(config, 4); });
  CHECK(error.word == "argument");
  CHECK(error.fields["world"] == 4);
  CHECK(error.fields["rule"] == "heads");
  CHECK(error.fields["reason"].get<std::string>().find("6") != std::string::npos);
  CHECK(error.fields.contains("fix"));
}

// Layouts as keys, and the machine that is assumed where nothing describes one.
#include "engine/planner/layout_keys.h"

#include <catch2/catch.hpp>
#include <string>

#include "engine/planner/job.h"
#include "tests/engine/config/config_samples.h"

using namespace plait;

TEST_CASE("a layout that is written into a configuration is read back", "[layout_keys]") {
  LayoutConfig layout;
  layout.tensor = 2;
  layout.pipeline = 4;
  layout.data = 3;
  layout.interleave = 2;
  layout.micro_batch = 5;
  layout.schedule = ScheduleChoice::kInterleaved;
  layout.zero = 1;
  layout.sequence_parallel = true;
  layout.recompute = RecomputeChoice::kFull;
  layout.recompute_layers = 3;
  layout.stage_layers = {1, 2, 3, 1, 2, 3, 1, 2};
  layout.scatter_gather = false;
  layout.overlap = false;
  Config config = small_config();
  for (const auto& [key, value] : layout_keys(layout)) config.set(key, "auto");
  CHECK(make_layout(config).auto_keys.size() == layout_keys(layout).size());
  set_layout(layout, &config);
  const LayoutConfig read = make_layout(config);
  CHECK(read.auto_keys.empty());
  CHECK(layout_keys(read) == layout_keys(layout));
  CHECK(read.tensor == 2);
  CHECK(read.stage_layers == layout.stage_layers);
  CHECK(read.recompute == RecomputeChoice::kFull);
  CHECK_FALSE(read.overlap);
}

TEST_CASE("every key of a layout is told, in the order of the table", "[layout_keys]") {
  const auto keys = layout_keys({});
  size_t next = 0;
  for (const KeyInfo& info : all_keys()) {
    if (!std::string_view(info.name).starts_with("layout.")) continue;
    REQUIRE(next < keys.size());
    CHECK(keys[next++].first == info.name);
  }
  CHECK(next == keys.size());
}

TEST_CASE("a CPU is assumed where nothing describes the hardware", "[layout_keys]") {
  Config config = small_config();
  const Hardware assumed = make_hardware(with_assumed_hardware(config));
  CHECK(assumed.name == "assumed-cpu");
  CHECK(assumed.kind == "cpu");
  CHECK_FALSE(assumed.calibration);
  for (const auto& [group, source] : assumed.provenance) {
    if (group != "failures") CHECK(source == "assumed");
  }
  CHECK(make_job(with_assumed_hardware(config), 64).world == 64);
  // What runs cost says nothing of what they run on, nor does what has a default anyway.
  config.set("hardware.price_per_device_hour", "2");
  config.set("hardware.failures.per_device_hour", "0.001");
  config.load_json(config.dump_json(true));
  const Hardware priced = make_hardware(with_assumed_hardware(config));
  CHECK(priced.name == "assumed-cpu");
  CHECK(priced.price_per_device_hour == 2.0);
  config.set("hardware.name", "dgx-a100");
  CHECK(with_assumed_hardware(config) == config);
  Config other = small_config();
  other.set("device", "cuda");
  CHECK(with_assumed_hardware(other) == other);
}

// Checkpoints of released minors go on in engines of this one.
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/store/step_reader.h"
#include "engine/trainer/checkpoint_source.h"
#include "tests/checkpoint/golden_steps.h"
#include "tests/engine/trainer/open_engine.h"
#include "tests/engine/trainer/resume_support.h"

namespace plait::test {
namespace {

/// The layout that a step was saved in, as keys.
Config own_layout(const Manifest& manifest) {
  Config layout;
  for (const auto& [key, value] : manifest.config) {
    if (key.starts_with("layout.")) layout.set(key, std::string_view(value));
  }
  return layout;
}

Config other_layout() {
  Config layout;
  layout.set("layout.tensor", "2");
  layout.set("layout.data", "2");
  layout.set("layout.zero", "2");
  return layout;
}

/// All states of the step, as the engine has them.
void require_held(LocalEngine& engine, const StepReader& reader) {
  const std::vector<SavedTensor>& tensors = reader.manifest().tensors;
  for (size_t t = 0; t < tensors.size(); ++t) {
    for (const TensorState& state : tensors[t].states) {
      INFO(tensors[t].name << " " << state_kind_name(state.kind));
      std::vector<float> want(static_cast<size_t>(state.elements)), got(want.size());
      reader.read_whole(static_cast<int64_t>(t), state.kind, want.data());
      engine.read_tensor(tensors[t].name, static_cast<TensorKind>(state.kind), DType::kFloat32, -1,
                         got.data(), static_cast<int64_t>(got.size() * sizeof(float)));
      REQUIRE((got == want));
    }
  }
}

TEST_CASE("golden checkpoints load into engines, in their own layout and in another", "[golden]") {
  for (const std::string name : kGoldenSteps) {
    const auto reader = StepReader::open(posix_env().files, golden_path(name));
    for (const Config& layout : {own_layout(reader->manifest()), other_layout()}) {
      INFO(name << ", tensor " << layout.get("layout.tensor"));
      Config config = saved_config(reader->manifest(), layout);
      config.set("threads", "1");
      config.set("run.steps", "9");
      OpenEngine engine(config);
      const auto report = loaded(*engine, golden_path(name));
      CHECK(report["step"] == 3);
      CHECK(report["skipped"].empty());
      require_held(*engine, *reader);
      engine->close(-1);
    }
  }
}

}  // namespace
}  // namespace plait::test

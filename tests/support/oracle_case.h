// A case of the float64 oracle: configuration, tokens and what a right engine reports.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/config/config.h"
#include "engine/trainer/engine.h"
#include "tests/support/tiny_model.h"

namespace plait::test {

struct OracleCase {
  std::string directory;
  Config config;  ///< everything of config.json and train.json
  nlohmann::json expected;
  int64_t batch = 0, sequence = 0, steps = 0;
  std::vector<int32_t> tokens;

  /// Rows [batch, sequence + 1] of step `step` (from 0), in file order, wrapping at whole samples.
  std::vector<int32_t> rows(int64_t step) const;
};

/// `name` under tests/oracle/cases.
OracleCase load_case(const std::string& name);

/// An engine of this configuration with the case's initial weights.
std::unique_ptr<TestEngine> make_engine(const OracleCase& oracle, const Config& config);

/// One step on rows of the case.
Metrics train_step(Engine& engine, const OracleCase& oracle, int64_t step);

/// A logical tensor as float32.
std::vector<float> read_tensor(Engine& engine, const std::string& name, TensorKind kind);

}  // namespace plait::test

// The same curve whatever the layout: losses, norms and every weight of a run in any layout against
// the run on one rank, to the bit where the numerics contract promises it, and the oracle's curve.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <map>

#include "kernels/base/error.h"
#include "tests/equivalence/matrix.h"
#include "tests/support/oracle_case.h"

using namespace plait;
using namespace plait::test;

namespace {

struct Curve {
  std::vector<double> losses, norms;
  std::vector<float> weights, moments;
  bool operator==(const Curve&) const = default;
};

struct Model {
  const char* name;
  Keys keys;
  ModelSizes sizes;
};

constexpr int64_t kBatch = 24, kSteps = 3;

/// Odd sizes on purpose; the Llama one shares key/value heads when t = 4.
const std::vector<Model>& models() {
  static const std::vector<Model> all = {{"gpt2",
                                          {{"model.layers", "8"},
                                           {"model.hidden", "24"},
                                           {"model.heads", "4"},
                                           {"model.feed_forward", "52"},
                                           {"train.dropout", "0.2"}},
                                          {4, 4, 52, 8, 16, kBatch}},
                                         {"llama",
                                          {{"model.family", "llama"},
                                           {"model.layers", "8"},
                                           {"model.hidden", "24"},
                                           {"model.heads", "4"},
                                           {"model.key_value_heads", "2"},
                                           {"model.feed_forward", "28"}},
                                          {4, 2, 28, 8, 16, kBatch}},
                                         {"llama_tied",
                                          {{"model.family", "llama"},
                                           {"model.layers", "8"},
                                           {"model.hidden", "24"},
                                           {"model.heads", "4"},
                                           {"model.key_value_heads", "1"},
                                           {"model.feed_forward", "28"},
                                           {"model.tied", "true"},
                                           {"train.dropout", "0.1"}},
                                          {4, 1, 28, 8, 16, kBatch}}};
  return all;
}

Config config_of(const Model& model, const Layout& layout) {
  Keys keys = {{"train.global_batch", std::to_string(kBatch)},
               {"optimizer.clip_grad_norm", "0.5"},
               {"optimizer.lr", "3e-3"}};
  const Keys layout_keys = layout.keys();
  keys.insert(keys.end(), model.keys.begin(), model.keys.end());
  keys.insert(keys.end(), layout_keys.begin(), layout_keys.end());
  return tiny_config(keys);
}

/// Rows in which targets are masked unevenly, so that a mean of means is wrong.
struct Rows {
  std::vector<int32_t> tokens, targets;
};

Rows rows_of(int64_t step) {
  Rows rows;
  rows.tokens = random_rows(kBatch, 16, 61, static_cast<uint64_t>(step));
  rows.targets = random_rows(kBatch, 16, 61, static_cast<uint64_t>(step) + 100);
  for (int64_t row = 0; row < kBatch; ++row) {
    for (int64_t i = 0; i < row % 11; ++i) rows.targets[static_cast<size_t>(row * 16 + i)] = -1;
  }
  return rows;
}

Curve train(const Model& model, const Layout& layout) {
  TestEngine engine(config_of(model, layout));
  Curve curve;
  for (int64_t i = 0; i < kSteps; ++i) {
    const Rows rows = rows_of(i);
    const Metrics metrics = step(*engine, target_batch(rows.tokens, rows.targets, kBatch));
    curve.losses.push_back(metrics.loss);
    curve.norms.push_back(metrics.grad_norm);
  }
  curve.weights = read_all(*engine, TensorKind::kParam);
  curve.moments = read_all(*engine, TensorKind::kMoment2);
  return curve;
}

/// Curves of one-rank and of class runs, made once.
const Curve& known(const Model& model, const Layout& layout) {
  static std::map<std::string, Curve> curves;
  const std::string name = std::string(model.name) + layout.text();
  const auto found = curves.find(name);
  if (found != curves.end()) return found->second;
  return curves.emplace(name, train(model, layout)).first->second;
}

/// Empty when the curves agree to rounding.
std::string difference(const Curve& got, const Curve& want) {
  for (size_t i = 0; i < want.losses.size(); ++i) {
    const double loss = std::fabs(got.losses[i] / want.losses[i] - 1);
    const double norm = std::fabs(got.norms[i] / want.norms[i] - 1);
    if (!(loss < 2e-5))
      return "loss of step " + std::to_string(i) + " off by " + std::to_string(loss);
    if (!(norm < 2e-4))
      return "norm of step " + std::to_string(i) + " off by " + std::to_string(norm);
  }
  const double weights = relative_difference(got.weights, want.weights);
  if (!(weights < 1e-4)) return "weights off by " + std::to_string(weights);
  return "";
}

void check_point(const Model& model, const Layout& layout) {
  INFO(model.name << " " << layout.text());
  Layout one;
  one.micro_batch = layout.micro_batch;
  const Curve got = train(model, layout);
  CHECK(difference(got, known(model, one)) == "");
  const Layout bits = bit_class(layout, model.sizes);
  const Curve& same = known(model, bits);
  CHECK(got.losses == same.losses);
  CHECK(got.norms == same.norms);
  CHECK((got.weights == same.weights));
  CHECK((got.moments == same.moments));
}

std::vector<Layout> admitted(const ModelSizes& sizes, int64_t most_ranks) {
  std::vector<Layout> out;
  for (const Layout& layout : all_layouts(most_ranks)) {
    if (is_admitted(layout, sizes)) out.push_back(layout);
  }
  return out;
}

/// The whole product in the soak run, a pairwise selection otherwise.
std::vector<Layout> points(const Model& model) {
  const std::vector<Layout> all = admitted(model.sizes, 16);
  return std::getenv("PLAIT_FULL_MATRIX") != nullptr ? all : pairwise(all);
}

}  // namespace

TEST_CASE("every layout trains the curve of one rank: gpt2", "[matrix]") {
  const Model& model = models()[0];
  for (const Layout& layout : points(model)) check_point(model, layout);
}

TEST_CASE("every layout trains the curve of one rank: llama", "[matrix]") {
  const Model& model = models()[1];
  for (const Layout& layout : points(model)) check_point(model, layout);
}

TEST_CASE("every layout trains the curve of one rank: tied llama, one key/value head", "[matrix]") {
  const Model& model = models()[2];
  for (const Layout& layout : points(model)) check_point(model, layout);
}

TEST_CASE("layouts hold the oracle's curve", "[matrix]") {
  const std::string name = GENERATE("gpt2_tiny", "llama_tiny", "gpt2_clip_schedule");
  struct Row {
    int64_t t, p, d, v, z;
    bool sp;
  };
  const Row row =
      GENERATE(Row{2, 1, 1, 1, 0, false}, Row{2, 1, 1, 1, 0, true}, Row{1, 2, 1, 1, 0, false},
               Row{1, 2, 1, 2, 0, false}, Row{1, 1, 2, 1, 1, false}, Row{1, 1, 4, 1, 3, false},
               Row{2, 2, 2, 1, 1, true}, Row{2, 2, 2, 2, 1, false}, Row{1, 4, 2, 1, 2, false},
               Row{4, 2, 1, 2, 0, true});
  const OracleCase oracle = load_case(name);
  Layout layout;
  layout.tensor = row.t;
  layout.pipeline = row.p;
  layout.data = row.d;
  layout.interleave = row.v;
  layout.zero = row.z;
  layout.is_sequence_parallel = row.sp;
  INFO(name << " " << layout.text());
  Config config = oracle.config;
  for (const auto& [key, value] : layout.keys()) config.set(key, value);
  if (config.get_integer("model.heads") % row.t != 0) {
    // The refusal names both numbers.
    try {
      const TestEngine refused(config);
      FAIL("the layout was taken");
    } catch (const Error& error) {
      CHECK(error.word() == "argument");
      CHECK(error.message().find("model.heads") != std::string::npos);
      CHECK(error.message().find("layout.tensor") != std::string::npos);
    }
    return;
  }
  const std::unique_ptr<TestEngine> engine = make_engine(oracle, config);
  for (int64_t i = 0; i < oracle.steps; ++i) {
    const Metrics metrics = train_step(**engine, oracle, i);
    const nlohmann::json& want = oracle.expected["steps"][static_cast<size_t>(i)];
    INFO("step " << i + 1);
    REQUIRE(metrics.loss == Approx(want["loss"].get<double>()).epsilon(2e-5));
    REQUIRE(metrics.grad_norm == Approx(want["grad_norm"].get<double>()).epsilon(2e-4));
  }
}

// The engine against an independent float64 reference: losses, gradient norms, rates, gradients and
// final weights.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/support/oracle_case.h"
#include "tests/support/sanitized.h"

using namespace plait;
using namespace plait::test;

namespace {

double relative(double got, double want) {
  return std::fabs(got - want) / std::max(std::fabs(want), 1e-12);
}

void check_run(const OracleCase& oracle, const Config& config, double rtol, double grad_rtol) {
  const std::unique_ptr<TestEngine> engine = make_engine(oracle, config);
  const int64_t steps = kIsSanitized ? std::min<int64_t>(oracle.steps, 3) : oracle.steps;
  for (int64_t step = 0; step < steps; ++step) {
    const Metrics metrics = train_step(**engine, oracle, step);
    const nlohmann::json& want = oracle.expected["steps"][static_cast<size_t>(step)];
    INFO("step " << step + 1 << " loss " << metrics.loss << " norm " << metrics.grad_norm);
    REQUIRE(relative(metrics.loss, want["loss"]) < rtol);
    REQUIRE(relative(metrics.grad_norm, want["grad_norm"]) < grad_rtol);
    REQUIRE(relative(metrics.lr, want["lr"]) < 1e-12);
  }
}

}  // namespace

TEST_CASE(
    "trap 18: fp32 training equals the oracle for every micro-batch, schedule and recompute mode",
    "[oracle]") {
  const std::string name = GENERATE("gpt2_tiny", "llama_tiny", "gpt2_clip_schedule");
  const OracleCase oracle = load_case(name);
  struct Row {
    int64_t micro;
    const char *schedule, *recompute, *run;
  };
  const Row row = GENERATE(
      Row{1, "one_forward_one_backward", "none", "1"}, Row{2, "gpipe", "full", "1"},
      Row{4, "zero_bubble", "none", "1"}, Row{8, "one_forward_one_backward", "full", "3"},
      Row{2, "zero_bubble", "full", "2"}, Row{4, "one_forward_one_backward", "selective", "1"});
  Config config = oracle.config;
  config.set("layout.micro_batch", std::to_string(row.micro));
  config.set("layout.schedule", row.schedule);
  config.set("layout.recompute", row.recompute);
  config.set("layout.recompute_layers", row.run);
  INFO(name << " micro " << row.micro << " " << row.schedule << " " << row.recompute);
  check_run(oracle, config, 2e-5, 2e-4);
}

TEST_CASE("bf16 and fp16 training stay near the oracle", "[oracle]") {
  const std::string name = GENERATE("gpt2_tiny", "llama_tiny", "gpt2_clip_schedule");
  const std::string compute = GENERATE("bf16", "fp16");
  const std::string residual = GENERATE("compute", "fp32");
  const OracleCase oracle = load_case(name);
  Config config = oracle.config;
  config.set("precision.compute", compute);
  config.set("precision.residual", residual);
  config.set("precision.loss_scale_start", "1024");
  config.set("layout.micro_batch", "4");
  INFO(name << " " << compute << " " << residual);
  check_run(oracle, config, 1e-2, 5e-2);
}

TEST_CASE("every weight ends where the oracle's does", "[oracle]") {
  const OracleCase oracle = load_case("llama_tiny");
  const std::unique_ptr<TestEngine> engine = make_engine(oracle, oracle.config);
  for (int64_t step = 0; step < oracle.steps; ++step) train_step(**engine, oracle, step);
  const std::pair<const char*, const char*> names[] = {
      {"embedding.token.weight", "model.embed_tokens.weight"},
      {"layers.0.attention.query.weight", "model.layers.0.self_attn.q_proj.weight"},
      {"layers.1.attention.key.weight", "model.layers.1.self_attn.k_proj.weight"},
      {"layers.2.attention.value.weight", "model.layers.2.self_attn.v_proj.weight"},
      {"layers.3.attention.output.weight", "model.layers.3.self_attn.o_proj.weight"},
      {"layers.1.feed_forward.gate.weight", "model.layers.1.mlp.gate_proj.weight"},
      {"layers.1.feed_forward.up.weight", "model.layers.1.mlp.up_proj.weight"},
      {"layers.3.feed_forward.down.weight", "model.layers.3.mlp.down_proj.weight"},
      {"layers.2.attention_norm.weight", "model.layers.2.input_layernorm.weight"},
      {"final_norm.weight", "model.norm.weight"},
      {"head.weight", "lm_head.weight"}};
  for (const auto& [ours, theirs] : names) {
    INFO(ours);
    const std::vector<float> values = read_tensor(**engine, ours, TensorKind::kParam);
    const nlohmann::json& want = oracle.expected["final_weights"][theirs];
    double squares = 0;
    for (float value : values) squares += static_cast<double>(value) * value;
    CHECK(relative(std::sqrt(squares), want["norm"]) < 1e-5);
    for (size_t i = 0; i < 4; ++i)
      CHECK(values[i] == Approx(want["first"][i].get<double>()).margin(2e-6));
  }
}

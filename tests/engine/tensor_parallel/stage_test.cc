// Whole models on tensor groups against one device: losses, gradients of the input and of every
// logical tensor, logits.
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/engine/tensor_parallel/stage_rig.h"

using namespace plait;
using namespace plait::test;

namespace {

void check_layouts(const StageCase& c, double bound, double floor = 1e-2) {
  const StageResult want = run_stages(c, {1});
  REQUIRE(want.problems.empty());
  REQUIRE(std::isfinite(want.loss));
  for (const int64_t t : {2, 4}) {
    for (const bool is_sequence_parallel : {false, true}) {
      const GroupLayout layout{t, is_sequence_parallel};
      if (is_sequence_parallel && c.rows() % t != 0) continue;
      INFO(c.name << ", " << layout.text());
      const StageResult got = run_stages(c, layout);
      CHECK(differences(got, want, bound, floor) == "");
      CHECK(got.padding_gradient == 0);
    }
  }
}

}  // namespace

TEST_CASE("gpt2 on a tensor group is gpt2 on one device", "[stage]") {
  check_layouts(gpt2_case(), 1e-5);
}

TEST_CASE("T7, trap 12: untied gpt2 of odd sizes", "[stage]") {
  StageCase c = gpt2_case();
  ModelConfig& m = c.model.model;
  m.hidden = 29;
  m.head_size = 7;  // a·e is not h
  m.feed_forward = 36;
  m.vocab_size = 129;
  m.tied = false;
  m.sequence_length = 7;
  c.sequence = 7;
  c.batch = 4;
  c.has_documents = false;
  check_layouts(c, 1e-5);
}

TEST_CASE("trap 17: llama, more ranks than key/value heads, shards of padding alone", "[stage]") {
  check_layouts(llama_case(), 1e-5);
}

TEST_CASE("tied llama with one key/value head", "[stage]") {
  StageCase c = llama_case();
  c.model.model.key_value_heads = 1;
  c.model.model.tied = true;
  c.model.model.vocab_size = 513;
  check_layouts(c, 1e-5);
}

TEST_CASE("T7, trap 12: a single row and a single row for each rank", "[stage]") {
  StageCase c = gpt2_case();
  c.batch = c.sequence = 1;
  c.has_documents = false;
  // A row that sees one key has no gradient of queries and keys but rounding.
  check_layouts(c, 1e-5, 0.1);
  c.sequence = 2;
  check_layouts(c, 1e-5, 0.1);
  c.batch = 2;
  check_layouts(c, 1e-5, 0.1);
}

TEST_CASE("16-bit activations are summed in their dtype", "[stage]") {
  StageCase c = gpt2_case();
  c.model.precision.compute = DType::kBFloat16;
  c.model.precision.residual = DType::kFloat32;
  c.model.model.initial_std = 0.08;
  check_layouts(c, 0.05);
}

TEST_CASE("T8, trap 13: targets that lie in the last shard alone", "[stage]") {
  StageCase c = gpt2_case();
  c.first_target = 257;  // of 300; at t = 2 the last shard starts at 256, at 4 it is padding
  check_layouts(c, 1e-5);
}

TEST_CASE("T9, trap 14: what padded rows hold changes nothing", "[stage]") {
  StageCase gpt2 = gpt2_case(), llama = llama_case();
  gpt2.micros = llama.micros = 1;
  for (StageCase* c : {&gpt2, &llama}) {
    for (const GroupLayout& layout : {GroupLayout{1}, {2}, {4, true}}) {
      INFO(c->name << ", " << layout.text());
      c->padding = 0;
      const StageResult want = run_stages(*c, layout);
      c->padding = 1e4f;
      const StageResult got = run_stages(*c, layout);
      CHECK(bit_differences(got, want) == "");
      CHECK(got.padding_gradient == 0);
    }
  }
}

TEST_CASE("trap 21: masks follow samples of the run, not micro-batches", "[stage]") {
  StageCase both = gpt2_case();
  both.micros = 1;
  const GroupLayout layout{2, true};
  const StageResult want = run_stages(both, layout);
  // The same two samples as two micro-batches of one, and from other ordinals.
  StageCase single = both;
  single.batch = 1;
  single.micros = 2;
  const StageResult got = run_stages(single, layout);
  CHECK(relative_difference(got.losses, want.losses) < 1e-5);
  StageCase elsewhere = both;
  elsewhere.first_sample += 1;
  CHECK(relative_difference(run_stages(elsewhere, layout).losses, want.losses) > 1e-2);
}

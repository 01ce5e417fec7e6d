// Bytes that ranks keep against what formulas give by hand; that real engines keep them is
// tests/engine/trainer/formulas_test.cc.
#include "engine/planner/memory.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "engine/planner/rank_share.h"

using namespace plait;

namespace {

/// GPT-2 of `layers` × `hidden`, tied, in bf16, on devices whose kernels take nothing.
Job gpt_job(int64_t layers, int64_t hidden, int64_t heads) {
  Job job;
  job.model.layers = layers;
  job.model.hidden = hidden;
  job.model.heads = job.model.key_value_heads = heads;
  job.model.head_size = hidden / heads;
  job.model.feed_forward = 4 * hidden;
  job.model.vocab_size = 50257;
  job.model.sequence_length = job.train.sequence_length = 1024;
  job.model.tied = true;
  job.train.global_batch = 64;
  job.precision.compute = job.precision.residual = DType::kBFloat16;
  job.profile = find_profile("plait");
  return job;
}

LayoutConfig degrees_of(int64_t tensor, int64_t pipeline, int64_t data) {
  LayoutConfig layout;
  layout.tensor = tensor;
  layout.pipeline = pipeline;
  layout.data = data;
  return layout;
}

LayoutConfig interleaved(int64_t tensor, int64_t pipeline, int64_t chunks) {
  LayoutConfig layout = degrees_of(tensor, pipeline, 1);
  layout.interleave = chunks;
  layout.schedule = ScheduleChoice::kInterleaved;
  return layout;
}

/// The models of 2205.05198: V 51200, s 2048.
Job published_job(int64_t layers, int64_t hidden, int64_t heads, const char* profile) {
  Job job = gpt_job(layers, hidden, heads);
  job.model.vocab_size = 51200;
  job.model.sequence_length = job.train.sequence_length = 2048;
  job.precision.compute = job.precision.residual = DType::kFloat16;
  job.profile = find_profile(profile);
  return job;
}

}  // namespace

TEST_CASE("M3: states of presets are exact byte counts", "[memory]") {
  struct Preset {
    int64_t layers, hidden, heads, vocabulary, sequence;
    int64_t weights, gradients, optimizer;
  };
  // 124M, 7.3B and 175B: 2, 4 and 12 bytes of every parameter, and a second accumulator of the
  // tied table, padded to 50304 or 51200 rows. No size has a remainder that would be padded.
  const Preset preset =
      GENERATE(Preset{12, 768, 12, 50257, 1024, 248951808, 652437504, 1493710848},
               Preset{31, 4352, 34, 50257, 1024, 14541572608, 29958837248, 87249435648},
               Preset{96, 12288, 96, 51200, 2048, 349231693824, 700979970048, 2095390162944});
  Job job = gpt_job(preset.layers, preset.hidden, preset.heads);
  job.model.vocab_size = preset.vocabulary;
  job.model.sequence_length = preset.sequence;
  const RankMemory memory = rank_memory(job, degrees_of(1, 1, 1), 0);
  CHECK(memory.weights == preset.weights);
  CHECK(memory.gradients == preset.gradients);
  CHECK(memory.optimizer == preset.optimizer);
  CHECK(memory.communication == 0);
  CHECK(memory.total() == memory.weights + memory.gradients + memory.optimizer +
                              memory.activations + memory.workspace);
  CHECK(std::string(largest_category(memory)) == "optimizer");
  job.precision.compute = job.precision.residual = DType::kFloat32;
  const RankMemory wide = rank_memory(job, degrees_of(1, 1, 1), 0);
  CHECK(wide.weights == 2 * preset.weights);
  CHECK(wide.gradients == preset.gradients);
  CHECK(wide.optimizer == preset.optimizer / 3 * 2);
}

TEST_CASE("M3: more than 2^31 logits are counted", "[memory]") {
  Job job = gpt_job(1, 64, 1);
  job.model.vocab_size = 715827883;  // a third of 2^31 + 1
  job.model.sequence_length = job.train.sequence_length = 3;
  job.train.global_batch = 1;
  job.precision.compute = job.precision.residual = DType::kFloat32;
  const int64_t padded = 715827968;
  const RankMemory memory = rank_memory(job, degrees_of(1, 1, 1), 0);
  CHECK(memory.weights > 4 * 64 * padded);
  CHECK(memory.weights < 4 * 64 * (padded + 64 * 64));
  // The normed rows, logits of all three, and their maxima and sums, each from a multiple of 64.
  CHECK(memory.workspace == 3 * 64 * 4 + 3 * padded * 4 + 64 + 64);
}

TEST_CASE("ZeRO keeps the share of a slice", "[memory]") {
  const Job job = gpt_job(4, 1024, 16);
  LayoutConfig layout = degrees_of(1, 1, 8);
  const RankMemory whole = rank_memory(job, layout, 0);
  layout.zero = 1;
  const RankMemory one = rank_memory(job, layout, 0);
  CHECK(one.weights == whole.weights);
  CHECK(one.gradients == whole.gradients);
  CHECK(one.optimizer == whole.optimizer / 8);
  CHECK(one.communication == 0);
  layout.zero = 2;
  const RankMemory two = rank_memory(job, layout, 0);
  const int64_t table = 50304 * 1024;  // the largest unit
  CHECK(two.gradients == whole.gradients / 8);
  CHECK(two.communication == 2 * 4 * table);
  layout.zero = 3;
  const RankMemory three = rank_memory(job, layout, 0);
  CHECK(three.weights == whole.weights / 8);
  CHECK(three.gradients == two.gradients);
  CHECK(three.optimizer == one.optimizer);
  CHECK(three.communication == 2 * (4 + 2) * table);
  layout.data = 1;  // nothing to share
  CHECK(rank_memory(job, layout, 0).communication == 0);
}

TEST_CASE("a layer adds the activations of the formula", "[memory]") {
  const int64_t t = GENERATE(1, 4);
  const bool is_cut = GENERATE(false, true);
  const int64_t h = 1024, a = 16, s = 1024, b = 2, rho = is_cut ? t : 1;
  LayoutConfig layout = degrees_of(t, 1, 1);
  layout.micro_batch = b;
  layout.sequence_parallel = is_cut;
  const auto activations = [&](int64_t layers) {
    return rank_memory(gpt_job(layers, h, a), layout, 0).activations;
  };
  // bsh(8/ρ + 24/t) + 4·bas/t, and the statistics of two norms.
  const int64_t layer =
      b * s * h * 8 / rho + b * s * h * 24 / t + 4 * b * a * s / t + 16 * b * s / rho;
  CHECK(activations(7) - activations(6) == layer);
  layout.recompute = RecomputeChoice::kFull;
  CHECK(activations(7) - activations(6) == 2 * b * s * h / rho);
  layout.recompute_layers = 4;  // of the runs 4, 4 and 4, 4, 1: an input more
  CHECK(activations(9) - activations(8) == 2 * b * s * h / rho);
  CHECK(activations(12) == activations(9));
  layout.recompute = RecomputeChoice::kSelective;  // attention is fused: nothing to run again
  CHECK(activations(7) - activations(6) == layer);
}

TEST_CASE("M5: stages keep the micro-batches of their place", "[memory]") {
  Job job = gpt_job(48, 1024, 16);
  const auto alive = [&job](const LayoutConfig& layout, int64_t pipeline, int64_t chunk = 0) {
    return RankShare(job, layout, pipeline).stage(chunk).alive;
  };
  const LayoutConfig plain = degrees_of(1, 8, 1);
  for (const int64_t m : {1, 3, 8, 64}) {
    job.train.global_batch = m;
    for (int64_t i = 0; i < 8; ++i) CHECK(alive(plain, i) == std::min<int64_t>(m, 8 - i));
  }
  // Each chunk has places of its own, so there are 39 where 31 are taken at once.
  const LayoutConfig chunks = interleaved(1, 8, 3);
  int64_t sum = 0;
  for (int64_t chunk = 0; chunk < 3; ++chunk) sum += alive(chunks, 0, chunk);
  CHECK(sum == 39);
  const LayoutConfig uneven = [&] {
    LayoutConfig layout = degrees_of(1, 4, 1);
    layout.stage_layers = {0, 20, 20, 8};
    return layout;
  }();
  const RankMemory embeddings = rank_memory(job, uneven, 0), layers = rank_memory(job, uneven, 1);
  CHECK(embeddings.optimizer == 12 * (50304 + 1024) * 1024);
  CHECK(layers.optimizer == int64_t{12} * 20 * (12 * 1024 + 13) * 1024);
  // No layer: outputs of four micro-batches, and one gradient.
  CHECK(embeddings.activations == (4 + 1) * 2 * 1024 * 1024);
}

TEST_CASE("kernels of a CPU keep weights twice", "[memory]") {
  Job job = gpt_job(2, 1000, 10);
  const int64_t plain = rank_memory(job, degrees_of(1, 1, 1), 0).weights;
  job.hardware.kind = "cpu";
  job.hardware.isa = "avx2";
  // Outputs in panels of 16: 3000, 1000, 4000 and 50304 rows.
  const int64_t packed =
      2 * (2 * (3008 * 1000 + 1008 * 1000 + 4000 * 1000 + 1008 * 4000) + 50304 * 1000);
  CHECK(rank_memory(job, degrees_of(1, 1, 1), 0).weights == plain + packed);
  job.hardware.units = 4;
  const int64_t four = rank_memory(job, degrees_of(1, 1, 1), 0).workspace;
  job.hardware.units = 8;
  CHECK(rank_memory(job, degrees_of(1, 1, 1), 0).workspace > four);
}

TEST_CASE("activations of published software are those of 2205.05198", "[memory]") {
  const int64_t t = 8, l = 48, h = 6144, a = 64, s = 2048, b = 4;
  Job job = published_job(l, h, a, "megatron-2022");
  job.train.global_batch = b;
  LayoutConfig layout = degrees_of(t, 1, 1);
  layout.micro_batch = b;
  const auto activations = [&] { return rank_memory(job, layout, 0).activations; };
  CHECK(activations() == l * (s * b * h * (10 + 24 / t) + 5 * a * s * s * b / t));
  layout.recompute = RecomputeChoice::kSelective;
  CHECK(activations() == l * s * b * h * (10 + 24 / t));
  layout.sequence_parallel = true;
  CHECK(activations() == l * s * b * h * 34 / t);
  layout.recompute = RecomputeChoice::kNone;
  CHECK(activations() == l * (s * b * h * 34 + 5 * a * s * s * b) / t);
  layout.recompute = RecomputeChoice::kFull;
  layout.sequence_parallel = false;
  CHECK(activations() == l * 2 * s * b * h);
}

TEST_CASE("published software interleaved keeps l(1 + (p - 1)/pv) layers on its first rank",
          "[memory]") {
  Job job = published_job(96, 12288, 96, "megatron-2022");
  const LayoutConfig layout = interleaved(8, 8, 3);
  const int64_t layer = int64_t{2048} * 12288 * 13 + int64_t{5} * 96 * 2048 * 2048 / 8;
  CHECK(rank_memory(job, layout, 0).activations == (96 + 96 * 7 / 24) * layer);
}

TEST_CASE("published runs fit where they ran", "[memory]") {
  const auto limit = static_cast<double>(int64_t{80} << 30) - 4.5 * 1024 * 1024 * 1024;
  // ZeRO 3 over 640 devices, 4 samples each: replayed layers decide.
  Job zero = published_job(105, 20480, 128, "deepspeed-2021");
  zero.train.global_batch = 2560;
  LayoutConfig sharded = degrees_of(1, 1, 640);
  sharded.micro_batch = 4;
  sharded.zero = 3;
  sharded.recompute = RecomputeChoice::kFull;
  const RankMemory first = rank_memory(zero, sharded, 0);
  CHECK(static_cast<double>(first.total()) < limit);
  CHECK(std::string(largest_category(first)) == "activations");
  // States: 2 + 2 + 4 + 12 bytes of 530e9 parameters.
  const auto states = static_cast<double>(first.weights + first.gradients + first.optimizer);
  CHECK(states == Approx(20 * 529.6e9 / 640).epsilon(0.01));
  sharded.recompute = RecomputeChoice::kNone;
  CHECK(static_cast<double>(rank_memory(zero, sharded, 0).total()) > 5 * limit);
  // A trillion parameters on 3072 devices.
  Job trillion = published_job(128, 25600, 160, "megatron-2021");
  trillion.train.global_batch = 3072;
  LayoutConfig layout = degrees_of(8, 64, 6);
  layout.recompute = RecomputeChoice::kFull;
  for (const int64_t pipeline : {0, 1, 63}) {
    CHECK(static_cast<double>(rank_memory(trillion, layout, pipeline).total()) < limit);
  }
  const RankMemory start = rank_memory(trillion, layout, 0),
                   end = rank_memory(trillion, layout, 63);
  CHECK(start.activations == 64 * end.activations);
}

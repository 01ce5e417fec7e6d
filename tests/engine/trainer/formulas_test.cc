// What real engines send in a step, by axis and kind, and what their ranks keep, by category, equal
// what the planner says from configuration and layout alone, to the byte.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/planner/kernel_sizes.h"
#include "engine/planner/memory.h"
#include "engine/planner/traffic.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/linear.h"
#include "kernels/ops/linear.h"
#include "tests/engine/trainer/open_engine.h"
#include "tests/equivalence/matrix.h"

namespace plait::test {
namespace {

struct PlanCase {
  Keys model;  ///< on top of gpt2_keys
  Layout layout;
  const char* stage_layers = "";  ///< empty: evenly
};

const Keys kGpt2 = {{"model.layers", "4"},         {"model.hidden", "96"},
                    {"model.heads", "4"},          {"model.feed_forward", "384"},
                    {"model.vocab_size", "301"},   {"model.sequence_length", "32"},
                    {"train.global_batch", "16"},  {"model.tied", "true"},
                    {"precision.compute", "fp32"}, {"train.replica_check_every", "0"}};

Keys operator+(Keys left, const Keys& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

/// t, p, d, v, ZeRO, micro-batch.
Layout layout_of(int64_t t, int64_t p, int64_t d, int64_t v = 1, int64_t zero = 0,
                 int64_t micro_batch = 2) {
  Layout layout;
  layout.tensor = t;
  layout.pipeline = p;
  layout.data = d;
  layout.interleave = v;
  layout.zero = zero;
  layout.micro_batch = micro_batch;
  return layout;
}

Layout cut(Layout layout) {
  layout.is_sequence_parallel = true;
  return layout;
}

Layout with_schedule(Layout layout, const char* schedule) {
  layout.schedule = schedule;
  return layout;
}

Layout replaying(Layout layout, int64_t layers) {
  layout.recompute = "full";
  layout.recompute_layers = layers;
  return layout;
}

Layout plain(Layout layout) {
  layout.is_scattering = layout.is_overlapping = false;
  return layout;
}

std::vector<PlanCase> plan_cases() {
  const Keys gpt = {}, untied = {{"model.tied", "false"}};
  const Keys tied_llama = {
      {"model.family", "llama"}, {"model.key_value_heads", "2"}, {"model.feed_forward", "256"}};
  const Keys llama = tied_llama + untied;
  const Keys bf16 = {{"precision.compute", "bf16"}}, fp16 = {{"precision.compute", "fp16"}};
  const Keys mixed = bf16 + Keys{{"precision.residual", "fp32"}};
  const Keys checked = {{"train.replica_check_every", "1000"}};
  const Keys canonical = {{"precision.reduction", "canonical"},
                          {"precision.canonical_tensor", "4"},
                          {"precision.canonical_data", "4"}};
  // Of these a micro-batch has 1024 elements, which three ranks cannot share evenly.
  const Keys thirds = {{"model.hidden", "32"},        {"model.heads", "3"},
                       {"model.head_size", "8"},      {"model.feed_forward", "96"},
                       {"train.global_batch", "4"},   {"model.sequence_length", "16"},
                       {"model.key_value_heads", "3"}};
  const Keys many_rows = {{"train.global_batch", "130"},  // more than logits are made of at once
                          {"model.layers", "1"},
                          {"model.hidden", "32"},
                          {"model.feed_forward", "64"}};
  Layout selective = layout_of(2, 1, 2);
  selective.recompute = "selective";
  return {{gpt, layout_of(1, 1, 1)},
          {gpt, layout_of(2, 1, 1)},
          {untied, cut(layout_of(2, 1, 1))},
          {gpt, replaying(cut(layout_of(4, 1, 1)), 1)},
          {gpt, layout_of(1, 2, 1)},
          {untied, layout_of(1, 2, 1, 2)},
          {untied, with_schedule(layout_of(1, 4, 1), "gpipe")},
          {gpt, layout_of(1, 1, 4)},
          {gpt, layout_of(1, 1, 2, 1, 1)},
          {tied_llama, layout_of(1, 1, 4, 1, 2)},
          {gpt, layout_of(1, 1, 2, 1, 3)},
          {gpt, layout_of(2, 2, 2, 1, 1)},
          {untied, cut(layout_of(2, 2, 2, 1, 3))},
          {gpt, with_schedule(layout_of(2, 2, 1), "zero_bubble")},
          {gpt, with_schedule(cut(layout_of(2, 2, 1, 1, 1)), "zero_bubble")},
          {llama, layout_of(4, 1, 2, 1, 2)},
          {bf16, layout_of(2, 2, 2, 1, 2)},
          {mixed, cut(layout_of(2, 2, 1, 2))},
          {tied_llama, replaying(layout_of(1, 1, 2, 1, 3), 3)},
          {gpt, plain(replaying(layout_of(2, 2, 1), 2))},
          {checked, layout_of(2, 2, 1)},
          {checked + bf16, cut(layout_of(2, 1, 2, 1, 1))},
          {checked + fp16, layout_of(1, 1, 4, 1, 2)},
          {canonical, layout_of(1, 1, 2)},
          {llama + canonical + Keys{{"model.key_value_heads", "4"}}, layout_of(2, 1, 1)},
          {canonical + bf16, layout_of(2, 2, 2, 1, 1)},
          {thirds, layout_of(3, 2, 1)},
          {tied_llama, layout_of(1, 4, 1), "[0,1,3,0]"},
          {untied, replaying(layout_of(1, 2, 1, 2), 2), "[2,0,1,1]"},
          {many_rows, layout_of(2, 1, 1, 1, 0, 130)},
          {fp16, selective}};
}

/// What a plan for the machine of `rank` knows.
Job job_of(const Config& config, Rank& rank) {
  const Settings settings = make_settings(config);
  Job job;
  job.model = settings.model;
  job.precision = settings.precision;
  job.train = settings.train;
  job.profile = find_profile("plait");
  job.hardware.kind = "cpu";
  job.hardware.isa = isa_name(rank.device().isa());
  job.hardware.units = rank.device().pool().threads();
  return job;
}

using Sent = std::vector<int64_t>;  // by axis, then kind

Sent sent_by(const Rank& rank) {
  Sent bytes;
  for (const Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
    for (const CollectiveKind kind :
         {CollectiveKind::kAllReduce, CollectiveKind::kReduceScatter, CollectiveKind::kAllGather,
          CollectiveKind::kBroadcast, CollectiveKind::kSendReceive}) {
      bytes.push_back(rank.group(axis).traffic(kind).bytes);
    }
  }
  return bytes;
}

Sent sent_by(const RankTraffic& planned) {
  Sent bytes;
  for (const AxisTraffic& axis : {planned.tensor, planned.pipeline, planned.data}) {
    const Sent of_axis = {axis.all_reduce, axis.reduce_scatter, axis.all_gather, axis.broadcast,
                          axis.send_receive};
    bytes.insert(bytes.end(), of_axis.begin(), of_axis.end());
  }
  return bytes;
}

/// Products by a library, whose scratch memory nobody foretells.
bool has_library_products(const Job& job) {
  return job.hardware.isa == "amx" && job.precision.compute == DType::kBFloat16;
}

/// `planned` is that of the rank's stage. Workspace is compared for the stage as a whole.
void check_memory(const Job& job, const RankMemory& planned, const Rank& rank) {
  const MemoryLedger& ledger = rank.ledger();
  CHECK(ledger.bytes(MemoryCategory::kGradients) == planned.gradients);
  CHECK(ledger.bytes(MemoryCategory::kOptimizer) == planned.optimizer);
  CHECK(ledger.bytes(MemoryCategory::kActivations) == planned.activations);
  CHECK(ledger.bytes(MemoryCategory::kCommunication) == planned.communication);
  if (!has_library_products(job)) {
    CHECK(ledger.bytes(MemoryCategory::kWeights) == planned.weights);
  }
  CHECK(ledger.peak() <= planned.total());
  CHECK(static_cast<double>(ledger.peak()) >= 0.85 * static_cast<double>(planned.total()));
}

/// Of the stage's rank that takes most.
int64_t largest_workspace(OpenEngine& engine, int64_t pipeline) {
  int64_t most = 0;
  for (int64_t local = 0; local < engine.size(); ++local) {
    const Rank& rank = engine.rank(local);
    if (rank.at().pipeline != pipeline) continue;
    most = std::max(most, rank.ledger().bytes(MemoryCategory::kWorkspace));
  }
  return most;
}

void check_plan(OpenEngine& engine, const Config& config, const std::string& text) {
  const LayoutConfig layout = make_layout(config);
  for (int64_t local = 0; local < engine.size(); ++local) {
    Rank& rank = engine.rank(local);
    INFO(text << " rank " << local);
    const Job job = job_of(config, rank);
    const RankMemory planned = rank_memory(job, layout, rank.at().pipeline);
    check_memory(job, planned, rank);
    if (has_library_products(job)) continue;
    CHECK(largest_workspace(engine, rank.at().pipeline) == planned.workspace);
  }
}

}  // namespace

TEST_CASE("bytes sent and bytes kept are what the planner says", "[formulas]") {
  const std::vector<PlanCase> cases = plan_cases();
  REQUIRE(cases.size() == 31);
  const PlanCase one = cases[GENERATE(range(size_t{0}, size_t{31}))];
  Keys keys = kGpt2 + one.model + one.layout.keys();
  if (*one.stage_layers != '\0') keys.emplace_back("layout.stage_layers", one.stage_layers);
  const Config config = tiny_config(keys);
  const LayoutConfig layout = make_layout(config);
  OpenEngine engine(config);
  std::vector<Sent> before;
  for (int64_t local = 0; local < engine.size(); ++local) {
    before.push_back(sent_by(engine.rank(local)));
  }
  const int64_t batch = config.get_integer("train.global_batch");
  const std::vector<int32_t> rows =
      random_rows(batch, config.get_integer("model.sequence_length") + 1,
                  config.get_integer("model.vocab_size"), 1);
  step(*engine, token_batch(rows, batch));
  const std::string text = config.get("model.family") + " " + one.layout.text();
  check_plan(engine, config, text);
  for (int64_t local = 0; local < engine.size(); ++local) {
    Rank& rank = engine.rank(local);
    INFO(text << " rank " << local);
    const Job job = job_of(config, rank);
    Sent sent = sent_by(rank);
    for (size_t i = 0; i < sent.size(); ++i) sent[i] -= before[static_cast<size_t>(local)][i];
    CHECK(sent == sent_by(rank_traffic(job, layout, local)));
  }
}

TEST_CASE("M2: batches of 1 to 64 short rows take what the planner says", "[formulas]") {
  const std::string batch = GENERATE("1", "2", "3", "7", "16", "33", "64");
  const Config config = tiny_config({{"model.sequence_length", "8"},
                                     {"train.global_batch", batch},
                                     {"layout.micro_batch", batch}});
  OpenEngine engine(config);
  check_plan(engine, config, "batch " + batch);
}

TEST_CASE("the planner knows the second forms and the scratch memory of kernels", "[formulas]") {
  const IsaLevel isa = GENERATE(IsaLevel::kSsse3, IsaLevel::kSse4, IsaLevel::kAvx2);
  if (isa > detected_isa().level) return;
  Hardware hardware;
  hardware.kind = "cpu";
  hardware.isa = isa_name(isa);
  hardware.units = 3;
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16}) {
    const KernelSizes sizes(hardware, dtype);
    for (const int64_t outputs : {1, 24, 100, 768, 3072}) {
      for (const int64_t inputs : {8, 96, 500, 768, 3072}) {
        for (const int64_t rows : {1, 7, 64, 255, 257, 1025, 5000}) {
          const auto plan = fma_linear_kernel().plan({outputs, inputs, dtype, rows}, isa);
          INFO(isa_name(isa) << " " << outputs << " " << inputs << " " << rows);
          CHECK(sizes.packed_bytes({outputs, inputs}) == plan->packed_bytes());
          CHECK(sizes.linear_bytes({outputs, inputs}, rows) == plan->workspace_bytes(rows, 3));
        }
      }
    }
    for (const int64_t sequence : {1, 33, 200, 1024}) {
      for (const int64_t head_size : {3, 24, 64, 100}) {
        const AttentionShape shape{2, sequence, 4, 2, head_size, 0};
        CHECK(sizes.attention_bytes(sequence, head_size) ==
              attention_kernels()[0]->workspace_bytes(shape, dtype, 3));
      }
    }
  }
}

}  // namespace plait::test

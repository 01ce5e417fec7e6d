// What real engines send in a step, by axis and kind, and what their ranks keep, by category, equal
// the formulas to the byte; all that a rank keeps is within a tenth of the memory formula, which
// knows no scratch memory but the largest buffers.
#include "tests/engine/trainer/formulas.h"

#include <catch2/catch.hpp>
#include <cstdlib>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/linear.h"
#include "tests/engine/trainer/open_engine.h"

namespace plait::test {
namespace {

struct FormulaCase {
  FormulaModel model;
  Layout layout;
};

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

std::vector<FormulaCase> formula_cases() {
  FormulaModel gpt, untied, llama, bf16;
  untied.is_tied = false;
  llama.is_llama = true;
  llama.is_tied = false;
  llama.key_value_heads = 2;
  llama.feed_forward = 256;
  FormulaModel tied_llama = llama;
  tied_llama.is_tied = true;
  bf16.compute_bytes = 2;
  bf16.residual_bytes = 2;
  FormulaModel mixed = bf16;  // the residual stream stays in fp32
  mixed.residual_bytes = 4;
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
          {gpt, plain(replaying(layout_of(2, 2, 1), 2))}};
}

using Sent = std::vector<int64_t>;  // by axis, then kind

Sent sent_by(const Rank& rank) {
  Sent bytes;
  for (const Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      bytes.push_back(rank.group(axis).traffic(static_cast<CollectiveKind>(kind)).bytes);
    }
  }
  return bytes;
}

Sent sent_by(const RankFormulas& formulas) {
  Sent bytes;
  for (const Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      bytes.push_back(formulas.sent(axis, static_cast<CollectiveKind>(kind)));
    }
  }
  return bytes;
}

/// The second form in which this machine's products keep their weights, by its own account.
int64_t packed_bytes(const FormulaCase& one, const RankFormulas& formulas) {
  const std::unique_ptr<Device> device = make_device(DeviceOptions());
  const Kernels kernels = cpu_kernels();
  Workspace workspace;
  OpContext context{*device, kernels, workspace};
  const DType dtype = one.model.compute_bytes == 4 ? DType::kFloat32 : DType::kBFloat16;
  int64_t bytes = 0;
  for (const RankFormulas::Linear& linear : formulas.linears()) {
    const int64_t rows = one.layout.micro_batch * one.model.sequence;
    bytes +=
        make_linear_plan(context, {linear.outputs, linear.inputs, dtype, rows})->packed_bytes();
  }
  return bytes;
}

void check_memory(const FormulaCase& one, const RankFormulas& formulas, const Rank& rank) {
  const MemoryLedger& ledger = rank.ledger();
  const int64_t weights = formulas.weight_bytes() + packed_bytes(one, formulas);
  CHECK(ledger.bytes(MemoryCategory::kWeights) == weights);
  CHECK(ledger.bytes(MemoryCategory::kGradients) == formulas.gradient_bytes());
  CHECK(ledger.bytes(MemoryCategory::kOptimizer) == formulas.optimizer_bytes());
  CHECK(ledger.bytes(MemoryCategory::kActivations) == formulas.activation_bytes());
  CHECK(ledger.bytes(MemoryCategory::kCommunication) == formulas.communication_bytes());
  const int64_t total = weights + formulas.gradient_bytes() + formulas.optimizer_bytes() +
                        formulas.activation_bytes() + formulas.communication_bytes() +
                        formulas.scratch_bytes();
  INFO("peak " << ledger.peak() << " formula " << total << " workspace "
               << ledger.bytes(MemoryCategory::kWorkspace));
  CHECK(std::abs(static_cast<double>(ledger.peak() - total)) <= 0.1 * static_cast<double>(total));
}

}  // namespace

TEST_CASE("bytes sent and bytes kept equal the formulas", "[formulas]") {
  const std::vector<FormulaCase> cases = formula_cases();
  REQUIRE(cases.size() == 20);
  const FormulaCase one = cases[GENERATE(range(size_t{0}, size_t{20}))];
  Keys keys = one.model.keys();
  const Keys layout = one.layout.keys();
  keys.insert(keys.end(), layout.begin(), layout.end());
  OpenEngine engine(tiny_config(keys));
  const std::vector<int32_t> rows =
      random_rows(one.model.batch, one.model.sequence + 1, one.model.vocabulary, 1);
  step(*engine, token_batch(rows, one.model.batch));
  std::vector<Sent> before;
  for (int64_t local = 0; local < engine.size(); ++local) {
    before.push_back(sent_by(engine.rank(local)));
  }
  step(*engine, token_batch(rows, one.model.batch));
  for (int64_t local = 0; local < engine.size(); ++local) {
    const Rank& rank = engine.rank(local);
    INFO((one.model.is_llama ? "llama " : "gpt2 ") << one.layout.text() << " rank " << local);
    const RankFormulas formulas(one.model, one.layout, local);
    CHECK(static_cast<int64_t>(rank.tensors().size()) == one.model.tensors());
    Sent sent = sent_by(rank);
    for (size_t i = 0; i < sent.size(); ++i) sent[i] -= before[static_cast<size_t>(local)][i];
    CHECK(sent == sent_by(formulas));
    check_memory(one, formulas, rank);
  }
}

}  // namespace plait::test

// The loss head over a cut vocabulary: statistics joined between shards, several chunks of rows,
// logits far apart.
#include <catch2/catch.hpp>
#include <cmath>

#include "engine/layers/loss_head.h"
#include "engine/tensor_parallel/vocabulary_shards.h"
#include "tests/engine/tensor_parallel/parallel_rig.h"

using namespace plait;
using namespace plait::test;

namespace {

constexpr int64_t kHidden = 3, kVocabulary = 203, kPadded = 256;

struct HeadResult {
  LossSum sum;
  std::vector<float> losses, grad_x;
  std::vector<float> grad_weight;  ///< [kPadded, kHidden], by rank one below the other
};

struct HeadProblem {
  int64_t rows;
  double scale;  ///< of the hidden rows: how far apart logits are
  std::vector<float> x = random_values(rows * kHidden, 1, scale);
  std::vector<float> weight = random_values(kPadded * kHidden, 2);
  std::vector<int32_t> targets = random_ids(rows, 0, kVocabulary, 3);
};

HeadResult run_head(const HeadProblem& p, const TensorGroup& group, Device& device) {
  const int64_t width = kPadded / group.size, rows = group.local_rows(p.rows);
  Unit unit("head");
  Parameter* weight = unit.add({width, kHidden}, {});
  unit.seal(DType::kFloat32, 1);
  const UnitMemory memory(unit, device);
  std::copy_n(p.weight.begin() + group.index * width * kHidden, width * kHidden,
              weight->weight.as<float>());
  std::unique_ptr<LogitShards> shards = std::make_unique<LogitShards>();
  if (group.size > 1) shards = std::make_unique<VocabularyShards>(group);
  const int64_t lane_width = width / group.lanes;
  std::vector<std::unique_ptr<LinearLayer>> lanes;
  for (int64_t lane = 0; lane < group.lanes; ++lane) {
    lanes.push_back(
        std::make_unique<Linear>(weight, Linear::Rows{lane * lane_width, lane_width}, false));
  }
  LossHead head(std::move(lanes), std::move(shards),
                {kVocabulary, group.index * width, lane_width, DType::kFloat32});
  HeadResult result;
  std::vector<float> x(p.x.begin() + group.first_row(p.rows) * kHidden,
                       p.x.begin() + (group.first_row(p.rows) + rows) * kHidden);
  result.grad_x.resize(x.size());
  result.losses.resize(static_cast<size_t>(p.rows));
  run_measured(device, [&](OpContext& context) {
    if (context.is_measuring()) head.prepare(context, p.rows);
    head.weights_changed(context);
    Pass pass{context, 1, p.rows};
    pass.row_parts = group.is_sequence_parallel ? group.size : 1;
    pass.first_row = group.first_row(p.rows);
    LossHead::Arguments arguments;
    arguments.x = {x.data(), DType::kFloat32, {rows, kHidden}};
    arguments.targets = p.targets.data();
    arguments.grad_x = {result.grad_x.data(), DType::kFloat32, {rows, kHidden}};
    arguments.losses = result.losses.data();
    result.sum = head.run(pass, arguments);
  });
  const float* grad = weight->gradient.as<float>();
  result.grad_weight.assign(grad, grad + width * kHidden);
  return result;
}

HeadResult run_head(const HeadProblem& p, const GroupLayout& layout) {
  std::vector<HeadResult> ranks(static_cast<size_t>(layout.size));
  run_group(layout, [&](const TensorGroup& group, Device& device) {
    ranks[static_cast<size_t>(group.index)] = run_head(p, group, device);
  });
  HeadResult out = ranks[0];
  for (size_t i = 1; i < ranks.size(); ++i) {
    const HeadResult& rank = ranks[i];
    CHECK(same_bits(rank.losses, out.losses));
    CHECK(rank.sum.loss == out.sum.loss);
    out.grad_weight.insert(out.grad_weight.end(), rank.grad_weight.begin(), rank.grad_weight.end());
    if (layout.is_sequence_parallel) {
      out.grad_x.insert(out.grad_x.end(), rank.grad_x.begin(), rank.grad_x.end());
    } else {
      CHECK(same_bits(rank.grad_x, out.grad_x));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("T8, trap 13: a cut vocabulary gives the loss of the whole one", "[loss_head]") {
  // 4100 rows are two chunks; hidden rows of size 60 put logits hundreds apart.
  for (const auto& [rows, scale] :
       {std::pair<int64_t, double>{4100, 1.0}, {24, 60.0}, {24, 1e-3}}) {
    const HeadProblem problem{rows, scale};
    const HeadResult want = run_head(problem, GroupLayout{1});
    for (const GroupLayout& layout :
         {GroupLayout{2}, {2, true}, {4}, {4, true}, {2, true, false}}) {
      INFO(rows << " rows, scale " << scale << ", " << layout.text());
      const HeadResult got = run_head(problem, layout);
      CHECK(got.sum.targets == want.sum.targets);
      CHECK(std::fabs(got.sum.loss - want.sum.loss) <= 1e-6 * std::fabs(want.sum.loss));
      CHECK(relative_difference(got.losses, want.losses) < 1e-6);
      CHECK(relative_difference(got.grad_x, want.grad_x) < 5e-6);
      CHECK(relative_difference(got.grad_weight, want.grad_weight) < 5e-6);
    }
  }
}

TEST_CASE("lanes of a rank give the bits of as many ranks", "[loss_head]") {
  for (const auto& [rows, scale] : {std::pair<int64_t, double>{4100, 1.0}, {24, 60.0}}) {
    const HeadProblem problem{rows, scale};
    const HeadResult want = run_head(problem, GroupLayout{2});
    const HeadResult got = run_head(problem, GroupLayout{1, false, true, 2});
    CHECK(got.sum.loss == want.sum.loss);
    CHECK(same_bits(got.losses, want.losses));
    CHECK(same_bits(got.grad_x, want.grad_x));
    CHECK(same_bits(got.grad_weight, want.grad_weight));
  }
}

TEST_CASE("T9, trap 14: equal logits lose the logarithm of the vocabulary", "[loss_head]") {
  HeadProblem problem{8, 0.0};
  std::fill(problem.targets.begin(), problem.targets.end(), kVocabulary - 1);
  for (const GroupLayout& layout :
       {GroupLayout{1}, {2}, {4, true}, {1, false, true, 4}, {2, false, true, 2}}) {
    const HeadResult got = run_head(problem, layout);
    for (const float loss : got.losses) {
      CHECK(double{loss} == Approx(std::log(double{kVocabulary})).epsilon(1e-6));
    }
  }
}

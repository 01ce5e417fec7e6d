// Seeded faults: each makes points of the equivalence matrix fail that pass without it. Points are
// of the selection that the matrix runs, and all of a run has the fault, what it is compared with
// too. Prints a table row for each fault.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdio>
#include <map>

#include "kernels/base/error.h"
#include "kernels/base/mutation.h"
#include "tests/equivalence/curves.h"

using namespace plait;
using namespace plait::test;

namespace plait {
Mutation active_mutation = Mutation::kNone;
}

namespace {

constexpr size_t kGpt2 = 0, kLlama = 1, kLlamaTied = 2;
constexpr size_t kMostTries = 3;  // points that may miss a fault before it counts as missed

struct Fault {
  Mutation mutation;
  const char* text;
  size_t model;
  bool (*concerns)(const Layout&);  ///< layouts that the fault should break
};

bool is_tensor(const Layout& l) { return l.tensor > 1; }
bool is_whole_stream(const Layout& l) { return l.tensor > 1 && !l.is_sequence_parallel; }
bool is_cut_stream(const Layout& l) { return l.is_sequence_parallel; }
bool is_pipeline(const Layout& l) { return l.pipeline > 1; }
bool is_data(const Layout& l) { return l.data > 1; }
bool is_whole_gradient(const Layout& l) { return l.data > 1 && l.zero < 2; }

/// In the order of the enumerators.
const std::vector<Fault>& faults() {
  static const std::vector<Fault> all = {
      {Mutation::kRowSumSkipped, "row linear: outputs not summed", kGpt2, is_whole_stream},
      {Mutation::kColumnSumSkipped, "column linear: input gradients not summed", kLlama,
       [](const Layout& l) { return is_whole_stream(l) && l.schedule != "zero_bubble"; }},
      {Mutation::kForeignTargetSkipped, "target logits of other shards not summed", kGpt2,
       is_tensor},
      {Mutation::kPartialTermsSkipped, "sequence parallel: partial gradients not summed", kGpt2,
       is_cut_stream},
      {Mutation::kSharedHeadTermsSkipped, "shared key/value heads not summed", kLlama,
       [](const Layout& l) { return l.tensor == 4 && !l.is_sequence_parallel; }},
      {Mutation::kWholeGradientSummed, "whole gradients of norms and row biases summed", kGpt2,
       is_whole_stream},
      {Mutation::kPaddingCounted, "padded ids in the softmax", kLlama, is_tensor},
      {Mutation::kWeightsDrawnLocally, "initial weights drawn by local row", kLlama, is_tensor},
      {Mutation::kLayerIndexLocal, "layer index local to a stage", kLlama, is_pipeline},
      {Mutation::kDropoutRowLocal, "dropout keyed by row of the cut stream", kGpt2, is_cut_stream},
      {Mutation::kDropoutHeadLocal, "dropout keyed by local head", kGpt2, is_tensor},
      {Mutation::kDropoutSampleLocal, "dropout keyed by sample of the micro-batch", kLlamaTied,
       is_data},
      {Mutation::kReplayFromFirstRun, "recompute: a run starts from the first one's input", kGpt2,
       [](const Layout& l) {
         return l.recompute == "full" && l.schedule != "zero_bubble" &&
                8 / (l.pipeline * l.interleave) > l.recompute_layers;
       }},
      {Mutation::kTargetsNotSummed, "mean over data ranks as if their targets were equal", kGpt2,
       [](const Layout& l) { return l.data > 1 && l.pipeline == 1; }},
      {Mutation::kGradientDividedByCount, "gradient divided per micro-batch", kLlama, is_data},
      {Mutation::kReplicaCounted, "norm: replicas counted on every tensor rank", kGpt2, is_tensor},
      {Mutation::kForeignSliceCounted, "norm: slice 0 of whole buffers on every data rank", kLlama,
       is_whole_gradient},
      {Mutation::kTiedCopyCounted, "norm: tied embedding counted twice", kLlamaTied, is_pipeline},
      {Mutation::kTiedSumSkipped, "lookup and head of a tied embedding not summed", kGpt2,
       is_pipeline},
      {Mutation::kDataSumSkipped, "gradients not summed over data", kLlama, is_whole_gradient},
      {Mutation::kSliceStartsLate, "ZeRO: slices 64 elements late", kGpt2,
       [](const Layout& l) { return l.data > 1 && l.zero > 0; }},
      {Mutation::kSliceOverwritten, "ZeRO 2, 3: micro-batches overwrite instead of adding", kLlama,
       [](const Layout& l) { return l.data > 1 && l.zero > 1; }},
      {Mutation::kWeightsNotGathered, "ZeRO 1, 2: weights not gathered", kLlamaTied,
       [](const Layout& l) { return l.data > 1 && (l.zero == 1 || l.zero == 2); }},
      {Mutation::kMessageKeySwapped, "pipeline: micro-batch and stage swapped in keys", kLlama,
       is_pipeline},
      {Mutation::kForeignSliceSent, "pipeline: every tensor rank sends slice 0", kLlama,
       [](const Layout& l) { return is_whole_stream(l) && l.pipeline > 1 && l.is_scattering; }},
      {Mutation::kCutStreamCutAgain, "pipeline: rows that are cut are cut again", kGpt2,
       [](const Layout& l) { return is_cut_stream(l) && l.pipeline > 1 && l.is_scattering; }},
  };
  return all;
}

/// A fault in force.
class Seeded {
 public:
  explicit Seeded(Mutation fault) { active_mutation = fault; }
  ~Seeded() { active_mutation = Mutation::kNone; }
};

/// The matrix of one model: its points, the cheap ones first, and what they do without a fault.
class Matrix {
 public:
  explicit Matrix(const Model& model) : model_(model) {
    points_ = pairwise(admitted(model.sizes, 16));
    std::stable_sort(points_.begin(), points_.end(),
                     [](const Layout& a, const Layout& b) { return a.world() < b.world(); });
  }

  const Model& model() const { return model_; }
  const std::vector<Layout>& points() const { return points_; }
  const std::string& failure_without_fault(const Layout& layout) {
    const auto [known, is_new] = known_.try_emplace(layout.text());
    if (is_new) known->second = judge(model_, layout, references_).failure;
    return known->second;
  }

 private:
  const Model& model_;
  std::vector<Layout> points_;
  References references_;
  std::map<std::string, std::string> known_;
};

/// How the point fails; empty: it does not.
std::string failure_with(Mutation fault, const Model& model, const Layout& layout) {
  const Seeded seeded(fault);
  References references;
  try {
    return judge(model, layout, references).failure;
  } catch (const Error& error) {
    return "error " + error.word();
  }
}

/// Tries points in turn; prints the first that fails.
bool is_caught(const Fault& fault, Matrix& matrix) {
  size_t tries = 0;
  for (const Layout& layout : matrix.points()) {
    if (!fault.concerns(layout) || tries++ == kMostTries) continue;
    INFO(matrix.model().name << " " << layout.text());
    REQUIRE(matrix.failure_without_fault(layout) == "");
    const std::string failure = failure_with(fault.mutation, matrix.model(), layout);
    if (failure.empty()) continue;
    std::printf("| %s | %s %s | %s |\n", fault.text, matrix.model().name, layout.text().c_str(),
                failure.c_str());
    return true;
  }
  std::printf("| %s | nothing in %zu points | |\n", fault.text, tries);
  return false;
}

}  // namespace

TEST_CASE("every seeded fault makes the matrix fail", "[mutation]") {
  std::vector<Matrix> matrices;
  for (const Model& model : models()) matrices.emplace_back(model);
  std::printf("| fault | caught by | what failed |\n");
  for (const Fault& fault : faults()) {
    INFO(fault.text);
    CHECK(is_caught(fault, matrices[fault.model]));
  }
}

TEST_CASE("every fault that a source asks for is seeded", "[mutation]") {
  constexpr auto kLast = static_cast<size_t>(Mutation::kCutStreamCutAgain);
  REQUIRE(faults().size() == kLast);
  for (size_t i = 0; i < kLast; ++i) {
    CHECK(static_cast<size_t>(faults()[i].mutation) == i + 1);
  }
}

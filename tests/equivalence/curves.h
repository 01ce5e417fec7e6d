// Training runs of the equivalence matrix, and how a point's run is judged.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tests/equivalence/matrix.h"

namespace plait::test {

/// What a run leaves: everything that layouts are compared by.
struct Curve {
  std::vector<double> losses, norms;    ///< by step
  std::vector<float> weights, moments;  ///< of all tensors, in name order; second moments
};

struct Model {
  const char* name;
  int64_t vocabulary;
  Keys keys;
  ModelSizes sizes;
};

/// GPT-2, Llama, and a tied Llama with one key/value head. Odd sizes; dropout in the first and
/// third. Two vocabularies are large enough that real ids lie in several shards; the third has all
/// of its own in the first shard, and padding alone in the others. The last two have canonical
/// sums, of four parts in fp32 and of two in bf16.
const std::vector<Model>& models();

/// Layouts of up to `most_ranks` ranks that the engine must take for the model.
std::vector<Layout> admitted(const ModelSizes& sizes, int64_t most_ranks);

/// A few steps from the initial weights, on rows whose targets are masked unevenly.
Curve train(const Model& model, const Layout& layout);

/// Runs that others are compared with, each made once.
class References {
 public:
  const Curve& curve(const Model& model, const Layout& layout);

 private:
  std::map<std::string, Curve> curves_;
};

/// How far a point is from the run on one rank, relative and at most over steps; the rest in words.
struct Verdict {
  double loss = 0, norm = 0, weights = 0;
  std::string failure;  ///< empty: near enough, and with the bits of its class
};

Verdict judge(const Model& model, const Layout& layout, References& references);

}  // namespace plait::test

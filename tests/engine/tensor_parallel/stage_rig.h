// Whole stages on the ranks of a tensor group: a model, its data, and what a run leaves, put
// together from the ranks.
#pragma once

#include <string>
#include <vector>

#include "engine/model/stage.h"
#include "tests/engine/tensor_parallel/parallel_rig.h"

namespace plait::test {

struct StageCase {
  std::string name;
  ModelOptions model;
  int64_t batch = 2;      ///< samples of a micro-batch
  int64_t sequence = 16;  ///< s
  int64_t micros = 2;     ///< micro-batches of the step
  int64_t first_sample = 5;
  int64_t stages = 1;  ///< p: the layers in equal runs, one stage after the other
  bool has_documents = false;
  bool is_split = false;                               ///< backward in two parts
  RecomputeChoice recompute = RecomputeChoice::kNone;  ///< runs of one layer
  int64_t first_target = 0;                            ///< targets are ids from here on, or −1
  float padding = 0;                                   ///< what rows of padding hold

  int64_t rows() const { return batch * sequence; }
};

/// GPT-2 of 2 layers, tied, dropout and documents on; sizes that no power of two divides but where
/// ranks need it.
StageCase gpt2_case();
/// Llama of 2 layers with grouped key/value heads.
StageCase llama_case();

/// What a step of one or more micro-batches leaves.
struct StageResult {
  std::vector<float> losses;  ///< [micros · rows]
  double loss = 0;
  int64_t targets = 0;
  std::vector<float> output;          ///< [rows, H] of the last micro-batch, before the final norm
  std::vector<float> input_gradient;  ///< [rows, H] of the last micro-batch
  LogicalValues gradients;
  std::vector<float> logits;          ///< of the last row, real ids
  double padding_gradient = 0;        ///< largest |gradient| of rows of padding
  std::vector<std::string> problems;  ///< what ranks did not agree on
};

StageResult run_stages(const StageCase& c, const GroupLayout& layout);

/// Names of gradients, losses or inputs that differ from `want` by more than `bound`, relative to
/// their norm, that of a gradient taken to be at least `floor` of the largest one; "" if none.
std::string differences(const StageResult& got, const StageResult& want, double bound,
                        double floor = 1e-2);
/// The same for equality of bits.
std::string bit_differences(const StageResult& got, const StageResult& want);

}  // namespace plait::test

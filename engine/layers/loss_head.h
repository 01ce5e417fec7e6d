// Logits and cross entropy at the end of the model, in chunks of rows: at most a chunk of logits
// exists at a time, and while it does, its gradient is taken too. So in training the forward pass
// already leaves the gradient of its input and adds that of the head's weight.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "engine/layers/linear.h"
#include "engine/layers/logit_shards.h"
#include "kernels/ops/cross_entropy.h"

namespace plait {

/// What a micro-batch contributes to the loss. Sums, never means: the caller divides once.
struct LossSum {
  double loss = 0;      ///< Σ −log p over counted targets, in row order
  int64_t targets = 0;  ///< counted ones
};

class LossHead final : public Layer {
 public:
  struct Options {
    int64_t vocabulary = 0;         ///< V, real ids of the whole model
    int64_t first_id = 0;           ///< of output 0 of the first lane
    int64_t width = 0;              ///< outputs of a lane; ids ≥ V among them are padding
    DType dtype = DType::kFloat32;  ///< of the activations
  };
  /// `lanes` make the logits of one run of ids after the other; see TensorGroup. Their sums are
  /// added as by as many ranks.
  LossHead(std::vector<std::unique_ptr<LinearLayer>> lanes, std::unique_ptr<LogitShards> shards,
           const Options& options);

  void prepare(OpContext& context, int64_t max_rows) override;
  void weights_changed(OpContext& context) override;

  struct Arguments {
    TensorView x;                      ///< [stream rows, H] compute dtype
    const int32_t* targets = nullptr;  ///< [rows], −1: not counted
    TensorView grad_x;                 ///< [stream rows, H] compute dtype, or absent: loss alone
    float scale = 1.0f;                ///< gradient of a counted target's loss: S/N₀
    float* losses = nullptr;           ///< [rows]: each row's loss, or null
  };
  /// Sums over all rows. Zero in a measuring pass.
  LossSum run(const Pass& pass, const Arguments& arguments);

  /// For generation: row `row` [1, H] of the micro-batch, taken from the rows that pass here.
  TensorView pick_row(const Pass& pass, TensorView x, int64_t row, Workspace::Frame& frame);
  /// x [1, H] → logits [1, lanes · width] float32 of the ids that are here.
  void logits(const Pass& pass, TensorView x, TensorView logits);

  const Options& options() const { return options_; }

 private:
  struct Chunk {
    int64_t first = 0, rows = 0;
  };
  /// Of one lane's ids.
  struct Statistics {
    CrossEntropyStatistics of_rows;
    TensorView sums;  ///< [2, rows]: those of exponentials, the targets' logits
    LinearState state;
  };
  LossSum run_chunk(const Pass& pass, const Arguments& arguments, const Chunk& chunk);
  Statistics lane_statistics(const Pass& pass, const Arguments& arguments, const Chunk& chunk,
                             size_t lane, Workspace::Frame& frame);
  void join(const Pass& pass);
  void lane_gradient(const Pass& pass, float scale, size_t lane, TensorView grad_x);

  std::vector<std::unique_ptr<LinearLayer>> lanes_;
  std::unique_ptr<LogitShards> shards_;
  Options options_;
  std::vector<Statistics> statistics_;  // of the running chunk, by lane; the first's are joined
};

}  // namespace plait

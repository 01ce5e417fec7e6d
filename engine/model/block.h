// A Transformer block, pre-norm, of the GPT-2 or the Llama family:
//   x₂ = x + dropout(attention(norm(x))), x₃ = x₂ + dropout(feed_forward(norm(x₂)))
// GPT-2: LayerNorm, biases, GELU. Llama: RMSNorm, rotary embedding, SwiGLU, no biases.
#pragma once

#include <memory>
#include <vector>

#include "engine/config/settings.h"
#include "engine/layers/attention.h"
#include "engine/layers/feed_forward.h"
#include "engine/layers/norm.h"
#include "engine/layers/parameter.h"
#include "engine/tensor_parallel/stream_region.h"
#include "engine/tensor_parallel/tensor_group.h"
#include "kernels/base/function_ref.h"

namespace plait {

/// What a block and its stage are made from.
struct ModelOptions {
  ModelConfig model;
  PrecisionConfig precision;
  TrainConfig train;
  uint64_t seed = 0;
};

/// One micro-batch's saved state. `x` is where the block's input stands.
struct BlockState {
  TensorView x;            ///< [stream rows, H] residual dtype
  TensorView y1;           ///< [stream rows, H] compute dtype: input of attention
  TensorView x2;           ///< [stream rows, H] residual dtype
  TensorView y2;           ///< [stream rows, H] compute dtype: input of the feed-forward
  NormState norm1, norm2;  ///< the statistics; sums are x and x2
  // Of each lane.
  std::vector<AttentionState> attention;
  std::vector<FeedForwardState> feed_forward;
};

/// Gradients that the weight part reads. One set serves all blocks of a stage when both parts run
/// together; with a split backward pass each saved state has its own.
struct BlockGradients {
  TensorView down;                     ///< [stream rows, H] compute dtype
  TensorView output;                   ///< [stream rows, H]
  std::vector<TensorView> up;          ///< [rows, F or 2F], of each lane
  std::vector<TensorView> projection;  ///< [rows, (A + 2G)·D], of each lane
};

class Block final : public Layer {
 public:
  /// Declares its local parameters in `unit`. `rotary_table` as in Attention::Options.
  Block(const ModelOptions& options, int64_t layer, TensorView rotary_table, Unit& unit,
        const TensorGroup& group);

  void prepare(OpContext& context, int64_t max_rows) override;
  void weights_changed(OpContext& context) override;

  /// All buffers but x, which the stage places. `max_rows`: of a whole micro-batch.
  BlockState make_state(StateArena& arena, int64_t max_rows) const;
  BlockGradients make_gradients(StateArena& arena, int64_t max_rows) const;

  /// From state.x [stream rows, H] to out [stream rows, H], residual dtype.
  void forward(const Pass& pass, BlockState& state, TensorView out);
  /// grad [stream rows, H] residual dtype: gradient of out on entry, of x on return.
  void backward_input(const Pass& pass, BlockState& state, const BlockGradients& gradients,
                      TensorView grad);
  void backward_weight(const Pass& pass, const BlockState& state);
  /// Both parts, layer by layer.
  void backward(const Pass& pass, BlockState& state, const BlockGradients& gradients,
                TensorView grad);

 private:
  enum class Parts { kInput, kBoth };
  /// Computes lane i's term of a sum into a tensor of the sum's shape.
  using LaneTerm = FunctionRef<void(size_t, TensorView)>;

  void declare_attention(const ModelOptions& options, int64_t layer, TensorView rotary_table,
                         Unit& unit);
  void declare_feed_forward(const ModelOptions& options, int64_t layer, Unit& unit);
  void sum_lanes(const Pass& pass, TensorView sum, LaneTerm term);
  void walk_back(const Pass& pass, BlockState& state, const BlockGradients& gradients,
                 TensorView grad, Parts parts);

  int64_t hidden_;
  DType compute_, residual_;
  TensorGroup group_;
  std::unique_ptr<ResidualNorm> norm1_, norm2_, add_;
  // One for each lane.
  std::vector<std::unique_ptr<Attention>> attention_;
  std::vector<std::unique_ptr<FeedForward>> feed_forward_;
  std::unique_ptr<StreamRegion> region_;  // where lanes' sums go on over ranks
};

}  // namespace plait

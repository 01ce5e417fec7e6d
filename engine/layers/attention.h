// Self-attention: fused query/key/value projection, rotary embedding, causal attention, output
// projection. The linears are given, so that the same layer serves a tensor-parallel rank, whose
// heads are the local ones.
#pragma once

#include <memory>

#include "engine/layers/linear.h"
#include "kernels/ops/attention.h"

namespace plait {

/// Buffers are made with the engine for the largest micro-batch.
struct AttentionState {
  TensorView qkv;      ///< [rows, (A + 2G)·D], after rotary
  TensorView y;        ///< [rows, A·D], input of the output projection
  TensorView log_sum;  ///< [B, A, S] float32, flat
  LinearState projection, output;
};

/// Fills a rotary table [positions, D] float32 for Attention::Options.
void fill_rotary_table(double base, TensorView table);

class Attention final : public Layer {
 public:
  struct Options {
    int64_t heads = 0;  ///< A, local
    int64_t key_value_heads = 0;
    int64_t head_size = 0;
    int64_t first_head = 0;   ///< global index of local head 0
    TensorView rotary_table;  ///< [longest S, D] float32, or absent: no rotary embedding
    DropoutSite probabilities;
  };
  Attention(const Options& options, std::unique_ptr<LinearLayer> projection,
            std::unique_ptr<LinearLayer> output);

  void prepare(OpContext& context, int64_t max_rows) override;
  void weights_changed(OpContext& context) override;

  AttentionState make_state(StateArena& arena, DType dtype, int64_t max_rows) const;
  int64_t projection_width() const;                                             ///< (A + 2G)·D
  int64_t output_width() const { return options_.heads * options_.head_size; }  ///< A·D

  /// x [stream rows, H] → delta [stream rows, H], before bias and dropout of the output.
  void forward(const Pass& pass, TensorView x, TensorView delta, AttentionState& state);
  /// grad_qkv [rows, (A + 2G)·D] is the caller's buffer; it and grad_delta must stay until
  /// backward_weight. grad_x [stream rows, H] is overwritten.
  void backward_input(const Pass& pass, TensorView grad_delta, TensorView grad_qkv,
                      TensorView grad_x, AttentionState& state);
  void backward_weight(const Pass& pass, const AttentionState& state);
  /// Both parts.
  void backward(const Pass& pass, TensorView grad_delta, TensorView grad_qkv, TensorView grad_x,
                AttentionState& state);

 private:
  AttentionShape shape(const Pass& pass) const;
  void rotate(const Pass& pass, TensorView qkv, bool is_inverse) const;
  /// From the gradient of the output projection's input to that of the projection's output.
  void backward_middle(const Pass& pass, TensorView grad_y, TensorView grad_qkv,
                       const AttentionState& state) const;

  Options options_;
  std::unique_ptr<LinearLayer> projection_, output_;
};

}  // namespace plait

// Linear layer: y = x · Wᵀ + bias with W [N, K], the products of its backward pass, and the packed
// form of W that an implementation prefers. Accumulates in fp32; the order of sums depends on the
// shapes alone, never on the number of threads.
#pragma once

#include <memory>

#include "kernels/ops/context.h"

namespace plait {

/// What is known of one weight matrix when its engine is created.
struct LinearShape {
  int64_t n = 0;                  ///< outputs
  int64_t k = 0;                  ///< inputs
  DType dtype = DType::kFloat32;  ///< of W and x: the compute dtype
  int64_t max_rows = 0;           ///< largest M of any call
};

/// Rows of x and y may be any M ≤ max_rows.
struct LinearForward {
  TensorView x;     ///< [M, K] compute dtype
  TensorView bias;  ///< [N] compute dtype, or absent
  TensorView y;     ///< [M, N] compute dtype or float32
};

struct LinearBackwardInput {
  TensorView grad_y;  ///< [M, N] compute dtype
  TensorView grad_x;  ///< [M, K] compute dtype or float32, overwritten
};

struct LinearBackwardWeight {
  TensorView grad_y;       ///< [M, N] compute dtype
  TensorView x;            ///< [M, K] compute dtype
  TensorView grad_weight;  ///< [N, K] float32
  TensorView grad_bias;    ///< [N] float32, or absent
  GradientMode mode = GradientMode::kOverwrite;
};

/// One weight matrix prepared on one device: primitives and packed forms are made once, with the
/// engine. `packed` is `packed_bytes()` of memory that the caller owns (64-byte aligned) and that
/// `pack` fills after every change of the weight; `weight` is W as the caller keeps it.
class LinearPlan {
 public:
  virtual ~LinearPlan() = default;
  virtual const char* name() const = 0;
  virtual int64_t packed_bytes() const = 0;
  virtual void pack(OpContext& context, TensorView weight, void* packed) const = 0;
  /// Scratch bytes of the largest of the three passes at M rows, besides per-thread memory.
  virtual int64_t workspace_bytes(int64_t rows, int threads) const = 0;
  virtual void forward(OpContext& context, TensorView weight, const void* packed,
                       const LinearForward& arguments, void* workspace) const = 0;
  virtual void backward_input(OpContext& context, TensorView weight, const void* packed,
                              const LinearBackwardInput& arguments, void* workspace) const = 0;
  virtual void backward_weight(OpContext& context, const LinearBackwardWeight& arguments,
                               void* workspace) const = 0;
};

class LinearKernel {
 public:
  virtual ~LinearKernel() = default;
  virtual const char* name() const = 0;
  virtual bool supports(const LinearShape& shape, IsaLevel isa) const = 0;
  virtual std::unique_ptr<LinearPlan> plan(const LinearShape& shape, IsaLevel isa) const = 0;
};

/// A weight with its plan: what layers hold. The buffers are borrowed.
struct LinearWeight {
  LinearShape shape;
  std::unique_ptr<LinearPlan> plan;
  TensorView weight;       ///< [N, K] compute dtype
  void* packed = nullptr;  ///< plan->packed_bytes(), null when that is 0
};

/// The plan of the first implementation in the list that supports the shape.
std::unique_ptr<LinearPlan> make_linear_plan(const OpContext& context, const LinearShape& shape);

void linear_pack(OpContext& context, const LinearWeight& weight);
void linear_forward(OpContext& context, const LinearWeight& weight, const LinearForward& arguments);
void linear_backward_input(OpContext& context, const LinearWeight& weight,
                           const LinearBackwardInput& arguments);
void linear_backward_weight(OpContext& context, const LinearWeight& weight,
                            const LinearBackwardWeight& arguments);

}  // namespace plait

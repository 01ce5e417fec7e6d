// The vector-code implementations of the element-wise and row-wise ops, named "vector". They take
// float32, bfloat16 and float16 at every level from SSSE3 on. Work is cut into blocks that depend
// on shapes alone, so results do not depend on the number of threads.
#pragma once

#include "kernels/ops/activation.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/normal.h"
#include "kernels/ops/residual_norm.h"
#include "kernels/ops/rotary.h"
#include "kernels/ops/span.h"

namespace plait {

// Objects of static storage duration.
const ResidualNormKernel& vector_residual_norm();
const ActivationKernel& vector_activation();
const RotaryKernel& vector_rotary();
const EmbeddingKernel& vector_embedding();
const CrossEntropyKernel& vector_cross_entropy();
const AdamWKernel& vector_adamw();
const SpanKernel& vector_span();
const NormalKernel& vector_normal();

constexpr bool is_vector_storage(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
}

/// Whether a residual dtype goes with a compute dtype.
constexpr bool is_vector_pair(DType compute, DType residual) {
  return is_vector_storage(compute) && (residual == compute || residual == DType::kFloat32);
}

/// Rows of `columns` elements that one task takes: about 32768 elements.
constexpr int64_t rows_per_task(int64_t columns) {
  return columns >= 32768 ? 1 : 32768 / (columns < 1 ? 1 : columns);
}

}  // namespace plait

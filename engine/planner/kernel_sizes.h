// What the kernels of a device take besides tensors: second forms of weights, scratch memory.
//
// The planner may not ask kernels, so their rules stand here again; tests hold them equal. They
// follow from sizes and from three facts of the hardware: the kind of device, and on a CPU the
// instruction set (hardware.device.isa) and the threads of a rank (hardware.device.units).
#pragma once

#include <cstdint>

#include "engine/planner/hardware.h"
#include "engine/planner/rank_share.h"
#include "kernels/base/dtype.h"

namespace plait {

class KernelSizes {
 public:
  /// Without a kind of device: no forms and no scratch memory.
  KernelSizes(const Hardware& hardware, DType compute);

  /// Of the second form in which a product keeps its weight.
  int64_t packed_bytes(const LinearShare& linear) const;
  /// Scratch memory of a product and of its gradients, of `rows` rows.
  int64_t linear_bytes(const LinearShare& linear, int64_t rows) const;
  /// Of attention, forward and backward.
  int64_t attention_bytes(int64_t sequence, int64_t head_size) const;
  /// Of gradients of tables with `table_rows` rows.
  int64_t embedding_bytes(int64_t rows, int64_t table_rows) const;
  int64_t norm_bytes(int64_t rows, int64_t hidden) const;

 private:
  /// kTiles: products of 16 bits by the library that drives the matrix unit, the rest as kVector.
  enum class Code { kNone, kReference, kVector, kTiles };
  /// How vector code cuts products.
  struct Blocks {
    int64_t strip_rows, strip_pitch, panel_columns, longest, longest_transposed, panel_floats;
  };
  struct ThreadFloats;
  ThreadFloats row_product(int64_t rows, int64_t inner, int64_t columns) const;
  ThreadFloats weight_product(int64_t rows, int64_t columns) const;
  bool has_vectors() const { return code_ == Code::kVector || code_ == Code::kTiles; }

  Code code_ = Code::kNone;
  Blocks blocks_ = {};
  int64_t element_;
  int64_t threads_;
};

}  // namespace plait

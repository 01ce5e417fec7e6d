// Products by oneDNN of fixed sizes, made once; see linear_onednn.cc. What oneDNN reports is thrown
// as dnnl::error; callers hold OpenMP to one thread.
#pragma once

#include <array>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "kernels/ops/linear.h"

namespace plait {

/// Sizes of the pieces that rows are cut into, largest first.
inline constexpr int kPieceSizes = 4;
using PieceSizes = std::array<int64_t, kPieceSizes>;

/// Operands of one execution; bias null where the product has none.
struct Operands {
  const void* source = nullptr;
  const void* weights = nullptr;
  const void* bias = nullptr;
  void* out = nullptr;
  void* scratch = nullptr;
};

/// out = source · weights (+ bias | + out).
class Product {
 public:
  using Layout = dnnl::memory::desc;

  Product() = default;
  /// `bias` may be empty (zero dims).
  Product(const Layout& source, const Layout& weights, const Layout& bias, const Layout& out,
          bool is_adding);

  Layout weights() const { return description_.weights_desc(); }
  int64_t scratch_bytes() const;
  void run(dnnl::stream& stream, const Operands& operands) const;

 private:
  bool has_bias_ = false;
  dnnl::matmul::primitive_desc description_;
  dnnl::matmul primitive_;
};

/// A piece of the rows of a call.
struct Piece {
  int64_t first;
  int size;  ///< index of its size
};

/// The cut of `rows`, sizes from index `start` on; the last size is 1.
class Pieces {
 public:
  Pieces(int64_t rows, const PieceSizes& sizes, int start);
  int64_t count() const { return counts_[0] + counts_[1] + counts_[2] + counts_[3]; }
  Piece at(int64_t index) const;

 private:
  const PieceSizes& sizes_;
  PieceSizes counts_{};
};

/// Products of row pieces with one packed weight.
class RowProducts {
 public:
  /// The weight is B [inner, columns]: Wᵀ for the forward pass, W for the gradient of the input.
  enum class Pass { kForward, kBackwardInput };
  RowProducts(const LinearShape& shape, Pass pass);

  int64_t packed_bytes() const;  ///< a multiple of 64
  int64_t scratch_bytes() const { return scratch_bytes_; }
  void pack(dnnl::stream& stream, const void* weight, void* packed) const;

  static Pieces pieces(int64_t rows);
  /// `operands.source` and `operands.out` are of the whole call.
  void run(dnnl::stream& stream, const Piece& piece, Operands operands, DType out) const;

 private:
  int64_t inner_;
  int64_t columns_;
  DType dtype_;
  std::array<std::array<Product, 2>, kPieceSizes> products_;  // by size; in dtype_, in float32
  Product::Layout plain_, packed_;
  dnnl::reorder reorder_;
  int64_t scratch_bytes_ = 0;
};

/// Products for the gradient of the weight, added to it: grad_yᵀ [n, rows] · x [rows, k].
class WeightProducts {
 public:
  static constexpr int64_t kTileRows = 256;  ///< rows of the gradient that one thread takes

  explicit WeightProducts(const LinearShape& shape);

  int64_t tiles() const { return (n_ + kTileRows - 1) / kTileRows; }
  int64_t scratch_bytes() const { return scratch_bytes_; }
  int64_t copy_bytes() const;
  /// Rows [tile · kTileRows, …) of the gradient; `copy` holds copy_bytes().
  void run(dnnl::stream& stream, const LinearBackwardWeight& arguments, int64_t tile, char* copy,
           void* scratch) const;

 private:
  void make(Product& product, int64_t n, int64_t rows);

  int64_t n_;
  int64_t k_;
  DType dtype_;
  std::array<std::array<Product, 2>, kPieceSizes> products_;  // by size; whole tiles, the last
  int64_t scratch_bytes_ = 0;
};

const dnnl::engine& onednn_engine();

}  // namespace plait

// Blocked products in float32 vector code. Threads take tiles of the output; a tile walks the inner
// dimension in blocks, has the panels of one block in its L2 cache, and passes strips over them.
//
// Packed form: the panels of Wᵀ in the dtype of W, each with the whole inner dimension. The other
// operands are copied, a block at a time, into memory of the thread.
#include <algorithm>

#include "kernels/base/error.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_code.h"
#include "kernels/cpu/linear_tiles.h"
#include "kernels/ops/linear.h"

namespace plait {
namespace {

constexpr int64_t kAlignFloats = 16;
/// Strips of grad_yᵀ that are copied together: whole cache lines of each row of grad_y.
constexpr int64_t kStripsAtOnce = 8;

MatrixRows matrix_of(const TensorView& view) {
  const int64_t width = view.shape[view.shape.dims() - 1];
  return {view.data, view.dtype, width, width};
}

/// out[rows, columns] = A[rows, inner] · B[inner, columns] + bias.
struct RowProduct {
  MatrixRows a;
  int64_t rows = 0;
  int64_t inner = 0;
  int64_t columns = 0;
  const void* packed = nullptr;  ///< panels of B with the whole inner dimension, or null:
  MatrixRows b;                  ///< B, row-major
  MatrixRows bias;
  TensorView out;
};

/// Memory of one thread, in floats.
struct ThreadMemory {
  int64_t panels = 0;
  int64_t strips = 0;
  int64_t sums = 0;
  int64_t total() const { return panels + strips + sums; }
  void grow(const ThreadMemory& other) {
    panels = std::max(panels, round_up(other.panels, kAlignFloats));
    strips = std::max(strips, round_up(other.strips, kAlignFloats));
    sums = std::max(sums, round_up(other.sums, kAlignFloats));
  }
};

struct ThreadBuffers {
  float* panels;
  float* strips;
  float* sums;
};

class RowTiles {
 public:
  RowTiles(const LinearCode& code, const RowProduct& product, int threads)
      : code_(code),
        p_(product),
        blocks_(product.inner, code.max_inner),
        tiles_(choose_tiles(code, product.rows, product.columns, blocks_.size, threads)) {}

  int64_t count() const { return tiles_.count(); }

  static ThreadMemory memory(const LinearCode& code, int64_t rows, int64_t inner, int64_t columns) {
    const InnerBlocks blocks(inner, code.max_inner);
    const int64_t width = max_tile_columns(code, columns, blocks.size);
    const int64_t sum_rows = blocks.count == 1 ? code.strip_rows : max_tile_rows(code, rows);
    return {width * blocks.size, code.strip_rows * row_pitch(code.max_inner), sum_rows * width};
  }

  void run(int64_t tile, const ThreadBuffers& buffers) const {
    const int64_t row = tile % tiles_.row_tiles * tiles_.rows;
    const int64_t column = tile / tiles_.row_tiles * tiles_.columns;
    const int64_t rows = std::min(tiles_.rows, p_.rows - row);
    const int64_t columns = std::min(tiles_.columns, p_.columns - column);
    for (int64_t block = 0; block < blocks_.count; ++block) {
      StripProduct part;
      part.inner = blocks_.length(block);
      part.columns = columns;
      part.is_adding = block > 0;
      set_panels(block, column, buffers, part);
      for (int64_t i = 0; i < rows; i += code_.strip_rows) {
        part.rows = std::min(code_.strip_rows, rows - i);
        code_.copy_rows(p_.a.at(row + i, blocks_.first(block)), part.rows, part.inner,
                        buffers.strips);
        part.strip = buffers.strips;
        set_sums(row, i, column, buffers, part);
        set_next(p_.a.at(row + i + code_.strip_rows, blocks_.first(block)),
                 std::min(code_.strip_rows, rows - i - code_.strip_rows), part);
        code_.multiply(part);
        if (block + 1 == blocks_.count) finish(part, row + i, column);
      }
    }
  }

 private:
  /// Points to panels in float32: the packed ones, or copies in the memory of the thread.
  void set_panels(int64_t block, int64_t column, const ThreadBuffers& buffers,
                  StripProduct& part) const {
    const int64_t first = blocks_.first(block), width = code_.panel_columns;
    part.panels = buffers.panels;
    part.panel_pitch = part.inner * width;
    if (p_.packed == nullptr) {
      code_.copy_panels(p_.b.at(first, column), part.inner, part.columns, buffers.panels);
      return;
    }
    const MatrixRows panels{p_.packed, p_.b.dtype, p_.inner * width, 0};
    const int64_t first_panel = column / width;
    if (p_.b.dtype == DType::kFloat32) {
      part.panels = static_cast<const float*>(panels.at(first_panel, first * width).data);
      part.panel_pitch = panels.stride;
      return;
    }
    for (int64_t i = 0; i * width < part.columns; ++i) {
      code_.widen(panels.at(first_panel + i, first * width).data, panels.dtype, part.panel_pitch,
                  buffers.panels + i * part.panel_pitch);
    }
  }

  static void set_next(const MatrixRows& next, int64_t rows, StripProduct& part) {
    part.next = rows > 0 ? next.data : nullptr;
    part.next_rows = rows;
    part.next_width = part.inner * dtype_size(next.dtype);
    part.next_stride = next.stride * dtype_size(next.dtype);
  }

  bool is_in_place() const { return p_.out.dtype == DType::kFloat32; }

  void set_sums(int64_t row, int64_t strip_row, int64_t column, const ThreadBuffers& buffers,
                StripProduct& part) const {
    if (is_in_place()) {
      part.sums_stride = p_.columns;
      part.sums = p_.out.as<float>() + (row + strip_row) * p_.columns + column;
    } else {
      part.sums_stride = tiles_.columns;
      part.sums = buffers.sums + (blocks_.count == 1 ? 0 : strip_row * part.sums_stride);
    }
  }

  void finish(const StripProduct& part, int64_t row, int64_t column) const {
    if (is_in_place() && p_.bias.data == nullptr) return;
    StripOutput output;
    output.sums = part.sums;
    output.sums_stride = part.sums_stride;
    output.rows = part.rows;
    output.columns = part.columns;
    if (p_.bias.data != nullptr) output.bias = p_.bias.at(0, column);
    output.dtype = p_.out.dtype;
    output.out_stride = p_.columns;
    output.out =
        static_cast<char*>(p_.out.data) + (row * p_.columns + column) * dtype_size(p_.out.dtype);
    code_.finish(output);
  }

  const LinearCode& code_;
  const RowProduct& p_;
  const InnerBlocks blocks_;
  const OutputTiles tiles_;
};

/// grad_weight[N, K] (+)= grad_yᵀ · x; the first tiles of each row of tiles sum up grad_bias.
class WeightTiles {
 public:
  WeightTiles(const LinearCode& code, const LinearBackwardWeight& arguments, int threads)
      : code_(code),
        p_(arguments),
        n_(arguments.grad_weight.rows()),
        k_(arguments.grad_weight.columns()),
        blocks_(arguments.x.rows(), code.max_inner_t),
        tiles_(choose_tiles(code, n_, k_, blocks_.size, threads)) {}

  int64_t count() const { return tiles_.count(); }

  static ThreadMemory memory(const LinearCode& code, int64_t rows, int64_t k) {
    const InnerBlocks blocks(rows, code.max_inner_t);
    const int64_t strips = kStripsAtOnce * code.strip_pitch;
    // The longest block of fewer rows may be longer than that of more.
    const int64_t inner = blocks.count == 1 ? blocks.size : code.max_inner_t;
    const int64_t panels = std::max(code.panel_floats, code.panel_columns * inner);
    return {std::min(panels, round_up(k, code.panel_columns) * inner), strips * inner, strips};
  }

  void run(int64_t tile, const ThreadBuffers& buffers) const {
    const int64_t row = tile % tiles_.row_tiles * tiles_.rows;
    const int64_t column = tile / tiles_.row_tiles * tiles_.columns;
    const int64_t rows = std::min(tiles_.rows, n_ - row);
    StripProduct part;
    part.columns = std::min(tiles_.columns, k_ - column);
    part.is_inner_major = true;
    part.sums_stride = k_;
    part.panels = buffers.panels;
    for (int64_t block = 0; block < blocks_.count; ++block) {
      part.inner = blocks_.length(block);
      part.panel_pitch = part.inner * code_.panel_columns;
      part.is_adding = block > 0 || p_.mode == GradientMode::kAccumulate;
      code_.copy_panels(matrix_of(p_.x).at(blocks_.first(block), column), part.inner, part.columns,
                        buffers.panels);
      const int64_t step = kStripsAtOnce * code_.strip_rows;
      for (int64_t i = 0; i < rows; i += step) {
        const bool is_last = i + step >= rows;
        set_next(is_last ? block + 1 : block, is_last ? row : row + i + step, part);
        multiply_strips(block, row + i, std::min(step, rows - i), column, buffers, part);
      }
    }
  }

 private:
  /// Copies neighbouring strips of grad_yᵀ and passes them over the panels.
  void multiply_strips(int64_t block, int64_t row, int64_t rows, int64_t column,
                       const ThreadBuffers& buffers, StripProduct& part) const {
    const bool has_bias = column == 0 && p_.grad_bias.is_present();
    if (has_bias) std::fill_n(buffers.sums, kStripsAtOnce * code_.strip_pitch, 0.0f);
    code_.copy_columns(matrix_of(p_.grad_y).at(blocks_.first(block), row), part.inner, rows,
                       buffers.strips, has_bias ? buffers.sums : nullptr);
    if (has_bias) add_bias(row, rows, buffers.sums, part.is_adding);
    const char* next = static_cast<const char*>(part.next);
    for (int64_t i = 0; i < rows; i += code_.strip_rows) {
      part.rows = std::min(code_.strip_rows, rows - i);
      part.strip = buffers.strips + i / code_.strip_rows * code_.strip_pitch * part.inner;
      part.sums = p_.grad_weight.as<float>() + (row + i) * k_ + column;
      code_.multiply(part);
      if (next != nullptr) part.next = next += part.next_rows * part.next_stride;
    }
  }

  /// Each strip of a group fetches its part of the rows that the next group is copied from.
  void set_next(int64_t block, int64_t row, StripProduct& part) const {
    part.next = nullptr;
    if (block == blocks_.count) return;
    const MatrixRows grad_y = matrix_of(p_.grad_y).at(blocks_.first(block), row);
    const int64_t columns = std::min(kStripsAtOnce * code_.strip_rows, grad_y.readable);
    part.next = grad_y.data;
    part.next_rows = (blocks_.length(block) + kStripsAtOnce - 1) / kStripsAtOnce;
    part.next_width = columns * dtype_size(grad_y.dtype);
    part.next_stride = grad_y.stride * dtype_size(grad_y.dtype);
  }

  void add_bias(int64_t row, int64_t rows, const float* sums, bool is_adding) const {
    float* bias = p_.grad_bias.as<float>() + row;
    for (int64_t i = 0; i < rows; ++i) {
      const float sum = sums[i / code_.strip_rows * code_.strip_pitch + i % code_.strip_rows];
      bias[i] = is_adding ? bias[i] + sum : sum;
    }
  }

  const LinearCode& code_;
  const LinearBackwardWeight& p_;
  const int64_t n_, k_;
  const InnerBlocks blocks_;
  const OutputTiles tiles_;
};

class FmaPlan final : public LinearPlan {
 public:
  FmaPlan(const LinearShape& shape, IsaLevel isa) : shape_(shape), code_(linear_code(isa)) {}

  const char* name() const override { return "fma"; }

  int64_t packed_bytes() const override {
    return round_up(shape_.n, code_.panel_columns) * shape_.k * dtype_size(shape_.dtype);
  }

  void pack(OpContext& context, TensorView weight, void* packed) const override {
    const int64_t width = code_.panel_columns;
    const int64_t panel_bytes = width * shape_.k * dtype_size(shape_.dtype);
    const int64_t panels = round_up(shape_.n, width) / width;
    context.pool().run(panels, [&](int64_t panel, int) {
      const int64_t rows = std::min(width, shape_.n - panel * width);
      code_.pack_panel(matrix_of(weight).at(panel * width, 0), rows, shape_.k,
                       static_cast<char*>(packed) + panel * panel_bytes);
    });
  }

  int64_t workspace_bytes(int64_t rows, int threads) const override {
    return memory(rows).total() * static_cast<int64_t>(sizeof(float)) * threads;
  }

  void forward(OpContext& context, TensorView weight, const void* packed,
               const LinearForward& arguments, void* workspace) const override {
    RowProduct p;
    p.a = matrix_of(arguments.x);
    p.rows = arguments.x.rows();
    p.inner = shape_.k;
    p.columns = shape_.n;
    p.packed = packed;
    p.b = matrix_of(weight);
    if (arguments.bias.is_present()) p.bias = matrix_of(arguments.bias);
    p.out = arguments.y;
    run(context, RowTiles(code_, p, context.pool().threads()), p.rows, workspace);
  }

  void backward_input(OpContext& context, TensorView weight, const void* /*packed*/,
                      const LinearBackwardInput& arguments, void* workspace) const override {
    RowProduct p;
    p.a = matrix_of(arguments.grad_y);
    p.rows = arguments.grad_y.rows();
    p.inner = shape_.n;
    p.columns = shape_.k;
    p.b = matrix_of(weight);
    p.out = arguments.grad_x;
    run(context, RowTiles(code_, p, context.pool().threads()), p.rows, workspace);
  }

  void backward_weight(OpContext& context, const LinearBackwardWeight& arguments,
                       void* workspace) const override {
    run(context, WeightTiles(code_, arguments, context.pool().threads()), arguments.x.rows(),
        workspace);
  }

 private:
  ThreadMemory memory(int64_t rows) const {
    ThreadMemory most;
    most.grow(RowTiles::memory(code_, rows, shape_.k, shape_.n));
    most.grow(RowTiles::memory(code_, rows, shape_.n, shape_.k));
    most.grow(WeightTiles::memory(code_, rows, shape_.k));
    return most;
  }

  template <class Tiles>
  void run(OpContext& context, const Tiles& tiles, int64_t rows, void* workspace) const {
    const ThreadMemory sizes = memory(rows);
    context.pool().run(tiles.count(), [&](int64_t tile, int worker) {
      float* own = static_cast<float*>(workspace) + worker * sizes.total();
      tiles.run(tile, {own, own + sizes.panels, own + sizes.panels + sizes.strips});
    });
  }

  const LinearShape shape_;
  const LinearCode& code_;
};

class FmaKernel final : public LinearKernel {
 public:
  const char* name() const override { return "fma"; }
  bool supports(const LinearShape& shape, IsaLevel isa) const override {
    const bool is_float = shape.dtype == DType::kFloat32 || shape.dtype == DType::kBFloat16 ||
                          shape.dtype == DType::kFloat16;
    return is_float && has_vector_code(isa);
  }
  std::unique_ptr<LinearPlan> plan(const LinearShape& shape, IsaLevel isa) const override {
    return std::make_unique<FmaPlan>(shape, isa);
  }
};

}  // namespace

const LinearKernel& fma_linear_kernel() {
  static const FmaKernel kernel;
  return kernel;
}

}  // namespace plait

#include "kernels/cpu/linear_onednn_products.h"

#include <algorithm>
#include <cstring>
#include <unordered_map>

#include "kernels/cpu/linear_tiles.h"

namespace plait {
namespace {

using Layout = Product::Layout;

/// Rows of one product, forward and gradient of the input.
constexpr PieceSizes kRowSizes = {256, 64, 8, 1};
constexpr int64_t kManyRows = 1024;  // from here on the first of kRowSizes is used
/// Rows that one product of the gradient of the weight sums up.
constexpr PieceSizes kSumSizes = {512, 64, 8, 1};
constexpr int64_t kAlignment = 64;

dnnl::memory::data_type type_of(DType dtype) {
  return dtype == DType::kFloat32 ? dnnl::memory::data_type::f32 : dnnl::memory::data_type::bf16;
}

Layout rows_layout(int64_t rows, int64_t columns, DType dtype) {
  return {{rows, columns}, type_of(dtype), dnnl::memory::dims{columns, 1}};
}

Layout columns_layout(int64_t rows, int64_t columns, DType dtype) {
  return {{rows, columns}, type_of(dtype), dnnl::memory::dims{1, rows}};
}

dnnl::memory memory_of(const Layout& layout, const void* data) {
  return {layout, onednn_engine(), const_cast<void*>(data)};
}

}  // namespace

const dnnl::engine& onednn_engine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

Product::Product(const Layout& source, const Layout& weights, const Layout& bias, const Layout& out,
                 bool is_adding)
    : has_bias_(bias.data.ndims != 0) {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (is_adding) {
    dnnl::post_ops sum;
    sum.append_sum(1.0f);
    attributes.set_post_ops(sum);
  }
  const dnnl::matmul::desc form = has_bias_ ? dnnl::matmul::desc(source, weights, bias, out)
                                            : dnnl::matmul::desc(source, weights, out);
  description_ = dnnl::matmul::primitive_desc(form, attributes, onednn_engine());
  primitive_ = dnnl::matmul(description_);
}

int64_t Product::scratch_bytes() const {
  return static_cast<int64_t>(description_.scratchpad_desc().get_size());
}

void Product::run(dnnl::stream& stream, const Operands& o) const {
  std::unordered_map<int, dnnl::memory> arguments{
      {DNNL_ARG_SRC, memory_of(description_.src_desc(), o.source)},
      {DNNL_ARG_WEIGHTS, memory_of(description_.weights_desc(), o.weights)},
      {DNNL_ARG_DST, memory_of(description_.dst_desc(), o.out)},
      {DNNL_ARG_SCRATCHPAD, memory_of(description_.scratchpad_desc(), o.scratch)}};
  if (has_bias_) {
    arguments.emplace(DNNL_ARG_BIAS, memory_of(description_.bias_desc(), o.bias));
  }
  primitive_.execute(stream, arguments);
}

Pieces::Pieces(int64_t rows, const PieceSizes& sizes, int start) : sizes_(sizes) {
  for (int i = start; i < kPieceSizes; ++i) {
    counts_[i] = rows / sizes[i];
    rows -= counts_[i] * sizes[i];
  }
}

Piece Pieces::at(int64_t index) const {
  int64_t first = 0;
  int size = 0;
  for (; index >= counts_[size]; ++size) {
    first += counts_[size] * sizes_[size];
    index -= counts_[size];
  }
  return {first + index * sizes_[size], size};
}

RowProducts::RowProducts(const LinearShape& shape, Pass pass)
    : inner_(pass == Pass::kForward ? shape.k : shape.n),
      columns_(pass == Pass::kForward ? shape.n : shape.k),
      dtype_(shape.dtype),
      plain_(pass == Pass::kForward ? columns_layout(inner_, columns_, dtype_)
                                    : rows_layout(inner_, columns_, dtype_)),
      packed_(plain_.dims(), type_of(dtype_), dnnl::memory::format_tag::any) {
  const Layout bias = pass == Pass::kForward ? rows_layout(1, columns_, dtype_) : Layout();
  for (int i = 0; i < kPieceSizes; ++i) {
    if (kRowSizes[i] > shape.max_rows) continue;
    for (const bool is_wide : {false, true}) {
      const DType out = is_wide ? DType::kFloat32 : dtype_;
      Product& product = products_[i][is_wide ? 1 : 0];
      product = Product(rows_layout(kRowSizes[i], inner_, dtype_), packed_, bias,
                        rows_layout(kRowSizes[i], columns_, out), false);
      packed_ = product.weights();
      scratch_bytes_ = std::max(scratch_bytes_, product.scratch_bytes());
    }
  }
  const dnnl::engine& engine = onednn_engine();
  reorder_ = dnnl::reorder(dnnl::reorder::primitive_desc(engine, plain_, engine, packed_));
}

int64_t RowProducts::packed_bytes() const {
  return round_up(static_cast<int64_t>(packed_.get_size()), kAlignment);
}

void RowProducts::pack(dnnl::stream& stream, const void* weight, void* packed) const {
  dnnl::memory from = memory_of(plain_, weight), to = memory_of(packed_, packed);
  reorder_.execute(stream, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}});
}

Pieces RowProducts::pieces(int64_t rows) { return {rows, kRowSizes, rows >= kManyRows ? 0 : 1}; }

void RowProducts::run(dnnl::stream& stream, const Piece& piece, Operands o, DType out) const {
  o.source = static_cast<const char*>(o.source) + piece.first * inner_ * dtype_size(dtype_);
  o.out = static_cast<char*>(o.out) + piece.first * columns_ * dtype_size(out);
  products_[piece.size][out == dtype_ ? 0 : 1].run(stream, o);
}

WeightProducts::WeightProducts(const LinearShape& shape)
    : n_(shape.n), k_(shape.k), dtype_(shape.dtype) {
  const int64_t tail = n_ % kTileRows;
  for (int i = 0; i < kPieceSizes; ++i) {
    if (kSumSizes[i] > shape.max_rows) continue;
    if (n_ >= kTileRows) make(products_[i][0], kTileRows, kSumSizes[i]);
    if (tail > 0) make(products_[i][1], tail, kSumSizes[i]);
  }
}

void WeightProducts::make(Product& product, int64_t n, int64_t rows) {
  product = Product(columns_layout(n, rows, dtype_), rows_layout(rows, k_, dtype_), Layout(),
                    rows_layout(n, k_, DType::kFloat32), true);
  scratch_bytes_ = std::max(scratch_bytes_, product.scratch_bytes());
}

int64_t WeightProducts::copy_bytes() const { return kSumSizes[0] * kTileRows * dtype_size(dtype_); }

void WeightProducts::run(dnnl::stream& stream, const LinearBackwardWeight& a, int64_t tile,
                         char* copy, void* scratch) const {
  const int64_t first = tile * kTileRows, width = std::min(kTileRows, n_ - first);
  float* out = a.grad_weight.as<float>() + first * k_;
  if (a.mode == GradientMode::kOverwrite) std::fill_n(out, width * k_, 0.0f);
  const int64_t element = dtype_size(dtype_);
  const Pieces pieces(a.x.rows(), kSumSizes, 0);
  for (int64_t i = 0; i < pieces.count(); ++i) {
    const Piece piece = pieces.at(i);
    const char* grad_y = a.grad_y.as<const char>() + (piece.first * n_ + first) * element;
    for (int64_t row = 0; row < kSumSizes[piece.size]; ++row) {
      std::memcpy(copy + row * width * element, grad_y + row * n_ * element,
                  static_cast<size_t>(width * element));
    }
    const char* x = a.x.as<const char>() + piece.first * k_ * element;
    products_[piece.size][width == kTileRows ? 0 : 1].run(stream, {copy, x, nullptr, out, scratch});
  }
}

}  // namespace plait

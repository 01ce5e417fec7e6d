#include "engine/planner/kernel_sizes.h"

#include <algorithm>
#include <string_view>

namespace plait {
namespace {

constexpr int64_t ceiling(int64_t value, int64_t by) { return (value + by - 1) / by; }

/// Equal blocks of the inner dimension of a product.
struct Inner {
  Inner(int64_t inner, int64_t limit) {
    size = std::min(round_up_to(ceiling(inner, ceiling(inner, limit)), 8), limit);
    count = ceiling(inner, size);
  }
  int64_t size, count;
};

}  // namespace

/// Scratch memory of one thread.
struct KernelSizes::ThreadFloats {
  int64_t panels = 0, strips = 0, sums = 0;

  void grow(const ThreadFloats& other) {
    panels = std::max(panels, round_up_to(other.panels, 16));
    strips = std::max(strips, round_up_to(other.strips, 16));
    sums = std::max(sums, round_up_to(other.sums, 16));
  }
};

KernelSizes::KernelSizes(const Hardware& hardware, DType compute)
    : element_(dtype_size(compute)), threads_(hardware.units) {
  if (hardware.kind != "cpu") return;
  const std::string_view isa = hardware.isa;
  const bool is_wide = isa == "avx512" || isa == "avx512_bf16" || isa == "amx";
  code_ = isa == "baseline" ? Code::kReference : Code::kVector;
  if (isa == "amx" && compute == DType::kBFloat16) code_ = Code::kTiles;
  if (is_wide) {
    blocks_ = {14, 16, 32, 1024, 384, 320 * 1024};
  } else {
    blocks_ = {6, 8, isa == "avx2" ? 16 : 8, 512, 256, 64 * 1024};
  }
}

int64_t KernelSizes::packed_bytes(const LinearShare& linear) const {
  const int64_t n = linear.outputs, k = linear.inputs;
  switch (code_) {
    case Code::kNone:
    case Code::kReference:
      return 0;
    case Code::kVector:
      return round_up_to(n, blocks_.panel_columns) * k * element_;
    case Code::kTiles:  // a form for each direction, in tiles of 64 columns and 32 rows
      return element_ *
             (round_up_to(n, 64) * round_up_to(k, 32) + round_up_to(k, 64) * round_up_to(n, 32));
  }
  return 0;
}

/// out[rows, columns] = A[rows, inner] · B[inner, columns].
KernelSizes::ThreadFloats KernelSizes::row_product(int64_t rows, int64_t inner,
                                                   int64_t columns) const {
  constexpr int64_t kMostRows = 1024;
  const Blocks& b = blocks_;
  const Inner blocks(inner, b.longest);
  const int64_t fitting = b.panel_floats / blocks.size / b.panel_columns * b.panel_columns;
  const int64_t width =
      std::min(std::max(fitting, b.panel_columns), round_up_to(columns, b.panel_columns));
  const int64_t most_rows =
      std::min(kMostRows / b.strip_rows * b.strip_rows, round_up_to(rows, b.strip_rows));
  const int64_t sum_rows = blocks.count == 1 ? b.strip_rows : most_rows;
  return {width * blocks.size, b.strip_rows * (b.longest + 16), sum_rows * width};
}

/// The gradient of a weight with `columns` inputs.
KernelSizes::ThreadFloats KernelSizes::weight_product(int64_t rows, int64_t columns) const {
  const Blocks& b = blocks_;
  const Inner blocks(rows, b.longest_transposed);
  const int64_t strips = 8 * b.strip_pitch;
  const int64_t inner = blocks.count == 1 ? blocks.size : b.longest_transposed;
  const int64_t panels = std::max(b.panel_floats, b.panel_columns * inner);
  return {std::min(panels, round_up_to(columns, b.panel_columns) * inner), strips * inner, strips};
}

int64_t KernelSizes::linear_bytes(const LinearShare& linear, int64_t rows) const {
  const int64_t n = linear.outputs, k = linear.inputs;
  switch (code_) {
    case Code::kNone:
      return 0;
    case Code::kReference:
      return k * int64_t{sizeof(double)};
    case Code::kVector: {
      ThreadFloats most;
      most.grow(row_product(rows, k, n));
      most.grow(row_product(rows, n, k));
      most.grow(weight_product(rows, k));
      return (most.panels + most.strips + most.sums) * kFloatBytes * threads_;
    }
    case Code::kTiles:  // copies of 512 × 256 elements, and what the library asks for at most
      return threads_ * (512 * 256 * element_ + (int64_t{1} << 20));
  }
  return 0;
}

int64_t KernelSizes::attention_bytes(int64_t sequence, int64_t head_size) const {
  if (code_ == Code::kNone) return 0;
  if (code_ == Code::kReference) {
    return (2 * sequence * head_size + head_size + 2 * sequence) * int64_t{sizeof(double)};
  }
  constexpr int64_t kQueries = 48, kForwardKeys = 192, kBackwardKeys = 96, kGroup = 12;
  const int64_t stride = round_up_to(head_size, 16), packed = round_up_to(head_size, 4);
  const int64_t panels = round_up_to(sequence, 32) * packed;
  const auto whole = [](int64_t floats) { return round_up_to(floats, 16); };
  // Queries and their rows in and out, the sums of rows, scores and dropout factors of a tile.
  const auto block = [&](int64_t keys) {
    return whole(kQueries * packed) + 2 * kQueries * stride + kQueries * 16 + kQueries * keys +
           whole(keys + 96);
  };
  const int64_t forward = whole(panels) + sequence * stride + block(kForwardKeys);
  const int64_t backward = 2 * whole(panels) + block(kBackwardKeys) + sequence * stride +
                           2 * (sequence + kGroup) * stride + kQueries * kBackwardKeys +
                           whole(kQueries * packed) + kQueries * stride;
  return threads_ * kFloatBytes * std::max(forward, backward);
}

int64_t KernelSizes::embedding_bytes(int64_t rows, int64_t table_rows) const {
  if (code_ == Code::kNone) return 0;
  if (code_ == Code::kReference) return (rows + table_rows + 1) * int64_t{sizeof(int32_t)};
  return 2 * rows * int64_t{sizeof(uint64_t)};
}

int64_t KernelSizes::norm_bytes(int64_t rows, int64_t hidden) const {
  if (!has_vectors()) return 0;
  const int64_t block = std::clamp<int64_t>(round_up_to(ceiling(rows, 64), 16), 16, 256);
  return ceiling(rows, block) * 3 * hidden * kFloatBytes;
}

}  // namespace plait

#include "kernels/cpu/attention.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention.cc"
#include "hwy/foreach_target.h"  // must come before the next line
#include "hwy/highway.h"
#include "kernels/cpu/attention_backward-inl.h"
#include "kernels/cpu/attention_forward-inl.h"

#if HWY_ONCE
#include "kernels/cpu/attention_plan.h"
#include "kernels/cpu/dispatch.h"

namespace plait {
namespace {

PLAIT_CPU_EXPORT(attention_forward_unit);
PLAIT_CPU_EXPORT(attention_backward_unit);

/// Units that a forward call hands out for each thread, at least: more than one, since the last to
/// end is waited for.
constexpr int64_t kUnitsPerThread = 4;

/// First query block of piece `piece` of `pieces` of about equal work: the work up to a block grows
/// with its square.
int64_t piece_start(int64_t blocks, int64_t piece, int64_t pieces) {
  const double share = std::sqrt(static_cast<double>(piece) / static_cast<double>(pieces));
  return std::llround(static_cast<double>(blocks) * share);
}

class VectorAttention final : public AttentionKernel {
 public:
  const char* name() const override { return "highway"; }

  bool supports(const AttentionShape& shape, DType dtype, IsaLevel isa) const override {
    return has_vector_code(isa) && shape.head_size >= 1 &&
           (dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16);
  }

  int64_t workspace_bytes(const AttentionShape& shape, DType, int threads) const override {
    return threads * std::max(attention_scratch(shape, false, nullptr).bytes,
                              attention_scratch(shape, true, nullptr).bytes);
  }

  void forward(OpContext& context, const AttentionForward& arguments,
               void* workspace) const override {
    const AttentionShape& shape = arguments.shape;
    const int64_t heads = shape.batch * shape.key_value_heads;
    const int64_t blocks = (shape.sequence + kAttentionBlock - 1) / kAttentionBlock;
    if (heads == 0 || blocks == 0) return;
    const int threads = context.pool().threads();
    const int64_t wanted = threads == 1 ? 1 : (kUnitsPerThread * threads + heads - 1) / heads;
    const int64_t pieces = std::min(wanted, blocks);
    const int64_t bytes = attention_scratch(shape, false, nullptr).bytes;
    const auto run = attention_forward_unit_by_isa[dispatch_index(context.device.isa())];
    const auto unit_of = [&](int64_t chunk) -> AttentionUnit {
      if (chunk >= heads * pieces) return {};
      const int64_t head = chunk / pieces, piece = chunk % pieces;
      return {head / shape.key_value_heads, head % shape.key_value_heads,
              piece_start(blocks, piece, pieces) * kAttentionBlock,
              std::min(piece_start(blocks, piece + 1, pieces) * kAttentionBlock, shape.sequence)};
    };
    context.pool().run(heads * pieces, [&](int64_t chunk, int worker) {
      const AttentionUnit unit = unit_of(chunk);
      if (unit.first_query >= unit.end_query) return;
      run(arguments, unit, unit_of(chunk + threads),
          static_cast<char*>(workspace) + worker * bytes);
    });
  }

  void backward(OpContext& context, const AttentionBackward& arguments,
                void* workspace) const override {
    const AttentionShape& shape = arguments.shape;
    const int64_t bytes = attention_scratch(shape, true, nullptr).bytes;
    const auto run = attention_backward_unit_by_isa[dispatch_index(context.device.isa())];
    const int64_t heads = shape.batch * shape.key_value_heads;
    const int64_t threads = context.pool().threads();
    const auto unit_of = [&](int64_t chunk) -> AttentionUnit {
      if (chunk >= heads) return {};
      return {chunk / shape.key_value_heads, chunk % shape.key_value_heads, 0, shape.sequence};
    };
    context.pool().run(heads, [&](int64_t chunk, int worker) {
      run(arguments, unit_of(chunk), unit_of(chunk + threads),
          static_cast<char*>(workspace) + worker * bytes);
    });
  }
};

}  // namespace

AttentionScratch attention_scratch(const AttentionShape& shape, bool is_backward, void* base) {
  AttentionScratch scratch;
  float* const start = static_cast<float*>(base);
  int64_t used = 0;
  const auto take = [&](int64_t floats) {
    float* const data = start == nullptr ? nullptr : start + used;
    used += attention_round_up(floats, 16);
    return data;
  };
  const int64_t stride = attention_stride(shape), packed = attention_round_up(shape.head_size, 4);
  const int64_t padded = attention_round_up(shape.sequence, kAttentionPanel);
  const int64_t tile = is_backward ? kAttentionBackwardTile : kAttentionForwardTile;
  scratch.key_panels = take(padded * packed);
  scratch.values = take(is_backward ? padded * packed : shape.sequence * stride);
  scratch.query_panel = take(kAttentionBlock * packed);
  scratch.rows = take(kAttentionBlock * stride);
  scratch.scores = take(kAttentionBlock * tile);
  scratch.output = take(kAttentionBlock * stride);
  scratch.sums = take(kAttentionBlock * 16);
  scratch.factors = take(tile + 96);
  if (is_backward) {
    scratch.keys = take(shape.sequence * stride);
    scratch.grad_keys = take((shape.sequence + kAttentionGroup) * stride);
    scratch.grad_values = take((shape.sequence + kAttentionGroup) * stride);
    scratch.grad_scores = take(kAttentionBlock * tile);
    scratch.grad_panel = take(kAttentionBlock * packed);
    scratch.grad_rows = take(kAttentionBlock * stride);
  }
  scratch.bytes = used * static_cast<int64_t>(sizeof(float));
  return scratch;
}

std::vector<const AttentionKernel*> attention_kernels() {
  static const VectorAttention vector_attention;
  return {&vector_attention};
}

}  // namespace plait
#endif  // HWY_ONCE

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>

#include "hwy/cache_control.h"
#include "kernels/cpu/dispatch.h"
#include "kernels/cpu/vector_kernels.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/embedding.cc"
#include "hwy/foreach_target.h"  // before highway.h
#include "hwy/highway.h"
#include "kernels/cpu/residual_norm_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

/// The row before positions: null where the token's row lies in another shard.
template <class C>
const C* token_row(const EmbeddingForward& a, int64_t row) {
  const int64_t hidden = a.y.columns();
  if (a.token_rows.is_present()) return a.token_rows.as<C>() + row * hidden;
  const int64_t id = int64_t{a.tokens[row]} - a.first_id;
  const bool is_owned = id >= 0 && id < a.token_weight.rows();
  return is_owned ? a.token_weight.as<C>() + id * hidden : nullptr;
}

template <class C, class R>
void look_up_row(const EmbeddingForward& a, int64_t row) {
  const FloatTag d;
  alignas(64) float buffer[kDropoutColumns + kDropoutSlack];
  const int64_t hidden = a.y.columns(), at = a.first_row + row;
  const int64_t position = a.positions != nullptr ? a.positions[row] : at % a.sequence;
  const C* tokens = token_row<C>(a, row);
  if (tokens == nullptr) {
    void* y = a.y.as<R>() + row * hidden;
    std::memset(y, 0, static_cast<size_t>(hidden) * sizeof(R));
    return;
  }
  for (int64_t first = 0; first < hidden; first += kDropoutColumns) {
    const int64_t rest = hidden - first, count = rest < kDropoutColumns ? rest : kDropoutColumns;
    const float* factors = row_factors(a.dropout, a.sequence, hidden, at, first, count, buffer);
    const C* token = tokens + first;
    const C* place = a.position_weight.is_present()
                         ? a.position_weight.as<C>() + position * hidden + first
                         : nullptr;
    R* y = a.y.as<R>() + row * hidden + first;
    for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
      FloatVector v = load(d, token + i, lanes);
      if (place != nullptr) v = hn::Add(v, load(d, place + i, lanes));
      if (factors != nullptr) v = hn::Mul(v, load(d, factors + i, lanes));
      store(d, v, y + i, lanes);
    });
  }
}

void look_up_rows(const EmbeddingForward& a, int64_t first, int64_t last) {
  const DType compute = (a.token_rows.is_present() ? a.token_rows : a.token_weight).dtype;
  visit_storage(compute, a.y.dtype, [&](auto c, auto r) {
    using C = typename decltype(c)::type;
    using R = typename decltype(r)::type;
    for (int64_t row = first; row < last; ++row) look_up_row<C, R>(a, row);
  });
}

/// The rows of one id, summed in ascending order before the sum is stored or added once: a
/// micro-batch seen twice gives exactly twice its gradient.
template <class R>
void add_grad_rows(const EmbeddingBackward& a, const uint64_t* pair, const uint64_t* end,
                   float* out) {
  const FloatTag d;
  alignas(64) float buffer[kDropoutColumns + kDropoutSlack];
  alignas(64) float sum[kDropoutColumns];
  const int64_t hidden = a.grad_y.columns();
  const bool is_adding = a.mode == GradientMode::kAccumulate;
  for (int64_t first = 0; first < hidden; first += kDropoutColumns) {
    const int64_t rest = hidden - first, count = rest < kDropoutColumns ? rest : kDropoutColumns;
    for (const uint64_t* it = pair; it != end; ++it) {
      const auto row = static_cast<int64_t>(*it & 0xFFFFFFFFu);
      const float* factors =
          row_factors(a.dropout, a.sequence, hidden, a.first_row + row, first, count, buffer);
      const R* grad = a.grad_y.as<R>() + row * hidden + first;
      const bool is_first = it == pair, is_last = it + 1 == end;
      float* to = is_last ? out + first : sum;
      for_vectors(d, count, [&](int64_t i, auto lanes) PLAIT_VECTOR_LAMBDA {
        FloatVector v = load(d, grad + i, lanes);
        if (factors != nullptr) v = hn::Mul(v, load(d, factors + i, lanes));
        if (!is_first) v = hn::Add(load(d, sum + i, lanes), v);
        if (is_last && is_adding) v = hn::Add(load(d, to + i, lanes), v);
        store(d, v, to + i, lanes);
      });
    }
  }
}

/// Zeroes a row that nothing reads soon: past the caches where alignment allows.
void clear_row(float* out, int64_t count) {
  const FloatTag d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  if (reinterpret_cast<uintptr_t>(out) % 64 != 0 || count % step != 0) {
    std::memset(out, 0, static_cast<size_t>(count) * sizeof(float));
    return;
  }
  for (int64_t i = 0; i < count; i += step) hn::Stream(hn::Zero(d), d, out + i);
}

/// Rows [first, last) of one table's gradient. The pairs id·2³² + row ascend; the first is that of
/// the first row, if any names it.
void add_table_rows(const EmbeddingBackward& a, const TensorView& table, const uint64_t* pair,
                    const uint64_t* end, int64_t first, int64_t last) {
  const int64_t hidden = table.columns();
  const bool is_overwriting = a.mode == GradientMode::kOverwrite;
  visit_storage(a.grad_y.dtype, [&](auto r) {
    using R = typename decltype(r)::type;
    for (int64_t id = first; id < last; ++id) {
      float* out = table.as<float>() + id * hidden;
      const uint64_t* start = pair;
      while (pair != end && static_cast<int64_t>(*pair >> 32) == id) ++pair;
      if (pair != start) {
        add_grad_rows<R>(a, start, pair, out);
      } else if (is_overwriting) {
        clear_row(out, hidden);
      }
    }
  });
  hwy::FlushStream();
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#if HWY_ONCE

namespace plait {
namespace {

PLAIT_CPU_EXPORT(look_up_rows);
PLAIT_CPU_EXPORT(add_table_rows);

/// Sorts `count` pairs by their upper halves, all below `keys`, keeping the order of equal ones:
/// a radix sort by 11 bits at a time. Returns where they lie: `pairs` or `spare`.
uint64_t* sort_pairs(uint64_t* pairs, uint64_t* spare, int64_t count, int64_t keys) {
  constexpr int kDigit = 11;
  const int bits = std::bit_width(static_cast<uint64_t>(keys < 2 ? 1 : keys - 1));
  for (int shift = 32; shift < 32 + bits; shift += kDigit) {
    int64_t starts[(1 << kDigit) + 1] = {};
    const auto digit = [&](uint64_t pair) { return (pair >> shift) & ((1u << kDigit) - 1); };
    for (int64_t i = 0; i < count; ++i) ++starts[digit(pairs[i]) + 1];
    for (int i = 0; i < (1 << kDigit); ++i) starts[i + 1] += starts[i];
    for (int64_t i = 0; i < count; ++i) spare[starts[digit(pairs[i])]++] = pairs[i];
    std::swap(pairs, spare);
  }
  return pairs;
}

class VectorEmbedding : public EmbeddingKernel {
 public:
  const char* name() const override { return "vector"; }
  bool supports(DType compute, DType residual, IsaLevel isa) const override {
    return has_vector_code(isa) && is_vector_pair(compute, residual);
  }
  int64_t workspace_bytes(int64_t rows, int64_t) const override {
    return 2 * rows * static_cast<int64_t>(sizeof(uint64_t));
  }

  void forward(OpContext& context, const EmbeddingForward& a) const override {
    const auto function = PLAIT_CPU_CALL(look_up_rows, context.device.isa());
    context.pool().run_range(a.y.rows(), rows_per_task(a.y.columns()),
                             [&](int64_t first, int64_t last, int) { function(a, first, last); });
  }

  void backward(OpContext& context, const EmbeddingBackward& a, void* workspace) const override {
    auto* pairs = static_cast<uint64_t*>(workspace);
    if (a.grad_token.is_present()) {
      backward_table(context, a, a.grad_token, pairs,
                     [&](int64_t row) { return int64_t{a.tokens[row]} - a.first_id; });
    }
    if (a.grad_position.is_present()) {
      backward_table(context, a, a.grad_position, pairs, [&](int64_t row) {
        return a.positions != nullptr ? int64_t{a.positions[row]}
                                      : (a.first_row + row) % a.sequence;
      });
    }
  }

 private:
  template <class IdOf>
  static void backward_table(OpContext& context, const EmbeddingBackward& a,
                             const TensorView& table, uint64_t* pairs, IdOf id_of) {
    const auto function = PLAIT_CPU_CALL(add_table_rows, context.device.isa());
    const int64_t rows = a.grad_y.rows(), ids = table.rows();
    int64_t owned = 0;
    for (int64_t row = 0; row < rows; ++row) {
      const int64_t id = id_of(row);
      if (id < 0 || id >= ids) continue;
      pairs[owned++] = static_cast<uint64_t>(id) << 32 | static_cast<uint64_t>(row);
    }
    const uint64_t* sorted = sort_pairs(pairs, pairs + rows, owned, ids);
    const int64_t grain = std::clamp<int64_t>(ids / 256, 1, 64);
    context.pool().run_range(ids, grain, [&](int64_t first, int64_t last, int) {
      const auto key = static_cast<uint64_t>(first) << 32;
      const uint64_t* pair = std::lower_bound(sorted, sorted + owned, key);
      function(a, table, pair, sorted + owned, first, last);
    });
  }
};

}  // namespace

const EmbeddingKernel& vector_embedding() {
  static const VectorEmbedding kernel;
  return kernel;
}

}  // namespace plait
#endif  // HWY_ONCE

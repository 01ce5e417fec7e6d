#include "kernels/ops/embedding.h"

#include <algorithm>

#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

int64_t position_of(const int32_t* positions, int64_t row, int64_t sequence) {
  return positions != nullptr ? positions[row] : row % sequence;
}

/// Masks follow the place in the row of the batch, not the position that a document restarts.
double factor(const Dropout& dropout, int64_t row, int64_t sequence, int64_t column,
              int64_t hidden) {
  if (!dropout.is_active()) return 1.0;
  const int64_t sample = dropout.first_sample + row / sequence;
  const int64_t element = (row % sequence) * hidden + column;
  return dropout_factor(dropout, static_cast<uint64_t>(sample), static_cast<uint64_t>(element));
}

template <class C, class R>
void forward_loop(const EmbeddingForward& a) {
  const int64_t hidden = a.y.columns();
  for (int64_t row = 0; row < a.y.rows(); ++row) {
    const C* token = a.token_weight.as<C>() + int64_t{a.tokens[row]} * hidden;
    const int64_t position = position_of(a.positions, row, a.sequence);
    for (int64_t i = 0; i < hidden; ++i) {
      double x = load(token, i);
      if (a.position_weight.is_present()) {
        x += load(a.position_weight.as<C>(), position * hidden + i);
      }
      store(a.y.as<R>(), row * hidden + i, x * factor(a.dropout, row, a.sequence, i, hidden));
    }
  }
}

/// Row `id` of a table's gradient from the rows listed in [first, last).
template <class R>
void add_rows(const EmbeddingBackward& a, const TensorView& table, int64_t id, const int32_t* first,
              const int32_t* last) {
  if (first == last && a.mode == GradientMode::kAccumulate) return;
  const int64_t hidden = a.grad_y.columns();
  float* out = table.as<float>() + id * hidden;
  for (int64_t i = 0; i < hidden; ++i) {
    double sum = a.mode == GradientMode::kAccumulate ? out[i] : 0.0;
    for (const int32_t* row = first; row != last; ++row) {
      sum += load(a.grad_y.as<R>(), *row * hidden + i) *
             factor(a.dropout, *row, a.sequence, i, hidden);
    }
    store(out, i, sum);
  }
}

/// One table's gradient: rows sorted by id, ascending within an id. `scratch` holds `rows` numbers,
/// then one for each table row and one more.
template <class R, class IdOf>
void backward_table(const EmbeddingBackward& a, const TensorView& table, IdOf id_of,
                    int32_t* scratch) {
  if (!table.is_present()) return;
  const int64_t rows = a.grad_y.rows();
  int32_t* order = scratch;
  int32_t* ends = scratch + rows;
  std::fill(ends, ends + table.rows() + 1, 0);
  for (int64_t row = 0; row < rows; ++row) ++ends[id_of(row) + 1];
  for (int64_t id = 0; id < table.rows(); ++id) ends[id + 1] += ends[id];
  for (int64_t row = 0; row < rows; ++row) {
    order[ends[id_of(row)]++] = static_cast<int32_t>(row);
  }
  int64_t first = 0;
  for (int64_t id = 0; id < table.rows(); ++id) {
    add_rows<R>(a, table, id, order + first, order + ends[id]);
    first = ends[id];
  }
}

class ReferenceEmbedding : public EmbeddingKernel {
 public:
  const char* name() const override { return "reference"; }
  bool supports(DType compute, DType residual, IsaLevel) const override {
    return is_floating(compute) && is_floating(residual);
  }
  int64_t workspace_bytes(int64_t rows, int64_t table_rows) const override {
    return (rows + table_rows + 1) * static_cast<int64_t>(sizeof(int32_t));
  }

  void forward(OpContext&, const EmbeddingForward& a) const override {
    visit_dtypes(a.token_weight.dtype, a.y.dtype, [&](auto c, auto r) {
      forward_loop<typename decltype(c)::type, typename decltype(r)::type>(a);
    });
  }

  void backward(OpContext&, const EmbeddingBackward& a, void* workspace) const override {
    auto* scratch = static_cast<int32_t*>(workspace);
    visit_dtype(a.grad_y.dtype, [&](auto r) {
      using R = typename decltype(r)::type;
      const auto token = [&](int64_t row) { return int64_t{a.tokens[row]}; };
      const auto position = [&](int64_t row) { return position_of(a.positions, row, a.sequence); };
      backward_table<R>(a, a.grad_token, token, scratch);
      backward_table<R>(a, a.grad_position, position, scratch);
    });
  }
};

}  // namespace

const EmbeddingKernel& reference_embedding() {
  static const ReferenceEmbedding kernel;
  return kernel;
}

}  // namespace plait

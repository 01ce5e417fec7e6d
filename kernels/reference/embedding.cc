#include "kernels/ops/embedding.h"

#include <algorithm>

#include "kernels/reference/dispatch.h"
#include "kernels/reference/reference_lists.h"

namespace plait {
namespace {

template <class Call>
int64_t position_of(const Call& a, int64_t row) {
  return a.positions != nullptr ? a.positions[row] : (a.first_row + row) % a.sequence;
}

/// Masks follow the place in the row of the batch, not the position that a document restarts.
template <class Call>
double factor(const Call& a, int64_t row, int64_t column, int64_t hidden) {
  if (!a.dropout.is_active()) return 1.0;
  const int64_t place = a.first_row + row;
  const int64_t sample = a.dropout.first_sample + place / a.sequence;
  const int64_t element = place % a.sequence * hidden + column;
  return dropout_factor(a.dropout, static_cast<uint64_t>(sample), static_cast<uint64_t>(element));
}

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
void forward_loop(const EmbeddingForward& a) {
  const int64_t hidden = a.y.columns();
  for (int64_t row = 0; row < a.y.rows(); ++row) {
    const C* token = token_row<C>(a, row);
    const int64_t position = position_of(a, row);
    for (int64_t i = 0; i < hidden; ++i) {
      double x = token != nullptr ? load(token, i) : 0.0;
      if (a.position_weight.is_present()) {
        x += load(a.position_weight.as<C>(), position * hidden + i);
      }
      store(a.y.as<R>(), row * hidden + i, x * factor(a, row, i, hidden));
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
      sum += load(a.grad_y.as<R>(), *row * hidden + i) * factor(a, *row, i, hidden);
    }
    store(out, i, sum);
  }
}

/// One table's gradient: rows sorted by table row, ascending within one; rows that id_of puts
/// outside the table are skipped. `scratch` holds `rows` numbers, then one for each table row and
/// one more.
template <class R, class IdOf>
void backward_table(const EmbeddingBackward& a, const TensorView& table, IdOf id_of,
                    int32_t* scratch) {
  if (!table.is_present()) return;
  const int64_t rows = a.grad_y.rows();
  int32_t* order = scratch;
  int32_t* ends = scratch + rows;
  std::fill(ends, ends + table.rows() + 1, 0);
  const auto is_owned = [&](int64_t row) { return id_of(row) >= 0 && id_of(row) < table.rows(); };
  for (int64_t row = 0; row < rows; ++row) {
    if (is_owned(row)) ++ends[id_of(row) + 1];
  }
  for (int64_t id = 0; id < table.rows(); ++id) ends[id + 1] += ends[id];
  for (int64_t row = 0; row < rows; ++row) {
    if (is_owned(row)) order[ends[id_of(row)]++] = static_cast<int32_t>(row);
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
    const DType compute = (a.token_rows.is_present() ? a.token_rows : a.token_weight).dtype;
    visit_dtypes(compute, a.y.dtype, [&](auto c, auto r) {
      forward_loop<typename decltype(c)::type, typename decltype(r)::type>(a);
    });
  }

  void backward(OpContext&, const EmbeddingBackward& a, void* workspace) const override {
    auto* scratch = static_cast<int32_t*>(workspace);
    visit_dtype(a.grad_y.dtype, [&](auto r) {
      using R = typename decltype(r)::type;
      const auto token = [&](int64_t row) { return int64_t{a.tokens[row]} - a.first_id; };
      const auto position = [&](int64_t row) { return position_of(a, row); };
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

// Column and row linears against the whole one, by the formulas of Megatron-LM and of sequence
// parallelism.
#include <catch2/catch.hpp>

#include "engine/tensor_parallel/column_linear.h"
#include "engine/tensor_parallel/row_linear.h"
#include "tests/engine/tensor_parallel/parallel_rig.h"

using namespace plait;
using namespace plait::test;

namespace {

/// Sizes of one linear: M rows, N outputs, K inputs, all before they are cut.
struct Sizes {
  int64_t rows, outputs, inputs;
};

struct Results {
  std::vector<float> y, grad_x, grad_weight, grad_bias;
};

/// Views of vectors that stay where they are.
TensorView view(std::vector<float>& values, const Shape& shape) {
  return {values.data(), DType::kFloat32, shape};
}

struct Problem {
  Sizes sizes;
  std::vector<float> x = random_values(sizes.rows * sizes.inputs, 1);
  std::vector<float> weight = random_values(sizes.outputs * sizes.inputs, 2, 0.3);
  std::vector<float> bias = random_values(sizes.outputs, 3);
  std::vector<float> grad_y = random_values(sizes.rows * sizes.outputs, 4);

  Box box(int64_t first_row, int64_t rows, int64_t first_column, int64_t columns) const {
    Box out = Box::whole({rows, columns});
    out.first = {first_row, first_column, 0, 0};
    return out;
  }
};

/// What differs between the kinds of linear: which part of each tensor is where.
struct Cut {
  Box x, y, weight, bias;
};

Cut column_cut(const Problem& p, const TensorGroup& group) {
  const auto [m, n, k] = p.sizes;
  const int64_t part = n / group.size, first = group.index * part;
  Cut cut{p.box(group.first_row(m), group.local_rows(m), 0, k), p.box(0, m, first, part),
          p.box(first, part, 0, k), Box::whole({part})};
  cut.bias.first[0] = first;
  return cut;
}

Cut row_cut(const Problem& p, const TensorGroup& group) {
  const auto [m, n, k] = p.sizes;
  const int64_t part = k / group.size, first = group.index * part;
  return {p.box(0, m, first, part), p.box(group.first_row(m), group.local_rows(m), 0, n),
          p.box(0, n, first, part), Box::whole({0})};
}

/// One rank's forward and backward pass; with `is_apart` the parts of backward run one by one.
Results run_linear(const Problem& p, const TensorGroup& group, Device& device, const Cut& part,
                   bool is_row, bool is_apart) {
  const auto [m, n, k] = p.sizes;
  const auto shape_of = [](const Box& box) { return Shape{box.size[0], box.size[1]}; };
  Unit unit("linear");
  Parameter* weight = unit.add(shape_of(part.weight), {});
  Parameter* bias = is_row ? nullptr : unit.add({part.bias.size[0]}, {});
  unit.seal(DType::kFloat32, 1);
  const UnitMemory memory(unit, device);
  const auto put = [](const std::vector<float>& values, TensorView to) {
    std::copy(values.begin(), values.end(), to.as<float>());
  };
  put(cut(p.weight, {n, k}, part.weight), weight->weight);
  if (bias != nullptr) put(cut(p.bias, {n}, part.bias), bias->weight);
  std::vector<float> x = cut(p.x, {m, k}, part.x), grad_y = cut(p.grad_y, {m, n}, part.y);
  std::vector<float> y(grad_y.size()), grad_x(x.size());
  std::unique_ptr<LinearLayer> linear;
  if (group.size == 1) {
    linear = std::make_unique<Linear>(weight, bias);
  } else if (is_row) {
    linear = std::make_unique<RowLinear>(weight, group);
  } else {
    linear = std::make_unique<ColumnLinear>(weight, bias, group);
  }
  run_measured(device, [&, rows = m](OpContext& context) {
    if (context.is_measuring()) linear->prepare(context, rows);
    linear->weights_changed(context);
    Pass pass{context, 1, rows};
    pass.row_parts = group.is_sequence_parallel ? group.size : 1;
    pass.first_row = group.first_row(rows);
    LinearState state;
    linear->forward(pass, view(x, shape_of(part.x)), view(y, shape_of(part.y)), state);
    const TensorView to = view(grad_x, shape_of(part.x)), from = view(grad_y, shape_of(part.y));
    if (is_apart) {
      linear->backward_input(pass, from, to, state);
      linear->backward_weight(pass, state);
    } else {
      linear->backward(pass, from, to, state);
    }
  });
  const auto copy = [](const TensorView& from) {
    return std::vector<float>(from.as<float>(), from.as<float>() + from.elements());
  };
  return {y, grad_x, copy(weight->gradient),
          bias != nullptr ? copy(bias->gradient) : std::vector<float>()};
}

void check_linear(const Sizes& sizes, bool is_row) {
  const Problem problem{sizes};
  Results whole;
  run_group({1}, [&](const TensorGroup& group, Device& device) {
    const Cut all = is_row ? row_cut(problem, group) : column_cut(problem, group);
    whole = run_linear(problem, group, device, all, is_row, false);
  });
  const auto [m, n, k] = sizes;
  for (const int64_t t : {2, 4}) {
    for (const bool is_sequence_parallel : {false, true}) {
      if (is_sequence_parallel && m % t != 0) continue;
      std::vector<Results> first(static_cast<size_t>(t));
      for (const auto& [is_overlapping, is_apart] :
           {std::pair{true, false}, {false, false}, {true, true}}) {
        const GroupLayout layout{t, is_sequence_parallel, is_overlapping};
        INFO((is_row ? "row " : "column ")
             << layout.text() << ", rows " << m << ", apart " << is_apart);
        std::vector<Results> got(static_cast<size_t>(t));
        std::vector<Cut> cuts(static_cast<size_t>(t));
        run_group(layout, [&, apart = is_apart](const TensorGroup& group, Device& device) {
          const auto rank = static_cast<size_t>(group.index);
          cuts[rank] = is_row ? row_cut(problem, group) : column_cut(problem, group);
          got[rank] = run_linear(problem, group, device, cuts[rank], is_row, apart);
        });
        for (size_t rank = 0; rank < got.size(); ++rank) {
          INFO("rank " << rank);
          const Results& result = got[rank];
          CHECK(relative_difference(result.y, cut(whole.y, {m, n}, cuts[rank].y)) < 2e-6);
          CHECK(relative_difference(result.grad_x, cut(whole.grad_x, {m, k}, cuts[rank].x)) < 2e-6);
          CHECK(relative_difference(result.grad_weight,
                                    cut(whole.grad_weight, {n, k}, cuts[rank].weight)) < 2e-6);
          if (!is_row) {
            CHECK(relative_difference(result.grad_bias,
                                      cut(whole.grad_bias, {n}, cuts[rank].bias)) < 2e-6);
          }
          if (first[rank].y.empty()) first[rank] = result;
          CHECK(same_bits(result.y, first[rank].y));
          CHECK(same_bits(result.grad_x, first[rank].grad_x));
          CHECK(same_bits(result.grad_weight, first[rank].grad_weight));
        }
        for (const Results& result : got) {  // what all hold is the same to the bit
          if (is_sequence_parallel) continue;
          CHECK(same_bits(is_row ? result.y : result.grad_x, is_row ? got[0].y : got[0].grad_x));
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("a column linear's parts are the whole", "[tensor_parallel]") {
  check_linear({12, 20, 7}, false);
  check_linear({1, 4, 3}, false);
  check_linear({64, 96, 33}, false);
}

TEST_CASE("traps 9, 12: a row linear's parts are the whole", "[tensor_parallel]") {
  check_linear({12, 7, 20}, true);
  check_linear({1, 3, 4}, true);
  check_linear({64, 33, 96}, true);
}

TEST_CASE("collectives of a linear pair move what the papers count", "[tensor_parallel]") {
  // Forward and backward of a column and a row linear, rows·h elements each: without sequence
  // parallel one all-reduce each way; with it 1 + 1 forward and (2 + 1) backward.
  constexpr int64_t kRows = 16, kWidth = 8;
  const Problem column{{kRows, kWidth, kWidth}}, row{{kRows, kWidth, kWidth}};
  for (const bool is_sequence_parallel : {false, true}) {
    std::vector<int64_t> calls(3);
    run_group({2, is_sequence_parallel}, [&](const TensorGroup& group, Device& device) {
      run_linear(column, group, device, column_cut(column, group), false, false);
      run_linear(row, group, device, row_cut(row, group), true, false);
      if (group.index != 0) return;
      for (const CollectiveKind kind : {CollectiveKind::kAllReduce, CollectiveKind::kAllGather,
                                        CollectiveKind::kReduceScatter}) {
        const Traffic traffic = group.communicator->traffic(kind);
        calls[kind == CollectiveKind::kAllReduce   ? 0
              : kind == CollectiveKind::kAllGather ? 1
                                                   : 2] = traffic.bytes;
      }
    });
    INFO("sequence parallel " << is_sequence_parallel);
    CHECK((calls[0] > 0) == !is_sequence_parallel);
    // Two ranks: a gather sends the own half to one peer, so does a scatter.
    const int64_t half = kRows * kWidth / 2 * 4;
    CHECK(calls[1] == (is_sequence_parallel ? 3 * half : 0));
    CHECK(calls[2] == (is_sequence_parallel ? 2 * half : 0));
  }
}

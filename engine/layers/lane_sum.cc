#include "engine/layers/lane_sum.h"

#include "kernels/ops/span.h"

namespace plait {

void add_tree(const Pass& pass, size_t first, size_t count, TensorView sum,
              FunctionRef<void(size_t, TensorView)> term) {
  if (count == 1) return term(first, sum);
  Workspace::Frame frame(pass.context.workspace);
  const TensorView right = frame.tensor(sum.dtype, sum.shape);
  add_tree(pass, first, count / 2, sum, term);
  add_tree(pass, first + count / 2, count / 2, right, term);
  const Shape flat{sum.elements()};
  add_span(pass.context, right.reshaped(flat), sum.reshaped(flat));
}

}  // namespace plait

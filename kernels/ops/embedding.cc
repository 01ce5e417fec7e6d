#include "kernels/ops/embedding.h"

#include <algorithm>

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {
namespace {

const EmbeddingKernel& choose(const char* op, const OpContext& context, DType compute,
                              DType residual) {
  const IsaLevel isa = context.device.isa();
  return pick(op, context.kernels.embedding, [&](const EmbeddingKernel& kernel) {
    return kernel.supports(compute, residual, isa);
  });
}

/// Positions of `rows` rows lie in a table of `longest` rows.
void check_positions(const Arguments& check, const int32_t* positions, int64_t rows,
                     int64_t sequence, int64_t longest) {
  if (positions != nullptr) {
    check.indices("positions", positions, rows, 0, longest);
  } else {
    check.require(std::min(rows, sequence) <= longest,
                  "the sequence is no longer than the table of positions");
  }
}

}  // namespace

void embedding_forward(OpContext& context, const EmbeddingForward& arguments) {
  constexpr const char* kOp = "embedding_forward";
  const Arguments check(kOp, context);
  const TensorView& table = arguments.token_weight;
  check.floating("token_weight", table, 2);
  check.floating("y", arguments.y, 2);
  const int64_t rows = arguments.y.rows();
  check.tensor("y", arguments.y, arguments.y.dtype, {rows, table.columns()});
  check.wide_or("y", arguments.y.dtype, table.dtype);
  check.require(arguments.sequence > 0, "the sequence length is positive");
  check.pointer("tokens", arguments.tokens);
  check.indices("tokens", arguments.tokens, rows, 0, table.rows());
  if (arguments.position_weight.is_present()) {
    check.floating("position_weight", arguments.position_weight, 2);
    const int64_t longest = arguments.position_weight.rows();
    check.tensor("position_weight", arguments.position_weight, table.dtype,
                 {longest, table.columns()});
    check_positions(check, arguments.positions, rows, arguments.sequence, longest);
  }
  context.check_aborted();
  const EmbeddingKernel& kernel = choose(kOp, context, table.dtype, arguments.y.dtype);
  if (!context.is_measuring()) kernel.forward(context, arguments);
}

void embedding_backward(OpContext& context, const EmbeddingBackward& arguments) {
  constexpr const char* kOp = "embedding_backward";
  const Arguments check(kOp, context);
  const TensorView& grad_y = arguments.grad_y;
  check.floating("grad_y", grad_y, 2);
  check.require(arguments.sequence > 0, "the sequence length is positive");
  int64_t table_rows = 0;
  if (arguments.grad_token.is_present()) {
    check.floating("grad_token", arguments.grad_token, 2);
    table_rows = arguments.grad_token.rows();
    check.tensor("grad_token", arguments.grad_token, DType::kFloat32,
                 {table_rows, grad_y.columns()});
    check.pointer("tokens", arguments.tokens);
    check.indices("tokens", arguments.tokens, grad_y.rows(), 0, table_rows);
  }
  if (arguments.grad_position.is_present()) {
    check.floating("grad_position", arguments.grad_position, 2);
    const int64_t longest = arguments.grad_position.rows();
    check.tensor("grad_position", arguments.grad_position, DType::kFloat32,
                 {longest, grad_y.columns()});
    check_positions(check, arguments.positions, grad_y.rows(), arguments.sequence, longest);
    table_rows = std::max(table_rows, longest);
  }
  context.check_aborted();
  const EmbeddingKernel& kernel = choose(kOp, context, grad_y.dtype, grad_y.dtype);
  Workspace::Frame frame(context.workspace);
  void* workspace = frame.take(kernel.workspace_bytes(grad_y.rows(), table_rows));
  if (!context.is_measuring()) kernel.backward(context, arguments, workspace);
}

}  // namespace plait

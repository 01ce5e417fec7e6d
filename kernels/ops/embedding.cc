#include "kernels/ops/embedding.h"

#include <algorithm>

#include "kernels/ops/arguments.h"
#include "kernels/ops/kernels.h"

namespace plait {
namespace {

const EmbeddingKernel& embedding_kernel(const char* op, const OpContext& context, DType compute,
                                        DType residual) {
  const IsaLevel isa = context.device.isa();
  return pick(op, context.kernels.embedding, [&](const EmbeddingKernel& kernel) {
    return kernel.supports(compute, residual, isa);
  });
}

/// Positions of `rows` rows lie in a table of `longest` rows.
template <class Call>
void check_positions(const Arguments& check, const Call& arguments, int64_t rows, int64_t longest) {
  if (arguments.positions != nullptr) {
    check.indices("positions", arguments.positions, rows, 0, longest);
  } else {
    check.require(std::min(arguments.first_row + rows, arguments.sequence) <= longest,
                  "the sequence is no longer than the table of positions");
  }
}

/// Ids that exist, of which a table of `table_rows` rows is a shard.
template <class Call>
int64_t id_count(const Call& arguments, int64_t table_rows) {
  return arguments.vocabulary > 0 ? arguments.vocabulary : table_rows;
}

template <class Call>
void check_shard(const Arguments& check, const Call& arguments) {
  check.require(arguments.first_id >= 0 && arguments.vocabulary >= 0, "ids start at 0");
  check.require(arguments.vocabulary > 0 || arguments.first_id == 0, "a whole table starts at 0");
}

}  // namespace

void embedding_forward(OpContext& context, const EmbeddingForward& arguments) {
  constexpr const char* kOp = "embedding_forward";
  const Arguments check(kOp, context);
  const bool has_rows = arguments.token_rows.is_present();
  const TensorView& table = has_rows ? arguments.token_rows : arguments.token_weight;
  check.floating(has_rows ? "token_rows" : "token_weight", table, 2);
  check.floating("y", arguments.y, 2);
  const int64_t rows = arguments.y.rows();
  check.tensor("y", arguments.y, arguments.y.dtype, {rows, table.columns()});
  check.wide_or("y", arguments.y.dtype, table.dtype);
  check.require(arguments.sequence > 0, "the sequence length is positive");
  check.require(arguments.first_row >= 0, "rows start at 0");
  if (has_rows) {
    check.require(arguments.tokens == nullptr && !arguments.token_weight.is_present(),
                  "rows come from a table or are given");
    check.tensor("token_rows", table, table.dtype, arguments.y.shape);
  } else {
    check_shard(check, arguments);
    check.pointer("tokens", arguments.tokens);
    check.indices("tokens", arguments.tokens, rows, 0, id_count(arguments, table.rows()));
    check.require(arguments.vocabulary == 0 ||
                      (!arguments.position_weight.is_present() && !arguments.dropout.is_active()),
                  "positions and dropout come after the sum over shards");
  }
  if (arguments.position_weight.is_present()) {
    check.floating("position_weight", arguments.position_weight, 2);
    const int64_t longest = arguments.position_weight.rows();
    check.tensor("position_weight", arguments.position_weight, table.dtype,
                 {longest, table.columns()});
    check_positions(check, arguments, rows, longest);
  }
  context.check_aborted();
  const EmbeddingKernel& kernel = embedding_kernel(kOp, context, table.dtype, arguments.y.dtype);
  if (!context.is_measuring()) kernel.forward(context, arguments);
}

void embedding_backward(OpContext& context, const EmbeddingBackward& arguments) {
  constexpr const char* kOp = "embedding_backward";
  const Arguments check(kOp, context);
  const TensorView& grad_y = arguments.grad_y;
  check.floating("grad_y", grad_y, 2);
  check.require(arguments.sequence > 0, "the sequence length is positive");
  check.require(arguments.first_row >= 0, "rows start at 0");
  int64_t table_rows = 0;
  if (arguments.grad_token.is_present()) {
    check.floating("grad_token", arguments.grad_token, 2);
    table_rows = arguments.grad_token.rows();
    check.tensor("grad_token", arguments.grad_token, DType::kFloat32,
                 {table_rows, grad_y.columns()});
    check_shard(check, arguments);
    check.pointer("tokens", arguments.tokens);
    check.indices("tokens", arguments.tokens, grad_y.rows(), 0, id_count(arguments, table_rows));
  }
  if (arguments.grad_position.is_present()) {
    check.floating("grad_position", arguments.grad_position, 2);
    const int64_t longest = arguments.grad_position.rows();
    check.tensor("grad_position", arguments.grad_position, DType::kFloat32,
                 {longest, grad_y.columns()});
    check_positions(check, arguments, grad_y.rows(), longest);
    table_rows = std::max(table_rows, longest);
  }
  context.check_aborted();
  const EmbeddingKernel& kernel = embedding_kernel(kOp, context, grad_y.dtype, grad_y.dtype);
  Workspace::Frame frame(context.workspace);
  void* workspace = frame.take(kernel.workspace_bytes(grad_y.rows(), table_rows));
  if (!context.is_measuring()) kernel.backward(context, arguments, workspace);
}

}  // namespace plait

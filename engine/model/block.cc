#include "engine/model/block.h"

#include <cmath>
#include <utility>
#include <vector>

#include "engine/model/leaves.h"
#include "engine/model/logical_tensors.h"
#include "engine/model/shards.h"
#include "kernels/base/mutation.h"

namespace plait {
namespace {

constexpr InitialValue kZeroVector{InitialValue::Kind::kConstant, 0.0};
constexpr InitialValue kOneVector{InitialValue::Kind::kConstant, 1.0};

/// Declares the local parameters of one layer in canonical order.
class Declaration {
 public:
  Declaration(const ModelConfig& model, const Shards& shards, int64_t layer, Unit& unit)
      : model_(model), shards_(shards), layer_(layer), unit_(unit) {}

  bool has_bias() const { return model_.family == FamilyChoice::kGpt2; }
  InitialValue normal() const { return {InitialValue::Kind::kNormal, model_.initial_std}; }
  /// Matrices that write to the residual stream start smaller by √(2L), L the model's layers.
  InitialValue residual() const {
    return {InitialValue::Kind::kNormal,
            model_.initial_std / std::sqrt(2.0 * static_cast<double>(model_.layers))};
  }

  /// Outputs of a column linear: `name`, of `rows` rows in the whole model.
  struct Part {
    const char* name;
    int64_t rows;
    bool is_key_value = false;
  };
  /// Local rows of the parts one below the other, as one parameter.
  Parameter* column_weight(const std::vector<Part>& parts) {
    std::vector<Segment> segments;
    int64_t rows = 0;
    for (const Part& part : parts) {
      segments.push_back(rows_of(
          part, {name_of(part.name, ".weight"), {part.rows, model_.hidden}, normal()}, rows));
      rows += segments.back().box.size[0];
    }
    return unit_.add({rows, model_.hidden}, std::move(segments));
  }
  Parameter* column_bias(const std::vector<Part>& parts) {
    if (!has_bias()) return nullptr;
    std::vector<Segment> segments;
    int64_t rows = 0;
    for (const Part& part : parts) {
      segments.push_back(
          rows_of(part, {name_of(part.name, ".bias"), {part.rows}, kZeroVector}, rows));
      rows += segments.back().box.size[0];
    }
    return unit_.add({rows}, std::move(segments));
  }
  /// Local columns of a matrix [hidden, columns].
  Parameter* row_weight(const char* name, int64_t columns) {
    Segment segment =
        shards_.columns({name_of(name, ".weight"), {model_.hidden, columns}, residual()});
    const Shape local{model_.hidden, segment.box.size[1]};
    return unit_.add(local, {std::move(segment)});
  }
  /// A vector [hidden] that every rank holds.
  Parameter* vector(const char* name, const char* suffix, InitialValue initial) {
    return unit_.add({model_.hidden},
                     {shards_.whole({name_of(name, suffix), {model_.hidden}, initial})});
  }
  Parameter* bias(const char* name) {
    return has_bias() ? vector(name, ".bias", kZeroVector) : nullptr;
  }
  ResidualNorm::Options norm(const char* name) {
    ResidualNorm::Options options;
    options.kind = has_bias() ? NormKind::kLayer : NormKind::kRms;
    options.epsilon = model_.norm_epsilon;
    options.weight = vector(name, ".weight", kOneVector);
    options.norm_bias = bias(name);
    return options;
  }

 private:
  std::string name_of(const char* name, const char* suffix) const {
    return layer_name(layer_, std::string(name) + suffix);
  }
  Segment rows_of(const Part& part, const TensorPart& tensor, int64_t first_row) const {
    return part.is_key_value ? shards_.key_value_rows(tensor, first_row)
                             : shards_.rows(tensor, first_row);
  }

  const ModelConfig& model_;
  const Shards& shards_;
  int64_t layer_;
  Unit& unit_;
};

DropoutSite site(const ModelOptions& options, int64_t layer, const char* name, double rate) {
  return {stream_key("dropout/" + layer_name(layer, name), options.seed), rate};
}

}  // namespace

Block::Block(const ModelOptions& options, int64_t layer, TensorView rotary_table, Unit& unit,
             const TensorGroup& group)
    : hidden_(options.model.hidden),
      compute_(options.precision.compute),
      residual_(options.precision.residual),
      group_(group) {
  const ModelConfig& m = options.model;
  const Shards shards(m, group);
  const Leaves leaves(group);
  Declaration declare(m, shards, layer, unit);
  norm1_ = std::make_unique<ResidualNorm>(declare.norm("attention_norm"));

  const int64_t query = m.heads * m.head_size, key = m.key_value_heads * m.head_size;
  const std::vector<Declaration::Part> projection = {
      {"attention.query", query}, {"attention.key", key, true}, {"attention.value", key, true}};
  Parameter* projection_weight = declare.column_weight(projection);
  Parameter* projection_bias = declare.column_bias(projection);
  Parameter* output_weight = declare.row_weight("attention.output", query);
  Parameter* output_bias = declare.bias("attention.output");

  Attention::Options attention;
  attention.heads = shards.heads().count;
  attention.key_value_heads = shards.key_value_heads().count;
  attention.head_size = m.head_size;
  attention.first_head = is_mutated(Mutation::kDropoutHeadLocal) ? 0 : shards.heads().first;
  attention.rotary_table = rotary_table;
  attention.probabilities =
      site(options, layer, "attention.probabilities", options.train.attention_dropout);
  attention_ = std::make_unique<Attention>(
      attention, leaves.column(projection_weight, projection_bias), leaves.row(output_weight));

  ResidualNorm::Options norm2 = declare.norm("feed_forward_norm");
  norm2.delta_bias = output_bias;
  norm2.dropout = site(options, layer, "attention.output", options.train.dropout);
  norm2_ = std::make_unique<ResidualNorm>(norm2);

  const bool is_gpt2 = m.family == FamilyChoice::kGpt2;
  std::vector<Declaration::Part> up = {{"feed_forward.up", m.feed_forward}};
  if (!is_gpt2) up.insert(up.begin(), {"feed_forward.gate", m.feed_forward});
  Parameter* up_weight = declare.column_weight(up);
  Parameter* up_bias = declare.column_bias(up);
  Parameter* down_weight = declare.row_weight("feed_forward.down", m.feed_forward);
  ResidualNorm::Options add;
  add.delta_bias = declare.bias("feed_forward.down");
  add.dropout = site(options, layer, "feed_forward.output", options.train.dropout);
  add_ = std::make_unique<ResidualNorm>(add);
  feed_forward_ = std::make_unique<FeedForward>(
      is_gpt2 ? ActivationKind::kGelu : ActivationKind::kSwiglu, shards.feed_forward().count,
      leaves.column(up_weight, up_bias), leaves.row(down_weight));
}

void Block::prepare(OpContext& context, int64_t max_rows) {
  attention_->prepare(context, max_rows);
  feed_forward_->prepare(context, max_rows);
}

void Block::weights_changed(OpContext& context) {
  attention_->weights_changed(context);
  feed_forward_->weights_changed(context);
}

BlockState Block::make_state(StateArena& arena, int64_t max_rows) const {
  BlockState state;
  const int64_t stream_rows = group_.local_rows(max_rows);
  state.y1 = arena.tensor(compute_, {stream_rows, hidden_});
  state.x2 = arena.tensor(residual_, {stream_rows, hidden_});
  state.y2 = arena.tensor(compute_, {stream_rows, hidden_});
  state.norm1.statistics = arena.tensor(DType::kFloat32, {stream_rows, 2});
  state.norm2.statistics = arena.tensor(DType::kFloat32, {stream_rows, 2});
  state.attention = attention_->make_state(arena, compute_, max_rows);
  state.feed_forward = feed_forward_->make_state(arena, compute_, max_rows);
  return state;
}

BlockGradients Block::make_gradients(StateArena& arena, int64_t max_rows) const {
  BlockGradients gradients;
  const int64_t stream_rows = group_.local_rows(max_rows);
  gradients.down = arena.tensor(compute_, {stream_rows, hidden_});
  gradients.up = arena.tensor(compute_, {max_rows, feed_forward_->up_width()});
  gradients.output = arena.tensor(compute_, {stream_rows, hidden_});
  gradients.projection = arena.tensor(compute_, {max_rows, attention_->projection_width()});
  return gradients;
}

void Block::forward(const Pass& pass, BlockState& state, TensorView out) {
  Workspace::Frame frame(pass.context.workspace);
  const int64_t rows = pass.stream_rows();
  const TensorView x = first_rows(state.x, rows), y1 = first_rows(state.y1, rows);
  const TensorView y2 = first_rows(state.y2, rows);
  const TensorView delta = frame.tensor(compute_, {rows, hidden_});
  NormState norm1{x, first_rows(state.norm1.statistics, rows)};
  norm1_->forward(pass, x, {}, y1, norm1);
  attention_->forward(pass, y1, delta, state.attention);
  NormState norm2{first_rows(state.x2, rows), first_rows(state.norm2.statistics, rows)};
  norm2_->forward(pass, x, delta, y2, norm2);
  feed_forward_->forward(pass, y2, delta, state.feed_forward);
  NormState sum{out, {}};
  add_->forward(pass, first_rows(state.x2, rows), delta, {}, sum);
}

void Block::walk_back(const Pass& pass, BlockState& state, const BlockGradients& gradients,
                      TensorView grad, Parts parts) {
  Workspace::Frame frame(pass.context.workspace);
  const int64_t rows = pass.stream_rows();
  const TensorView grad_y = frame.tensor(compute_, {rows, hidden_});
  const TensorView down = first_rows(gradients.down, rows);
  const TensorView up = first_rows(gradients.up, pass.rows());
  const TensorView output = first_rows(gradients.output, rows);
  const TensorView projection = first_rows(gradients.projection, pass.rows());
  add_->backward(pass, {}, grad, false, down, {});
  if (parts == Parts::kBoth) {
    feed_forward_->backward(pass, down, up, grad_y, state.feed_forward);
  } else {
    feed_forward_->backward_input(pass, down, up, grad_y, state.feed_forward);
  }
  const NormState norm2{first_rows(state.x2, rows), first_rows(state.norm2.statistics, rows)};
  norm2_->backward(pass, grad_y, grad, false, output, norm2);
  if (parts == Parts::kBoth) {
    attention_->backward(pass, output, projection, grad_y, state.attention);
  } else {
    attention_->backward_input(pass, output, projection, grad_y, state.attention);
  }
  const NormState norm1{first_rows(state.x, rows), first_rows(state.norm1.statistics, rows)};
  norm1_->backward(pass, grad_y, grad, false, {}, norm1);
}

void Block::backward_input(const Pass& pass, BlockState& state, const BlockGradients& gradients,
                           TensorView grad) {
  walk_back(pass, state, gradients, grad, Parts::kInput);
}

void Block::backward(const Pass& pass, BlockState& state, const BlockGradients& gradients,
                     TensorView grad) {
  walk_back(pass, state, gradients, grad, Parts::kBoth);
}

void Block::backward_weight(const Pass& pass, const BlockState& state) {
  feed_forward_->backward_weight(pass, state.feed_forward);
  attention_->backward_weight(pass, state.attention);
}

}  // namespace plait

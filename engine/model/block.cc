#include "engine/model/block.h"

#include <cmath>
#include <utility>
#include <vector>

#include "engine/layers/lane_sum.h"
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

/// Lanes are computed as if they stood alone; the block adds them up.
Leaves lane_leaves(const TensorGroup& group) {
  return Leaves(group.lanes == 1 ? group : TensorGroup{});
}

}  // namespace

Block::Block(const ModelOptions& options, int64_t layer, TensorView rotary_table, Unit& unit,
             const TensorGroup& group)
    : hidden_(options.model.hidden),
      compute_(options.precision.compute),
      residual_(options.precision.residual),
      group_(group) {
  if (group.lanes > 1 && group.size > 1) region_ = make_stream_region(group);
  declare_attention(options, layer, rotary_table, unit);
  declare_feed_forward(options, layer, unit);
}

/// First norm, attention in lanes, second norm.
void Block::declare_attention(const ModelOptions& options, int64_t layer, TensorView rotary_table,
                              Unit& unit) {
  const ModelConfig& m = options.model;
  const Leaves leaves = lane_leaves(group_);
  const Shards whole(m, group_);
  Declaration declare(m, whole, layer, unit);
  norm1_ = std::make_unique<ResidualNorm>(declare.norm("attention_norm"));
  const int64_t query = m.heads * m.head_size, key = m.key_value_heads * m.head_size;
  const std::vector<Declaration::Part> projection = {
      {"attention.query", query}, {"attention.key", key, true}, {"attention.value", key, true}};
  for (int64_t lane = 0; lane < group_.lanes; ++lane) {
    const Shards shards(m, group_, lane);
    Declaration part(m, shards, layer, unit);
    Parameter* weight = part.column_weight(projection);
    Parameter* bias = part.column_bias(projection);
    Parameter* output = part.row_weight("attention.output", query);
    Attention::Options attention;
    attention.heads = shards.heads().count;
    attention.key_value_heads = shards.key_value_heads().count;
    attention.head_size = m.head_size;
    attention.first_head = is_mutated(Mutation::kDropoutHeadLocal) ? 0 : shards.heads().first;
    attention.rotary_table = rotary_table;
    attention.probabilities =
        site(options, layer, "attention.probabilities", options.train.attention_dropout);
    attention_.push_back(
        std::make_unique<Attention>(attention, leaves.column(weight, bias), leaves.row(output)));
  }
  Parameter* output_bias = declare.bias("attention.output");
  ResidualNorm::Options norm2 = declare.norm("feed_forward_norm");
  norm2.delta_bias = output_bias;
  norm2.dropout = site(options, layer, "attention.output", options.train.dropout);
  norm2_ = std::make_unique<ResidualNorm>(norm2);
}

void Block::declare_feed_forward(const ModelOptions& options, int64_t layer, Unit& unit) {
  const ModelConfig& m = options.model;
  const Leaves leaves = lane_leaves(group_);
  const bool is_gpt2 = m.family == FamilyChoice::kGpt2;
  std::vector<Declaration::Part> up = {{"feed_forward.up", m.feed_forward}};
  if (!is_gpt2) up.insert(up.begin(), {"feed_forward.gate", m.feed_forward});
  for (int64_t lane = 0; lane < group_.lanes; ++lane) {
    const Shards shards(m, group_, lane);
    Declaration part(m, shards, layer, unit);
    Parameter* weight = part.column_weight(up);
    Parameter* bias = part.column_bias(up);
    Parameter* down = part.row_weight("feed_forward.down", m.feed_forward);
    feed_forward_.push_back(std::make_unique<FeedForward>(
        is_gpt2 ? ActivationKind::kGelu : ActivationKind::kSwiglu, shards.feed_forward().count,
        leaves.column(weight, bias), leaves.row(down)));
  }
  const Shards whole(m, group_);
  ResidualNorm::Options add;
  add.delta_bias = Declaration(m, whole, layer, unit).bias("feed_forward.down");
  add.dropout = site(options, layer, "feed_forward.output", options.train.dropout);
  add_ = std::make_unique<ResidualNorm>(add);
}

void Block::prepare(OpContext& context, int64_t max_rows) {
  for (const auto& attention : attention_) attention->prepare(context, max_rows);
  for (const auto& feed_forward : feed_forward_) feed_forward->prepare(context, max_rows);
}

void Block::weights_changed(OpContext& context) {
  for (const auto& attention : attention_) attention->weights_changed(context);
  for (const auto& feed_forward : feed_forward_) feed_forward->weights_changed(context);
}

/// sum ← the terms of this rank's lanes, and then those of all ranks. A single lane's linears know
/// of the other ranks themselves.
void Block::sum_lanes(const Pass& pass, TensorView sum, LaneTerm term) {
  add_tree(pass, 0, attention_.size(), sum, term);
  if (region_ != nullptr) region_->sum(pass, sum, sum);
}

BlockState Block::make_state(StateArena& arena, int64_t max_rows) const {
  BlockState state;
  const int64_t stream_rows = group_.local_rows(max_rows);
  state.y1 = arena.tensor(compute_, {stream_rows, hidden_});
  state.x2 = arena.tensor(residual_, {stream_rows, hidden_});
  state.y2 = arena.tensor(compute_, {stream_rows, hidden_});
  state.norm1.statistics = arena.tensor(DType::kFloat32, {stream_rows, 2});
  state.norm2.statistics = arena.tensor(DType::kFloat32, {stream_rows, 2});
  for (const auto& attention : attention_) {
    state.attention.push_back(attention->make_state(arena, compute_, max_rows));
  }
  for (const auto& feed_forward : feed_forward_) {
    state.feed_forward.push_back(feed_forward->make_state(arena, compute_, max_rows));
  }
  return state;
}

BlockGradients Block::make_gradients(StateArena& arena, int64_t max_rows) const {
  BlockGradients gradients;
  const int64_t stream_rows = group_.local_rows(max_rows);
  gradients.down = arena.tensor(compute_, {stream_rows, hidden_});
  for (const auto& feed_forward : feed_forward_) {
    gradients.up.push_back(arena.tensor(compute_, {max_rows, feed_forward->up_width()}));
  }
  gradients.output = arena.tensor(compute_, {stream_rows, hidden_});
  for (const auto& attention : attention_) {
    gradients.projection.push_back(
        arena.tensor(compute_, {max_rows, attention->projection_width()}));
  }
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
  sum_lanes(pass, delta, [&](size_t lane, TensorView term) {
    attention_[lane]->forward(pass, y1, term, state.attention[lane]);
  });
  NormState norm2{first_rows(state.x2, rows), first_rows(state.norm2.statistics, rows)};
  norm2_->forward(pass, x, delta, y2, norm2);
  sum_lanes(pass, delta, [&](size_t lane, TensorView term) {
    feed_forward_[lane]->forward(pass, y2, term, state.feed_forward[lane]);
  });
  NormState sum{out, {}};
  add_->forward(pass, first_rows(state.x2, rows), delta, {}, sum);
}

void Block::walk_back(const Pass& pass, BlockState& state, const BlockGradients& gradients,
                      TensorView grad, Parts parts) {
  Workspace::Frame frame(pass.context.workspace);
  const int64_t rows = pass.stream_rows();
  const TensorView grad_y = frame.tensor(compute_, {rows, hidden_});
  const TensorView down = first_rows(gradients.down, rows);
  const TensorView output = first_rows(gradients.output, rows);
  add_->backward(pass, {}, grad, false, down, {});
  sum_lanes(pass, grad_y, [&](size_t lane, TensorView term) {
    const TensorView up = first_rows(gradients.up[lane], pass.rows());
    if (parts == Parts::kBoth) {
      feed_forward_[lane]->backward(pass, down, up, term, state.feed_forward[lane]);
    } else {
      feed_forward_[lane]->backward_input(pass, down, up, term, state.feed_forward[lane]);
    }
  });
  const NormState norm2{first_rows(state.x2, rows), first_rows(state.norm2.statistics, rows)};
  norm2_->backward(pass, grad_y, grad, false, output, norm2);
  sum_lanes(pass, grad_y, [&](size_t lane, TensorView term) {
    const TensorView projection = first_rows(gradients.projection[lane], pass.rows());
    if (parts == Parts::kBoth) {
      attention_[lane]->backward(pass, output, projection, term, state.attention[lane]);
    } else {
      attention_[lane]->backward_input(pass, output, projection, term, state.attention[lane]);
    }
  });
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
  for (size_t lane = 0; lane < feed_forward_.size(); ++lane) {
    feed_forward_[lane]->backward_weight(pass, state.feed_forward[lane]);
  }
  for (size_t lane = 0; lane < attention_.size(); ++lane) {
    attention_[lane]->backward_weight(pass, state.attention[lane]);
  }
}

}  // namespace plait

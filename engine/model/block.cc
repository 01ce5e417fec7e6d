#include "engine/model/block.h"

#include <cmath>
#include <utility>
#include <vector>

#include "engine/model/logical_tensors.h"

namespace plait {
namespace {

constexpr InitialValue kZero{InitialValue::Kind::kConstant, 0.0};
constexpr InitialValue kOne{InitialValue::Kind::kConstant, 1.0};

/// Declares the parameters of one layer in canonical order.
class Declaration {
 public:
  Declaration(const ModelConfig& model, int64_t layer, Unit& unit)
      : model_(model), layer_(layer), unit_(unit) {}

  bool has_bias() const { return model_.family == FamilyChoice::kGpt2; }
  InitialValue normal() const { return {InitialValue::Kind::kNormal, model_.initial_std}; }
  /// Matrices that write to the residual stream start smaller by √(2L), L the model's layers.
  InitialValue residual() const {
    return {InitialValue::Kind::kNormal,
            model_.initial_std / std::sqrt(2.0 * static_cast<double>(model_.layers))};
  }

  struct Part {
    const char* name;
    int64_t rows;
  };
  /// Parts [rows, columns] one below the other, as one parameter.
  Parameter* matrix(const std::vector<Part>& parts, int64_t columns, InitialValue initial) {
    std::vector<Segment> segments;
    int64_t rows = 0;
    for (const Part& part : parts) {
      segments.push_back(whole_segment(layer_name(layer_, std::string(part.name) + ".weight"),
                                       {part.rows, columns}, rows, initial));
      rows += part.rows;
    }
    return unit_.add({rows, columns}, std::move(segments));
  }
  Parameter* vector(const std::vector<Part>& parts, const char* suffix, InitialValue initial) {
    std::vector<Segment> segments;
    int64_t rows = 0;
    for (const Part& part : parts) {
      segments.push_back(whole_segment(layer_name(layer_, std::string(part.name) + suffix),
                                       {part.rows}, rows, initial));
      rows += part.rows;
    }
    return unit_.add({rows}, std::move(segments));
  }
  Parameter* bias(const std::vector<Part>& parts) {
    return has_bias() ? vector(parts, ".bias", kZero) : nullptr;
  }
  ResidualNorm::Options norm(const char* name) {
    ResidualNorm::Options options;
    options.kind = has_bias() ? NormKind::kLayer : NormKind::kRms;
    options.epsilon = model_.norm_epsilon;
    options.weight = vector({{name, model_.hidden}}, ".weight", kOne);
    options.norm_bias = bias({{name, model_.hidden}});
    return options;
  }

 private:
  const ModelConfig& model_;
  int64_t layer_;
  Unit& unit_;
};

DropoutSite site(const ModelOptions& options, int64_t layer, const char* name, double rate) {
  return {stream_key("dropout/" + layer_name(layer, name), options.seed), rate};
}

}  // namespace

Block::Block(const ModelOptions& options, int64_t layer, TensorView rotary_table, Unit& unit)
    : hidden_(options.model.hidden),
      compute_(options.precision.compute),
      residual_(options.precision.residual) {
  const ModelConfig& m = options.model;
  Declaration declare(m, layer, unit);
  norm1_ = std::make_unique<ResidualNorm>(declare.norm("attention_norm"));

  const int64_t query = m.heads * m.head_size, key = m.key_value_heads * m.head_size;
  const std::vector<Declaration::Part> projection = {
      {"attention.query", query}, {"attention.key", key}, {"attention.value", key}};
  Parameter* projection_weight = declare.matrix(projection, m.hidden, declare.normal());
  Parameter* projection_bias = declare.bias(projection);
  Parameter* output_weight =
      declare.matrix({{"attention.output", m.hidden}}, query, declare.residual());
  Parameter* output_bias = declare.bias({{"attention.output", m.hidden}});

  Attention::Options attention;
  attention.heads = m.heads;
  attention.key_value_heads = m.key_value_heads;
  attention.head_size = m.head_size;
  attention.rotary_table = rotary_table;
  attention.probabilities =
      site(options, layer, "attention.probabilities", options.train.attention_dropout);
  attention_ = std::make_unique<Attention>(
      attention, std::make_unique<Linear>(projection_weight, projection_bias),
      std::make_unique<Linear>(output_weight, nullptr));

  ResidualNorm::Options norm2 = declare.norm("feed_forward_norm");
  norm2.delta_bias = output_bias;
  norm2.dropout = site(options, layer, "attention.output", options.train.dropout);
  norm2_ = std::make_unique<ResidualNorm>(norm2);

  const bool is_gpt2 = m.family == FamilyChoice::kGpt2;
  std::vector<Declaration::Part> up = {{"feed_forward.up", m.feed_forward}};
  if (!is_gpt2) up.insert(up.begin(), {"feed_forward.gate", m.feed_forward});
  Parameter* up_weight = declare.matrix(up, m.hidden, declare.normal());
  Parameter* up_bias = declare.bias(up);
  Parameter* down_weight =
      declare.matrix({{"feed_forward.down", m.hidden}}, m.feed_forward, declare.residual());
  ResidualNorm::Options add;
  add.delta_bias = declare.bias({{"feed_forward.down", m.hidden}});
  add.dropout = site(options, layer, "feed_forward.output", options.train.dropout);
  add_ = std::make_unique<ResidualNorm>(add);
  feed_forward_ = std::make_unique<FeedForward>(
      is_gpt2 ? ActivationKind::kGelu : ActivationKind::kSwiglu, m.feed_forward,
      std::make_unique<Linear>(up_weight, up_bias), std::make_unique<Linear>(down_weight, nullptr));
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
  state.y1 = arena.tensor(compute_, {max_rows, hidden_});
  state.x2 = arena.tensor(residual_, {max_rows, hidden_});
  state.y2 = arena.tensor(compute_, {max_rows, hidden_});
  state.norm1.statistics = arena.tensor(DType::kFloat32, {max_rows, 2});
  state.norm2.statistics = arena.tensor(DType::kFloat32, {max_rows, 2});
  state.attention = attention_->make_state(arena, compute_, max_rows);
  state.feed_forward = feed_forward_->make_state(arena, compute_, max_rows);
  return state;
}

BlockGradients Block::make_gradients(StateArena& arena, int64_t max_rows) const {
  BlockGradients gradients;
  gradients.down = arena.tensor(compute_, {max_rows, hidden_});
  gradients.up = arena.tensor(compute_, {max_rows, feed_forward_->up_width()});
  gradients.output = arena.tensor(compute_, {max_rows, hidden_});
  gradients.projection = arena.tensor(compute_, {max_rows, attention_->projection_width()});
  return gradients;
}

void Block::forward(const Pass& pass, BlockState& state, TensorView out) {
  Workspace::Frame frame(pass.context.workspace);
  const int64_t rows = pass.rows();
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

void Block::backward_input(const Pass& pass, BlockState& state, const BlockGradients& gradients,
                           TensorView grad) {
  Workspace::Frame frame(pass.context.workspace);
  const int64_t rows = pass.rows();
  const TensorView grad_y = frame.tensor(compute_, {rows, hidden_});
  const TensorView down = first_rows(gradients.down, rows), up = first_rows(gradients.up, rows);
  const TensorView output = first_rows(gradients.output, rows);
  const TensorView projection = first_rows(gradients.projection, rows);
  add_->backward(pass, {}, grad, false, down, {});
  feed_forward_->backward_input(pass, down, up, grad_y, state.feed_forward);
  const NormState norm2{first_rows(state.x2, rows), first_rows(state.norm2.statistics, rows)};
  norm2_->backward(pass, grad_y, grad, false, output, norm2);
  attention_->backward_input(pass, output, projection, grad_y, state.attention);
  const NormState norm1{first_rows(state.x, rows), first_rows(state.norm1.statistics, rows)};
  norm1_->backward(pass, grad_y, grad, false, {}, norm1);
}

void Block::backward_weight(const Pass& pass, const BlockState& state) {
  feed_forward_->backward_weight(pass, state.feed_forward);
  attention_->backward_weight(pass, state.attention);
}

}  // namespace plait

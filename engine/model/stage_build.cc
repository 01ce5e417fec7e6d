// How a stage is put together: its parameters and the memory of its slots.
#include <algorithm>
#include <utility>

#include "engine/model/leaves.h"
#include "engine/model/logical_tensors.h"
#include "engine/model/stage.h"
#include "kernels/base/error.h"
#include "kernels/base/mutation.h"

namespace plait {
namespace {

constexpr InitialValue kZero{InitialValue::Kind::kConstant, 0.0};
constexpr InitialValue kOne{InitialValue::Kind::kConstant, 1.0};

}  // namespace

/// Activation memory, owned for the life of the stage.
class Stage::Arena final : public StateArena {
 public:
  explicit Arena(Device& device) : device_(device) {}
  TensorView tensor(DType dtype, const Shape& shape) override {
    buffers_.push_back(
        device_.allocate(shape.elements() * dtype_size(dtype), MemoryCategory::kActivations));
    return buffers_.back().view(dtype, shape);
  }

 private:
  Device& device_;
  std::vector<Buffer> buffers_;
};

Stage::Stage(const StageOptions& options, Device& device)
    : options_(options),
      device_(device),
      shards_(options_.model.model, options_.tensor),
      padded_vocabulary_(plait::padded_vocabulary(options.model.model.vocab_size,
                                                  options.tensor.size * options.tensor.lanes)),
      arena_(std::make_unique<Arena>(device)) {
  check(!options.tensor.is_sequence_parallel || options.max_rows % options.tensor.size == 0,
        "rows of a micro-batch divide over the tensor group");
  build_embedding();
  build_blocks();
  build_head();
  for (const auto& unit : units_) {
    unit->seal(options.model.precision.compute, options.layout.data);
  }
  make_slots();
}

Stage::~Stage() = default;

Unit* Stage::add_unit(std::string name) {
  units_.push_back(std::make_unique<Unit>(std::move(name)));
  return units_.back().get();
}

Parameter* Stage::add_vocabulary(Unit& unit, const char* name) {
  const ModelConfig& m = options_.model.model;
  const InitialValue normal{InitialValue::Kind::kNormal, m.initial_std};
  return unit.add({vocabulary_shard_width(), m.hidden},
                  {shards_.vocabulary_rows({name, {m.vocab_size, m.hidden}, normal})});
}

void Stage::build_embedding() {
  const ModelConfig& m = options_.model.model;
  const bool holds_token = options_.is_first || (options_.is_last && m.tied);
  if (holds_token) {
    token_unit_ = add_unit("embedding.token");
    token_ = add_vocabulary(*token_unit_, "embedding.token.weight");
    if (options_.is_first && options_.is_last && m.tied) token_unit_->add_second_gradient(token_);
  }
  if (!options_.is_first) return;
  Parameter* position = nullptr;
  if (m.family == FamilyChoice::kGpt2) {
    position_unit_ = add_unit("embedding.position");
    const InitialValue normal{InitialValue::Kind::kNormal, m.initial_std};
    const Shape shape{m.sequence_length, m.hidden};
    position =
        position_unit_->add(shape, {shards_.whole({"embedding.position.weight", shape, normal})});
  }
  const DropoutSite site{stream_key("dropout/embedding", options_.model.seed),
                         options_.model.train.dropout};
  embedding_ = Leaves(options_.tensor).embedding(token_, position, site, first_id(), m.vocab_size);
}

void Stage::build_blocks() {
  const ModelConfig& m = options_.model.model;
  TensorView table;
  if (m.family == FamilyChoice::kLlama) {
    const Shape shape{m.sequence_length, m.head_size};
    rotary_ = device_.allocate(shape.elements() * dtype_size(DType::kFloat32),
                               MemoryCategory::kWorkspace);
    table = rotary_.view(DType::kFloat32, shape);
    fill_rotary_table(m.rope_base, table);
  }
  for (int64_t i = 0; i < options_.layers; ++i) {
    const int64_t layer = is_mutated(Mutation::kLayerIndexLocal) ? i : options_.first_layer + i;
    block_units_.push_back(add_unit("layers." + std::to_string(layer)));
    blocks_.push_back(std::make_unique<Block>(options_.model, layer, table, *block_units_.back(),
                                              options_.tensor));
  }
}

void Stage::build_head() {
  if (!options_.is_last) return;
  const ModelConfig& m = options_.model.model;
  const bool is_gpt2 = m.family == FamilyChoice::kGpt2;
  norm_unit_ = add_unit("final_norm");
  ResidualNorm::Options norm;
  norm.kind = is_gpt2 ? NormKind::kLayer : NormKind::kRms;
  norm.epsilon = m.norm_epsilon;
  const Shape shape{m.hidden};
  norm.weight = norm_unit_->add(shape, {shards_.whole({"final_norm.weight", shape, kOne})});
  if (is_gpt2) {
    norm.norm_bias = norm_unit_->add(shape, {shards_.whole({"final_norm.bias", shape, kZero})});
  }
  final_norm_ = std::make_unique<ResidualNorm>(norm);
  head_unit_ = m.tied ? token_unit_ : add_unit("head");
  Parameter* weight = m.tied ? token_ : add_vocabulary(*head_unit_, "head.weight");
  const bool is_second_use = m.tied && options_.is_first;
  if (is_second_use) head_use_ = GradientUse::kSecond;
  LossHead::Options head;
  head.vocabulary = m.vocab_size;
  head.first_id = first_id();
  head.width = vocabulary_shard_width() / options_.tensor.lanes;
  head.dtype = options_.model.precision.compute;
  head_ = Leaves(options_.tensor).loss_head(weight, is_second_use, head);
}

int64_t Stage::run_length() const {
  const bool is_full = options_.layout.recompute == RecomputeChoice::kFull;
  if (!is_full || options_.is_split) return std::max<int64_t>(options_.layers, 1);
  return std::min(options_.layout.recompute_layers, std::max<int64_t>(options_.layers, 1));
}

int64_t Stage::run_count() const { return (options_.layers + run_length() - 1) / run_length(); }

std::vector<BlockState> Stage::make_blocks(int64_t count) {
  std::vector<BlockState> states;
  for (int64_t i = 0; i < count; ++i) {
    states.push_back(blocks_[static_cast<size_t>(i)]->make_state(*arena_, options_.max_rows));
    if (i > 0) {
      states.back().x = arena_->tensor(options_.model.precision.residual,
                                       {stream_rows(), options_.model.model.hidden});
    }
  }
  return states;
}

/// Full recompute keeps one run of block states for all slots; a split backward pass keeps whole
/// states even then, since replayed inputs would have to live until the weight part.
void Stage::make_slots() {
  const bool is_sharing = options_.layout.recompute == RecomputeChoice::kFull && !options_.is_split;
  if (is_sharing) shared_blocks_ = make_blocks(std::min(run_length(), options_.layers));
  if (!options_.is_split && !blocks_.empty()) {
    shared_gradients_.push_back(blocks_[0]->make_gradients(*arena_, options_.max_rows));
  }
  slots_.resize(static_cast<size_t>(options_.slots));
  for (Slot& slot : slots_) {
    make_slot(&slot);
    if (is_sharing) slot.blocks = &shared_blocks_;
  }
}

void Stage::make_slot(Slot* slot) {
  const DType compute = options_.model.precision.compute;
  const Shape stream{stream_rows(), options_.model.model.hidden};
  for (int64_t run = 0; run < run_count(); ++run) {
    slot->inputs.push_back(arena_->tensor(options_.model.precision.residual, stream));
  }
  slot->output = arena_->tensor(options_.model.precision.residual, stream);
  if (slot->inputs.empty()) slot->inputs.push_back(slot->output);
  slot->gradient = slot == &slots_[0] || options_.is_split
                       ? arena_->tensor(options_.model.precision.residual, stream)
                       : slots_[0].gradient;
  if (options_.is_last) {
    slot->norm_statistics = arena_->tensor(DType::kFloat32, {stream_rows(), 2});
    slot->head_gradient = arena_->tensor(compute, stream);
  }
  slot->blocks = &slot->own_blocks;
  const bool is_sharing = options_.layout.recompute == RecomputeChoice::kFull && !options_.is_split;
  if (!is_sharing) slot->own_blocks = make_blocks(options_.layers);
  slot->gradients = shared_gradients_;
  for (int64_t i = 0; options_.is_split && i < options_.layers; ++i) {
    slot->gradients.push_back(
        blocks_[static_cast<size_t>(i)]->make_gradients(*arena_, options_.max_rows));
  }
}

void Stage::prepare(OpContext& context) {
  for (const auto& block : blocks_) block->prepare(context, options_.max_rows);
  if (head_ != nullptr) head_->prepare(context, options_.max_rows);
}

void Stage::weights_changed(OpContext& context) {
  for (const auto& block : blocks_) block->weights_changed(context);
  if (head_ != nullptr) head_->weights_changed(context);
}

}  // namespace plait

#include "engine/trainer/model_facts.h"

namespace plait {

ModelFacts model_facts(const ModelConfig& model) {
  ModelFacts facts;
  facts.family =
      model.family == FamilyChoice::kGpt2 ? ModelFacts::Family::kGpt2 : ModelFacts::Family::kLlama;
  facts.layers = model.layers;
  facts.hidden = model.hidden;
  facts.heads = model.heads;
  facts.key_value_heads = model.key_value_heads;
  facts.head_size = model.head_size;
  facts.feed_forward = model.feed_forward;
  facts.vocab_size = model.vocab_size;
  facts.sequence_length = model.sequence_length;
  facts.tied = model.tied;
  facts.norm_epsilon = model.norm_epsilon;
  facts.rope_base = model.rope_base;
  return facts;
}

}  // namespace plait

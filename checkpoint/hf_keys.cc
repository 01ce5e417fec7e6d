#include "checkpoint/hf_keys.h"

#include <iterator>

namespace plait {
namespace {

constexpr HfKeyUse kUsed = HfKeyUse::kUsed, kDefaultOnly = HfKeyUse::kDefaultOnly,
                   kDropout = HfKeyUse::kDropout, kHarmless = HfKeyUse::kHarmless;

constexpr HfKey kCommon[] = {
    {"model_type", kUsed},
    {"vocab_size", kUsed},
    {"hidden_size", kUsed},
    {"num_hidden_layers", kUsed},
    {"num_attention_heads", kUsed},
    {"max_position_embeddings", kUsed},
    {"tie_word_embeddings", kUsed},
    {"add_cross_attention", kDefaultOnly, "false"},
    {"auto_map", kDefaultOnly},
    {"cross_attention_hidden_size", kDefaultOnly},
    {"is_encoder_decoder", kDefaultOnly, "false"},
    {"pruned_heads", kDefaultOnly, "{}"},
    {"quantization_config", kDefaultOnly},
    {"_attn_implementation", kHarmless},
    {"_attn_implementation_autoset", kHarmless},
    {"_commit_hash", kHarmless},
    {"_name_or_path", kHarmless},
    {"architectures", kHarmless},
    {"bad_words_ids", kHarmless},
    {"begin_suppress_tokens", kHarmless},
    {"bos_token_id", kHarmless},
    {"chunk_size_feed_forward", kHarmless},
    {"decoder_start_token_id", kHarmless},
    {"diversity_penalty", kHarmless},
    {"do_sample", kHarmless},
    {"dtype", kHarmless},
    {"early_stopping", kHarmless},
    {"encoder_no_repeat_ngram_size", kHarmless},
    {"eos_token_id", kHarmless},
    {"exponential_decay_length_penalty", kHarmless},
    {"finetuning_task", kHarmless},
    {"forced_bos_token_id", kHarmless},
    {"forced_eos_token_id", kHarmless},
    {"gradient_checkpointing", kHarmless},
    {"id2label", kHarmless},
    {"initializer_range", kHarmless},
    {"is_decoder", kHarmless},
    {"label2id", kHarmless},
    {"length_penalty", kHarmless},
    {"max_length", kHarmless},
    {"min_length", kHarmless},
    {"name_or_path", kHarmless},
    {"no_repeat_ngram_size", kHarmless},
    {"num_beam_groups", kHarmless},
    {"num_beams", kHarmless},
    {"num_labels", kHarmless},
    {"num_return_sequences", kHarmless},
    {"output_attentions", kHarmless},
    {"output_hidden_states", kHarmless},
    {"output_past", kHarmless},
    {"output_scores", kHarmless},
    {"pad_token_id", kHarmless},
    {"prefix", kHarmless},
    {"problem_type", kHarmless},
    {"remove_invalid_values", kHarmless},
    {"repetition_penalty", kHarmless},
    {"return_dict", kHarmless},
    {"return_dict_in_generate", kHarmless},
    {"sep_token_id", kHarmless},
    {"suppress_tokens", kHarmless},
    {"task_specific_params", kHarmless},
    {"temperature", kHarmless},
    {"tf_legacy_loss", kHarmless},
    {"tokenizer_class", kHarmless},
    {"top_k", kHarmless},
    {"top_p", kHarmless},
    {"torch_dtype", kHarmless},
    {"torchscript", kHarmless},
    {"transformers_version", kHarmless},
    {"typical_p", kHarmless},
    {"use_bfloat16", kHarmless},
    {"use_cache", kHarmless},
};

constexpr HfKey kGpt2[] = {
    {"n_positions", kUsed},
    {"n_embd", kUsed},
    {"n_layer", kUsed},
    {"n_head", kUsed},
    {"n_inner", kUsed},
    {"activation_function", kUsed},
    {"layer_norm_epsilon", kUsed},
    {"scale_attn_weights", kDefaultOnly, "true"},
    {"scale_attn_by_inverse_layer_idx", kDefaultOnly, "false"},
    {"reorder_and_upcast_attn", kDefaultOnly, "false"},
    {"attn_pdrop", kDropout},
    {"embd_pdrop", kDropout},
    {"resid_pdrop", kDropout},
    {"summary_first_dropout", kDropout},
    {"n_ctx", kHarmless},
    {"summary_activation", kHarmless},
    {"summary_proj_to_labels", kHarmless},
    {"summary_type", kHarmless},
    {"summary_use_proj", kHarmless},
};

constexpr HfKey kLlama[] = {
    {"intermediate_size", kUsed},
    {"num_key_value_heads", kUsed},
    {"head_dim", kUsed},
    {"hidden_act", kUsed},
    {"rms_norm_eps", kUsed},
    {"rope_theta", kUsed},
    {"rope_parameters", kUsed},
    {"rope_scaling", kUsed},
    {"attention_bias", kDefaultOnly, "false"},
    {"mlp_bias", kDefaultOnly, "false"},
    {"partial_rotary_factor", kDefaultOnly, "1.0"},
    {"sliding_window", kDefaultOnly},
    {"use_sliding_window", kDefaultOnly, "false"},
    {"attention_dropout", kDropout},
    {"pretraining_tp", kHarmless},
};

}  // namespace

std::vector<HfKey> hf_keys(ModelFacts::Family family) {
  std::vector<HfKey> keys(std::begin(kCommon), std::end(kCommon));
  if (family == ModelFacts::Family::kGpt2) {
    keys.insert(keys.end(), std::begin(kGpt2), std::end(kGpt2));
  } else {
    keys.insert(keys.end(), std::begin(kLlama), std::end(kLlama));
  }
  return keys;
}

const HfKey* find_hf_key(const std::vector<HfKey>& keys, std::string_view name) {
  for (const HfKey& key : keys) {
    if (name == key.name) return &key;
  }
  return nullptr;
}

}  // namespace plait

#include <nlohmann/json.hpp>

#include "checkpoint/hf_config.h"
#include "checkpoint/hf_keys.h"
#include "checkpoint/json_guard.h"
#include "kernels/base/error.h"
#include "kernels/base/json_end.h"

namespace plait {
namespace {

using Json = nlohmann::json;
using Family = ModelFacts::Family;

Json parse_original(std::string_view original, Family family) {
  if (original.empty()) return Json::object();
  guard_json(original, JsonLimits{}, "hf.config");
  Json root = Json::parse(original);
  const auto type = root.find("model_type");
  if (type == root.end() || is_text(*type, family_name(family))) return root;
  throw Error("config_mismatch", "the original config.json is of another model family")
      .with("field", "model_type")
      .with_raw("file", json_excerpt(type->dump(-1, ' ', true)))
      .with("run", family_name(family));
}

void write_gpt2(const ModelFacts& facts, Json* root) {
  for (const char* alias :
       {"hidden_size", "num_hidden_layers", "num_attention_heads", "max_position_embeddings"}) {
    root->erase(alias);
  }
  (*root)["n_positions"] = facts.sequence_length;
  if (root->contains("n_ctx")) (*root)["n_ctx"] = facts.sequence_length;
  (*root)["n_embd"] = facts.hidden;
  (*root)["n_layer"] = facts.layers;
  (*root)["n_head"] = facts.heads;
  Json& inner = (*root)["n_inner"];
  const bool is_usual = facts.feed_forward == 4 * facts.hidden;
  inner = is_usual && !inner.is_number() ? Json() : Json(facts.feed_forward);
  (*root)["layer_norm_epsilon"] = facts.norm_epsilon;
  Json& activation = (*root)["activation_function"];
  if (!is_text(activation, "gelu_pytorch_tanh")) activation = "gelu_new";
}

void write_llama(const ModelFacts& facts, Json* root) {
  (*root)["max_position_embeddings"] = facts.sequence_length;
  (*root)["hidden_size"] = facts.hidden;
  (*root)["intermediate_size"] = facts.feed_forward;
  (*root)["num_hidden_layers"] = facts.layers;
  (*root)["num_attention_heads"] = facts.heads;
  (*root)["num_key_value_heads"] = facts.key_value_heads;
  (*root)["head_dim"] = facts.head_size;
  (*root)["rms_norm_eps"] = facts.norm_epsilon;
  (*root)["rope_theta"] = facts.rope_base;
  if (root->contains("rope_scaling")) (*root)["rope_scaling"] = nullptr;
  if (root->contains("rope_parameters")) {
    (*root)["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", facts.rope_base}};
  }
  Json& activation = (*root)["hidden_act"];
  if (!is_text(activation, "swish")) activation = "silu";
}

}  // namespace

std::string write_hf_config(const ModelFacts& facts, DType dtype, std::string_view original) {
  Json root = parse_original(original, facts.family);
  const TreeEnd end(root);
  for (const HfKey& key : hf_keys(facts.family)) {
    if (key.use == HfKeyUse::kDefaultOnly && root.contains(key.name) &&
        root[key.name] != Json::parse(key.standard)) {
      root.erase(key.name);
    }
  }
  const bool is_gpt2 = facts.family == Family::kGpt2;
  root["model_type"] = family_name(facts.family);
  if (!root.contains("architectures")) {
    root["architectures"] = Json::array({is_gpt2 ? "GPT2LMHeadModel" : "LlamaForCausalLM"});
  }
  root["vocab_size"] = facts.vocab_size;
  root["tie_word_embeddings"] = facts.tied;
  root["torch_dtype"] = dtype_name(dtype);
  if (root.contains("dtype")) root["dtype"] = dtype_name(dtype);
  if (is_gpt2) {
    write_gpt2(facts, &root);
  } else {
    write_llama(facts, &root);
  }
  return root.dump(2) + "\n";
}

}  // namespace plait

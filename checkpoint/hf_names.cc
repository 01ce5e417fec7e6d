#include "checkpoint/hf_names.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr std::string_view kGpt2Prefix = "transformer.";

struct NamePair {
  const char* logical;
  const char* file;
};

// Inside a layer; ".weight" and ".bias" are left out.
constexpr NamePair kGpt2Layer[] = {
    {"attention_norm", "ln_1"},          {"attention.query", "attn.c_attn"},
    {"attention.key", "attn.c_attn"},    {"attention.value", "attn.c_attn"},
    {"attention.output", "attn.c_proj"}, {"feed_forward_norm", "ln_2"},
    {"feed_forward.up", "mlp.c_fc"},     {"feed_forward.down", "mlp.c_proj"},
};
constexpr NamePair kLlamaLayer[] = {
    {"attention_norm", "input_layernorm"},    {"attention.query", "self_attn.q_proj"},
    {"attention.key", "self_attn.k_proj"},    {"attention.value", "self_attn.v_proj"},
    {"attention.output", "self_attn.o_proj"}, {"feed_forward_norm", "post_attention_layernorm"},
    {"feed_forward.gate", "mlp.gate_proj"},   {"feed_forward.up", "mlp.up_proj"},
    {"feed_forward.down", "mlp.down_proj"},
};
constexpr NamePair kGpt2Outer[] = {
    {"embedding.token", "transformer.wte"},
    {"embedding.position", "transformer.wpe"},
    {"final_norm", "transformer.ln_f"},
};
constexpr NamePair kLlamaOuter[] = {
    {"embedding.token", "model.embed_tokens"}, {"final_norm", "model.norm"}, {"head", "lm_head"}};

template <size_t kCount>
std::string file_stem(const NamePair (&table)[kCount], std::string_view logical) {
  for (const NamePair& row : table) {
    if (logical == row.logical) return row.file;
  }
  throw Error("invariant", "a logical tensor without a place in the file").with("name", logical);
}

/// File name of the logical tensor `name`.
std::string file_name(ModelFacts::Family family, std::string_view name) {
  const bool is_gpt2 = family == ModelFacts::Family::kGpt2;
  const size_t dot = name.rfind('.');
  const std::string_view stem = name.substr(0, dot);
  const std::string suffix(name.substr(dot));
  constexpr std::string_view kLayers = "layers.";
  if (stem.substr(0, kLayers.size()) != kLayers) {
    return (is_gpt2 ? file_stem(kGpt2Outer, stem) : file_stem(kLlamaOuter, stem)) + suffix;
  }
  const size_t end = stem.find('.', kLayers.size());
  const std::string number(stem.substr(kLayers.size(), end - kLayers.size()));
  const std::string_view inner = stem.substr(end + 1);
  if (is_gpt2) return "transformer.h." + number + "." + file_stem(kGpt2Layer, inner) + suffix;
  return "model.layers." + number + "." + file_stem(kLlamaLayer, inner) + suffix;
}

/// gpt2 keeps the matrices of its layers [in, out]; its tables stay as they are.
bool is_transposed(const ModelFacts& facts, const CheckpointTensor& tensor) {
  return facts.family == ModelFacts::Family::kGpt2 && tensor.shape.dims() == 2 &&
         tensor.name.compare(0, 7, "layers.") == 0;
}

void check_expressible(const ModelFacts& facts) {
  if (facts.family != ModelFacts::Family::kGpt2) return;
  if (!facts.tied) {
    throw Error("unsupported_model", "a gpt2 directory always ties the head to the embedding")
        .with("key", "model.tied")
        .with("value", false)
        .with("expected", true);
  }
  if (facts.key_value_heads != facts.heads) {
    throw Error("unsupported_model", "a gpt2 directory has as many key/value heads as heads")
        .with("key", "model.key_value_heads")
        .with("value", facts.key_value_heads)
        .with("expected", facts.heads);
  }
  if (facts.heads * facts.head_size != facts.hidden) {
    throw Error("unsupported_model", "a gpt2 directory has heads · head_size = hidden")
        .with("key", "model.head_size")
        .with("value", facts.head_size)
        .with("heads", facts.heads)
        .with("hidden", facts.hidden);
  }
}

bool ends_with(std::string_view text, std::string_view end) {
  return text.size() >= end.size() && text.substr(text.size() - end.size()) == end;
}

}  // namespace

std::vector<HfTensor> hf_tensors(const ModelFacts& facts) {
  check_expressible(facts);
  std::vector<HfTensor> tensors;
  std::unordered_map<std::string, size_t> index;
  for (CheckpointTensor& logical : logical_tensors(facts)) {
    const std::string name = file_name(facts.family, logical.name);
    const auto [place, is_new] = index.emplace(name, tensors.size());
    if (is_new) {
      HfTensor tensor;
      tensor.name = name;
      tensor.transposed = is_transposed(facts, logical);
      tensors.push_back(std::move(tensor));
    }
    HfTensor& tensor = tensors[place->second];
    int64_t first = 0;
    if (!tensor.parts.empty()) {
      first = tensor.parts.back().first + tensor.parts.back().tensor.shape[0];
    }
    const int64_t rows = first + logical.shape[0];
    if (logical.shape.dims() == 1) {
      tensor.shape = {rows};
    } else if (tensor.transposed) {
      tensor.shape = {logical.shape[1], rows};
    } else {
      tensor.shape = {rows, logical.shape[1]};
    }
    tensor.parts.push_back({std::move(logical), first});
  }
  return tensors;
}

bool is_ignored_hf_tensor(std::string_view name) {
  return ends_with(name, ".attn.bias") || ends_with(name, ".attn.masked_bias") ||
         ends_with(name, ".rotary_emb.inv_freq");
}

std::string_view strip_hf_prefix(ModelFacts::Family family, std::string_view name) {
  const bool has_prefix =
      family == ModelFacts::Family::kGpt2 && name.substr(0, kGpt2Prefix.size()) == kGpt2Prefix;
  return has_prefix ? name.substr(kGpt2Prefix.size()) : name;
}

}  // namespace plait

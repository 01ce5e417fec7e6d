#include "engine/model/logical_tensors.h"

#include <unordered_map>

#include "kernels/base/error.h"
#include "kernels/base/random.h"

namespace plait {
namespace {

void add_layer(const ModelConfig& m, int64_t layer, std::vector<LogicalTensor>* out) {
  const bool has_bias = m.family == FamilyChoice::kGpt2;
  const auto add = [&](const char* suffix, const Shape& weight, int64_t bias) {
    out->push_back({layer_name(layer, std::string(suffix) + ".weight"), weight});
    if (has_bias) out->push_back({layer_name(layer, std::string(suffix) + ".bias"), {bias}});
  };
  const int64_t query = m.heads * m.head_size, key = m.key_value_heads * m.head_size;
  add("attention_norm", {m.hidden}, m.hidden);
  add("attention.query", {query, m.hidden}, query);
  add("attention.key", {key, m.hidden}, key);
  add("attention.value", {key, m.hidden}, key);
  add("attention.output", {m.hidden, query}, m.hidden);
  add("feed_forward_norm", {m.hidden}, m.hidden);
  if (!has_bias) add("feed_forward.gate", {m.feed_forward, m.hidden}, m.feed_forward);
  add("feed_forward.up", {m.feed_forward, m.hidden}, m.feed_forward);
  add("feed_forward.down", {m.hidden, m.feed_forward}, m.hidden);
}

}  // namespace

std::string layer_name(int64_t layer, const std::string& suffix) {
  return "layers." + std::to_string(layer) + "." + suffix;
}

std::vector<LogicalTensor> logical_tensors(const ModelConfig& model) {
  std::vector<LogicalTensor> out;
  out.push_back({"embedding.token.weight", {model.vocab_size, model.hidden}});
  if (model.family == FamilyChoice::kGpt2) {
    out.push_back({"embedding.position.weight", {model.sequence_length, model.hidden}});
  }
  for (int64_t layer = 0; layer < model.layers; ++layer) add_layer(model, layer, &out);
  out.push_back({"final_norm.weight", {model.hidden}});
  if (model.family == FamilyChoice::kGpt2) out.push_back({"final_norm.bias", {model.hidden}});
  if (!model.tied) out.push_back({"head.weight", {model.vocab_size, model.hidden}});
  return out;
}

std::vector<std::string> stream_names(const ModelConfig& model) {
  std::vector<std::string> names;
  for (const LogicalTensor& tensor : logical_tensors(model)) names.push_back("init/" + tensor.name);
  names.emplace_back("dropout/embedding");
  for (int64_t layer = 0; layer < model.layers; ++layer) {
    for (const char* site :
         {"attention.probabilities", "attention.output", "feed_forward.output"}) {
      names.push_back("dropout/" + layer_name(layer, site));
    }
  }
  return names;
}

void check_stream_keys(const ModelConfig& model, uint64_t seed) {
  std::unordered_map<uint64_t, std::string> seen;
  for (const std::string& name : stream_names(model)) {
    const PhiloxKey key = stream_key(name, seed);
    const auto [entry, is_new] = seen.try_emplace((uint64_t{key.high} << 32) | key.low, name);
    if (is_new) continue;
    throw Error("argument", "two random streams share a key under this seed; choose another")
        .with("key", "seed")
        .with("value", seed)
        .with("first", entry->second)
        .with("second", name);
  }
}

}  // namespace plait

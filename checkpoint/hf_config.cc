#include "checkpoint/hf_config.h"

#include <cmath>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>

#include "checkpoint/hf_keys.h"
#include "checkpoint/json_guard.h"
#include "kernels/base/error.h"
#include "kernels/base/json_end.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

using Json = nlohmann::json;
using Family = ModelFacts::Family;

/// Reads typed fields of one config.json; an absent or null key gives the fallback.
class Reader {
 public:
  Reader(const Json& root, const std::string& file) : root_(root), file_(file) {}

  Error invalid(const std::string& field, const std::string& sentence) const {
    return Error("invalid_field", sentence).with("file", file_).with("field", field);
  }

  Error unsupported(const std::string& key, const Json& value, const std::string& reason) const {
    return Error("unsupported_model", reason)
        .with("file", file_)
        .with("key", key)
        .with_raw("value", json_excerpt(value.dump(-1, ' ', true)));
  }

  /// Null when the key is absent or null.
  const Json* find(const char* key) const {
    const auto place = root_.find(key);
    return place == root_.end() || place->is_null() ? nullptr : &*place;
  }

  /// The first of `keys` that is there; two that differ are refused.
  int64_t integer(std::initializer_list<const char*> keys, std::optional<int64_t> fallback,
                  int64_t limit) const {
    const char* found = nullptr;
    int64_t result = 0;
    for (const char* key : keys) {
      const Json* value = find(key);
      if (value == nullptr) continue;
      const int64_t number = checked_integer(key, *value, limit);
      if (found != nullptr && number != result) {
        throw invalid(key, "two keys of one meaning differ")
            .with("value", number)
            .with("expected", result);
      }
      if (found == nullptr) found = key;
      result = number;
    }
    if (found != nullptr) return result;
    if (fallback) return *fallback;
    throw invalid(*keys.begin(), "a needed key is missing");
  }

  /// In (low, high].
  double real(const char* key, double fallback, double low, double high) const {
    const Json* value = find(key);
    return value == nullptr ? fallback : checked_real(key, *value, low, high);
  }

  double checked_real(const std::string& field, const Json& value, double low, double high) const {
    const double number = value.is_number() ? value.get<double>() : std::nan("");
    if (number > low && number <= high) return number;
    throw invalid(field, "not a number in the allowed range")
        .with_raw("value", json_excerpt(value.dump(-1, ' ', true)))
        .with("minimum", low)
        .with("limit", high);
  }

  bool boolean(const char* key, bool fallback) const {
    const Json* value = find(key);
    if (value == nullptr) return fallback;
    if (value->is_boolean()) return value->get<bool>();
    throw invalid(key, "neither true nor false")
        .with_raw("value", json_excerpt(value->dump(-1, ' ', true)));
  }

  std::string text(const char* key, const char* fallback) const {
    const Json* value = find(key);
    if (value == nullptr && fallback != nullptr) return fallback;
    if (value == nullptr) throw invalid(key, "a needed key is missing");
    if (value->is_string()) return value->get<std::string>();
    throw invalid(key, "not a text").with_raw("value", json_excerpt(value->dump(-1, ' ', true)));
  }

 private:
  int64_t checked_integer(const char* key, const Json& value, int64_t limit) const {
    if (value.is_number_unsigned() && value.get<uint64_t>() >= 1 &&
        value.get<uint64_t>() <= static_cast<uint64_t>(limit)) {
      return value.get<int64_t>();
    }
    throw invalid(key, "not an integer in the allowed range")
        .with_raw("value", json_excerpt(value.dump(-1, ' ', true)))
        .with("minimum", 1)
        .with("limit", limit);
  }

  const Json& root_;
  const std::string& file_;
};

void check_divides(const Reader& reader, const char* field, int64_t value, int64_t divisor) {
  if (value % divisor == 0) return;
  throw reader.invalid(field, "a size does not divide")
      .with("value", value)
      .with("divisor", divisor);
}

void read_gpt2(const Reader& reader, ModelFacts* facts) {
  facts->hidden = reader.integer({"n_embd", "hidden_size"}, {}, HfLimits::kWidth);
  facts->layers = reader.integer({"n_layer", "num_hidden_layers"}, {}, HfLimits::kLayers);
  facts->heads = reader.integer({"n_head", "num_attention_heads"}, {}, HfLimits::kWidth);
  facts->sequence_length =
      reader.integer({"n_positions", "max_position_embeddings"}, {}, HfLimits::kSequence);
  facts->feed_forward = reader.integer({"n_inner"}, 4 * facts->hidden, HfLimits::kFeedForward);
  check_divides(reader, "n_head", facts->hidden, facts->heads);
  facts->key_value_heads = facts->heads;
  facts->head_size = facts->hidden / facts->heads;
  facts->norm_epsilon = reader.real("layer_norm_epsilon", 1e-5, 0.0, 1.0);
  facts->tied = reader.boolean("tie_word_embeddings", true);
  if (!facts->tied) {
    throw reader.unsupported("tie_word_embeddings", false,
                             "a gpt2 model with a head of its own is not built");
  }
  const std::string activation = reader.text("activation_function", "gelu_new");
  // One function under two names: the tanh form.
  if (activation != "gelu_new" && activation != "gelu_pytorch_tanh") {
    throw reader.unsupported("activation_function", activation, "the activation is not built");
  }
}

/// Refuses whatever scales the rotation; `key` holds a table or is absent.
void check_rope_table(const Reader& reader, const char* key) {
  const Json* table = reader.find(key);
  if (table == nullptr) return;
  if (!table->is_object()) throw reader.invalid(key, "not a table");
  for (const auto& [name, value] : table->items()) {
    const bool is_type = name == "rope_type" || name == "type";
    const bool is_plain = (is_type && is_text(value, "default")) || name == "rope_theta" ||
                          (name == "partial_rotary_factor" && value == 1.0);
    if (is_plain || value.is_null()) continue;
    throw reader.unsupported(std::string(key) + "." + shorten(name), value,
                             "scaling of rotary positions is not built");
  }
}

double read_rope_base(const Reader& reader) {
  constexpr double kHighest = 1e15;
  check_rope_table(reader, "rope_scaling");
  check_rope_table(reader, "rope_parameters");
  const bool has_outer = reader.find("rope_theta") != nullptr;
  const double outer = reader.real("rope_theta", 10000.0, 0.0, kHighest);
  const Json* table = reader.find("rope_parameters");
  if (table == nullptr || !table->contains("rope_theta")) return outer;
  const char* field = "rope_parameters.rope_theta";
  const double inner = reader.checked_real(field, table->at("rope_theta"), 0.0, kHighest);
  if (has_outer && inner != outer) {
    throw reader.invalid(field, "two keys of one meaning differ")
        .with("value", inner)
        .with("expected", outer);
  }
  return inner;
}

void read_llama(const Reader& reader, ModelFacts* facts) {
  facts->hidden = reader.integer({"hidden_size"}, {}, HfLimits::kWidth);
  facts->layers = reader.integer({"num_hidden_layers"}, {}, HfLimits::kLayers);
  facts->heads = reader.integer({"num_attention_heads"}, {}, HfLimits::kWidth);
  facts->sequence_length = reader.integer({"max_position_embeddings"}, {}, HfLimits::kSequence);
  facts->feed_forward = reader.integer({"intermediate_size"}, {}, HfLimits::kFeedForward);
  facts->key_value_heads = reader.integer({"num_key_value_heads"}, facts->heads, HfLimits::kWidth);
  check_divides(reader, "num_key_value_heads", facts->heads, facts->key_value_heads);
  if (reader.find("head_dim") == nullptr) {
    check_divides(reader, "num_attention_heads", facts->hidden, facts->heads);
  }
  facts->head_size = reader.integer({"head_dim"}, facts->hidden / facts->heads,
                                    HfLimits::kFeedForward / facts->heads);
  if (facts->head_size % 2 != 0) {
    throw reader.invalid("head_dim", "rotary positions need an even head size")
        .with("value", facts->head_size)
        .with("divisor", 2);
  }
  facts->norm_epsilon = reader.real("rms_norm_eps", 1e-6, 0.0, 1.0);
  facts->rope_base = read_rope_base(reader);
  facts->tied = reader.boolean("tie_word_embeddings", false);
  const std::string activation = reader.text("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    throw reader.unsupported("hidden_act", activation, "the activation is not built");
  }
}

/// Every key of the file: used, harmless, at its default, or a warning.
void check_keys(const Reader& reader, const Json& root, HfConfig* config) {
  const std::vector<HfKey> keys = hf_keys(config->facts.family);
  for (const auto& [name, value] : root.items()) {
    const HfKey* key = find_hf_key(keys, name);
    if (key == nullptr) {
      config->warnings.push_back("config.json: unknown key " + json_string(shorten(name)) +
                                 " is ignored");
    } else if (key->use == HfKeyUse::kDefaultOnly) {
      if (value.is_null() || value == Json::parse(key->standard)) continue;
      throw reader.unsupported(name, value, "the option changes the model and is not built");
    } else if (key->use == HfKeyUse::kDropout && !value.is_null()) {
      const double rate = reader.checked_real(name, value, -0x1p-1074, 1.0);
      config->notes.push_back("config.json: " + name + " = " + json_number(rate) +
                              " is a training setting and not imported");
    }
  }
}

}  // namespace

HfConfig parse_hf_config(std::string text, const std::string& file) {
  guard_json(text, JsonLimits{}, file);
  Json root = Json::parse(text);
  const TreeEnd end(root);
  const Reader reader(root, file);
  HfConfig config;
  const std::string type = reader.text("model_type", nullptr);
  if (type != "gpt2" && type != "llama") {
    throw reader.unsupported("model_type", type, "the model family is not built")
        .with_raw("supported", R"(["gpt2","llama"])");
  }
  config.facts.family = type == "gpt2" ? Family::kGpt2 : Family::kLlama;
  check_keys(reader, root, &config);
  config.facts.vocab_size = reader.integer({"vocab_size"}, {}, HfLimits::kVocabulary);
  if (config.facts.family == Family::kGpt2) {
    read_gpt2(reader, &config.facts);
  } else {
    read_llama(reader, &config.facts);
  }
  config.keys = model_keys(config.facts);
  config.text = std::move(text);
  return config;
}

HfConfig read_hf_config(Files& files, const std::string& directory) {
  const std::string path = join_path(directory, "config.json");
  const std::unique_ptr<File> file = files.open_read(path);
  const int64_t bytes = file->size();
  if (bytes > HfLimits::kConfigBytes) {
    throw Error("invalid_field", "the file is too large for a model's configuration")
        .with("file", path)
        .with("field", "file bytes")
        .with("value", bytes)
        .with("limit", HfLimits::kConfigBytes);
  }
  std::string text(static_cast<size_t>(bytes), '\0');
  file->read_exactly(text.data(), bytes, 0, "invalid_field");
  return parse_hf_config(std::move(text), path);
}

std::vector<std::pair<std::string, std::string>> model_keys(const ModelFacts& facts) {
  std::vector<std::pair<std::string, std::string>> keys = {
      {"model.family", family_name(facts.family)},
      {"model.layers", std::to_string(facts.layers)},
      {"model.hidden", std::to_string(facts.hidden)},
      {"model.heads", std::to_string(facts.heads)},
      {"model.vocab_size", std::to_string(facts.vocab_size)},
      {"model.sequence_length", std::to_string(facts.sequence_length)},
      {"model.key_value_heads", std::to_string(facts.key_value_heads)},
      {"model.head_size", std::to_string(facts.head_size)},
      {"model.feed_forward", std::to_string(facts.feed_forward)},
      {"model.tied", facts.tied ? "true" : "false"},
      {"model.norm_epsilon", json_number(facts.norm_epsilon)},
  };
  if (facts.family == Family::kLlama) {
    keys.emplace_back("model.rope_base", json_number(facts.rope_base));
  }
  return keys;
}

}  // namespace plait

#include "checkpoint/hf_config.h"

#include <catch2/catch.hpp>
#include <map>
#include <nlohmann/json.hpp>

#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

using Json = nlohmann::json;

Json gpt2_json() {
  return {{"model_type", "gpt2"}, {"vocab_size", 50257}, {"n_positions", 1024},
          {"n_embd", 768},        {"n_layer", 12},       {"n_head", 12}};
}

Json llama_json() {
  return {{"model_type", "llama"},          {"vocab_size", 32000},     {"hidden_size", 4096},
          {"intermediate_size", 11008},     {"num_hidden_layers", 32}, {"num_attention_heads", 32},
          {"max_position_embeddings", 4096}};
}

HfConfig parse(const Json& root) { return parse_hf_config(root.dump(), "config.json"); }

std::map<std::string, std::string> keys_of(const HfConfig& config) {
  return {config.keys.begin(), config.keys.end()};
}

TEST_CASE("absent keys of gpt2 have their defaults") {
  for (const bool is_null : {false, true}) {
    Json root = gpt2_json();
    if (is_null) root["n_inner"] = nullptr;
    const HfConfig config = parse(root);
    auto keys = keys_of(config);
    CHECK(keys["model.family"] == "gpt2");
    CHECK(keys["model.layers"] == "12");
    CHECK(keys["model.hidden"] == "768");
    CHECK(keys["model.heads"] == "12");
    CHECK(keys["model.key_value_heads"] == "12");
    CHECK(keys["model.head_size"] == "64");
    CHECK(keys["model.feed_forward"] == "3072");
    CHECK(keys["model.vocab_size"] == "50257");
    CHECK(keys["model.sequence_length"] == "1024");
    CHECK(keys["model.tied"] == "true");
    CHECK(config.facts.norm_epsilon == 1e-5);
    CHECK(keys.count("model.rope_base") == 0);
    CHECK(config.warnings.empty());
    CHECK(config.text == root.dump());
  }
}

TEST_CASE("absent keys of llama have their defaults") {
  const HfConfig config = parse(llama_json());
  auto keys = keys_of(config);
  CHECK(keys["model.family"] == "llama");
  CHECK(keys["model.key_value_heads"] == "32");
  CHECK(keys["model.head_size"] == "128");
  CHECK(keys["model.feed_forward"] == "11008");
  CHECK(keys["model.tied"] == "false");
  CHECK(config.facts.norm_epsilon == 1e-6);
  CHECK(config.facts.rope_base == 10000.0);
  CHECK(keys.count("model.rope_base") == 1);
}

TEST_CASE("present keys are used") {
  Json root = llama_json();
  root["num_key_value_heads"] = 8;
  root["head_dim"] = 96;
  root["rms_norm_eps"] = 1e-5;
  root["rope_theta"] = 500000.0;
  root["tie_word_embeddings"] = true;
  root["rope_scaling"] = nullptr;
  const ModelFacts facts = parse(root).facts;
  CHECK(facts.key_value_heads == 8);
  CHECK(facts.head_size == 96);
  CHECK(facts.norm_epsilon == 1e-5);
  CHECK(facts.rope_base == 500000.0);
  CHECK(facts.tied);
  root.erase("rope_theta");
  root["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 250000.0}};
  CHECK(parse(root).facts.rope_base == 250000.0);
  Json other = gpt2_json();
  other["n_inner"] = 1000;
  other["layer_norm_epsilon"] = 2e-5;
  other["activation_function"] = "gelu_pytorch_tanh";
  CHECK(parse(other).facts.feed_forward == 1000);
  CHECK(parse(other).facts.norm_epsilon == 2e-5);
}

TEST_CASE("gpt2 sizes may stand under the names common to all families") {
  Json root = gpt2_json();
  root.erase("n_embd");
  root["hidden_size"] = 384;
  CHECK(parse(root).facts.hidden == 384);
  root["n_embd"] = 768;
  require_error([&] { parse(root); }, "invalid_field",
                {"field=hidden_size", "value=384", "expected=768"});
}

TEST_CASE("dropout rates are noted, unknown keys are warnings, known harmless ones are silent") {
  Json root = gpt2_json();
  root["resid_pdrop"] = 0.25;
  root["transformers_version"] = "4.40.0";
  root["eos_token_id"] = 50256;
  root["strange"] = {{"a", 1}};
  const HfConfig config = parse(root);
  REQUIRE(config.warnings.size() == 1);
  CHECK_THAT(config.warnings[0], Catch::Matchers::Contains("strange"));
  REQUIRE(config.notes.size() == 1);
  CHECK_THAT(config.notes[0], Catch::Matchers::Contains("resid_pdrop = 0.25"));
}

struct Change {
  const char* family;
  const char* key;
  Json value;
};

TEST_CASE("whatever changes the function and is not built is refused by name") {
  const Change changes[] = {
      {"gpt2", "model_type", "gpt_neo"},
      {"gpt2", "model_type", "mistral"},
      {"gpt2", "activation_function", "gelu"},
      {"gpt2", "activation_function", "relu"},
      {"gpt2", "scale_attn_weights", false},
      {"gpt2", "scale_attn_by_inverse_layer_idx", true},
      {"gpt2", "reorder_and_upcast_attn", true},
      {"gpt2", "tie_word_embeddings", false},
      {"gpt2", "add_cross_attention", true},
      {"gpt2", "is_encoder_decoder", true},
      {"gpt2", "pruned_heads", {{"1", {0}}}},
      {"gpt2", "quantization_config", {{"bits", 4}}},
      {"gpt2", "auto_map", {{"AutoModel", "code.Model"}}},
      {"llama", "hidden_act", "gelu"},
      {"llama", "rope_scaling", {{"type", "linear"}, {"factor", 2.0}}},
      {"llama", "rope_scaling", {{"rope_type", "llama3"}}},
      {"llama", "rope_parameters", {{"rope_type", "yarn"}, {"rope_theta", 1e4}}},
      {"llama", "rope_parameters", {{"rope_theta", 1e4}, {"factor", 8.0}}},
      {"llama", "attention_bias", true},
      {"llama", "mlp_bias", true},
      {"llama", "partial_rotary_factor", 0.5},
      {"llama", "sliding_window", 4096},
      {"llama", "quantization_config", {{"quant_method", "gptq"}}},
  };
  for (const Change& change : changes) {
    Json root = std::string(change.family) == "gpt2" ? gpt2_json() : llama_json();
    root[change.key] = change.value;
    INFO(change.key);
    require_error([&] { parse(root); }, "unsupported_model", {"key=", change.key, "config.json"});
  }
}

TEST_CASE("a default that is spelled out is accepted") {
  Json root = gpt2_json();
  root.update({{"scale_attn_weights", true},
               {"scale_attn_by_inverse_layer_idx", false},
               {"reorder_and_upcast_attn", false},
               {"pruned_heads", Json::object()},
               {"quantization_config", nullptr},
               {"is_encoder_decoder", false}});
  CHECK_NOTHROW(parse(root));
  root = llama_json();
  root.update({{"attention_bias", false},
               {"mlp_bias", nullptr},
               {"partial_rotary_factor", 1.0},
               {"rope_scaling", {{"rope_type", "default"}}},
               {"pretraining_tp", 2}});
  CHECK_NOTHROW(parse(root));
}

TEST_CASE("hostile values are refused with path, value and limit") {
  const Change changes[] = {
      {"gpt2", "n_embd", 0},
      {"gpt2", "n_embd", -768},
      {"gpt2", "n_embd", 768.0},
      {"gpt2", "n_embd", "768"},
      {"gpt2", "n_embd", Json::array()},
      {"gpt2", "n_embd", 18446744073709551615u},
      {"gpt2", "n_embd", (1 << 20) + 1},
      {"gpt2", "n_layer", 8193},
      {"gpt2", "n_head", 7},
      {"gpt2", "n_head", 1 << 30},
      {"gpt2", "n_inner", (1 << 22) + 1},
      {"gpt2", "vocab_size", int64_t{1} << 31},
      {"gpt2", "n_positions", int64_t{1} << 40},
      {"gpt2", "layer_norm_epsilon", 0.0},
      {"gpt2", "layer_norm_epsilon", -1e-5},
      {"gpt2", "layer_norm_epsilon", "small"},
      {"gpt2", "tie_word_embeddings", 1},
      {"gpt2", "activation_function", 3},
      {"gpt2", "resid_pdrop", 2.0},
      {"gpt2", "model_type", 7},
      {"llama", "num_key_value_heads", 5},
      {"llama", "num_key_value_heads", 64},
      {"llama", "head_dim", 0},
      {"llama", "head_dim", 63},
      {"llama", "head_dim", 1 << 18},
      {"llama", "hidden_size", 4097},
      {"llama", "rope_theta", 0.0},
      {"llama", "rope_theta", 1e300},
      {"llama", "rope_parameters", 3},
      {"llama", "rope_parameters", {{"rope_theta", -1.0}}},
  };
  for (const Change& change : changes) {
    Json root = std::string(change.family) == "gpt2" ? gpt2_json() : llama_json();
    root[change.key] = change.value;
    INFO(change.key << " " << change.value);
    require_error([&] { parse(root); }, "invalid_field", {"file=config.json", "field="});
  }
  Json both = llama_json();
  both["rope_theta"] = 10000.0;
  both["rope_parameters"] = {{"rope_theta", 20000.0}};
  require_error([&] { parse(both); }, "invalid_field", {"rope_parameters.rope_theta", "20000"});
  for (const char* key :
       {"model_type", "vocab_size", "n_embd", "n_layer", "n_head", "n_positions"}) {
    Json root = gpt2_json();
    root.erase(key);
    require_error([&] { parse(root); }, "invalid_field", {key, "missing"});
  }
  for (const char* key : {"hidden_size", "intermediate_size", "num_hidden_layers",
                          "num_attention_heads", "max_position_embeddings"}) {
    Json root = llama_json();
    root[key] = nullptr;
    require_error([&] { parse(root); }, "invalid_field", {key, "missing"});
  }
}

TEST_CASE("text that is no plain JSON object is refused") {
  const std::string good = gpt2_json().dump();
  const std::string texts[] = {
      "",
      "[]",
      "null",
      "7",
      good + "x",
      good.substr(0, good.size() - 1),
      "\xEF\xBB\xBF" + good,
      R"({"model_type":"gpt2","model_type":"llama"})",
      R"({"model_type":"gpt2","a":{"b":1,"b":2}})",
      R"({"model_type":NaN})",
      R"({"model_type":1e999})",
      "{\"model_type\":\"gp\xFFt2\"}",
      R"({"model_type":)" + std::string(1000, '[') + std::string(1000, ']') + "}",
      R"({"model_type":")" + std::string((1 << 22) + 1, 'a') + R"("})",
  };
  for (const std::string& text : texts) {
    INFO(text.substr(0, 60));
    require_error([&] { parse_hf_config(text, "c.json"); }, "invalid_field", {"file=c.json"});
  }
  std::string many = R"({"a":[0)";
  for (int i = 0; i < 1 << 17; ++i) many += ",0";
  require_error([&] { parse_hf_config(many + "]}", "c.json"); }, "invalid_field",
                {"too many values", "limit=131072"});
  const TempDirectory directory;
  directory.write("config.json", std::string((1 << 22) + 1, ' '));
  require_error([&] { read_hf_config(posix_env().files, directory.path()); }, "invalid_field",
                {"config.json", "limit=4194304"});
  require_error([&] { read_hf_config(posix_env().files, directory.path("none")); }, "no_file");
}

TEST_CASE("a written configuration reads back as the same model") {
  for (ModelFacts facts : {gpt2_facts(), llama_facts()}) {
    facts.norm_epsilon = 3e-6;
    if (facts.family == ModelFacts::Family::kLlama) facts.rope_base = 12345.5;
    const std::string text = write_hf_config(facts, DType::kBFloat16, "");
    CHECK(parse_hf_config(text, "c").facts == facts);
    const Json root = Json::parse(text);
    CHECK(root["torch_dtype"] == "bfloat16");
    CHECK(root["tie_word_embeddings"] == facts.tied);
    CHECK(root["architectures"].size() == 1);
    CHECK(write_hf_config(facts, DType::kBFloat16, text) == text);
  }
}

TEST_CASE("a written configuration keeps what Plait does not know and rewrites what it does") {
  Json original = gpt2_json();
  original.update({{"strange", {1, 2}},
                   {"torch_dtype", "float64"},
                   {"dtype", "float64"},
                   {"n_ctx", 5},
                   {"hidden_size", 768},
                   {"resid_pdrop", 0.1},
                   {"scale_attn_weights", false},
                   {"activation_function", "relu"},
                   {"eos_token_id", 3}});
  const ModelFacts facts = gpt2_facts();
  const std::string text = write_hf_config(facts, DType::kFloat16, original.dump());
  const Json root = Json::parse(text);
  CHECK(root["strange"] == Json({1, 2}));
  CHECK(root["eos_token_id"] == 3);
  CHECK(root["resid_pdrop"] == 0.1);
  CHECK(root["torch_dtype"] == "float16");
  CHECK(root["dtype"] == "float16");
  CHECK(root["n_ctx"] == facts.sequence_length);
  CHECK(root["vocab_size"] == facts.vocab_size);
  CHECK(root["activation_function"] == "gelu_new");
  CHECK_FALSE(root.contains("scale_attn_weights"));
  CHECK(parse_hf_config(text, "c").facts == facts);
  Json llama = llama_json();
  llama.update({{"rope_parameters", {{"rope_type", "yarn"}, {"factor", 4}}},
                {"rope_scaling", {{"type", "linear"}}},
                {"head_dim", 2}});
  const std::string other = write_hf_config(llama_facts(), DType::kFloat32, llama.dump());
  CHECK(parse_hf_config(other, "c").facts == llama_facts());
  require_error([&] { write_hf_config(facts, DType::kFloat32, llama.dump()); }, "config_mismatch",
                {"llama", "gpt2"});
}

}  // namespace
}  // namespace plait

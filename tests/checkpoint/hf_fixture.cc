#include "tests/checkpoint/hf_fixture.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>

namespace plait {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

std::string shape_text(const std::vector<int64_t>& shape) { return Json(shape).dump(); }

int64_t volume(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (int64_t size : shape) product *= size;
  return product;
}

uint64_t next_bits(uint64_t* state) {  // splitmix64, Steele, Lea and Flood 2014
  uint64_t z = (*state += 0x9E3779B97F4A7C15u);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

template <class T>
void append(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

template <class T>
T at(const std::string& bytes, int64_t i) {
  T value;
  std::memcpy(&value, bytes.data() + i * static_cast<int64_t>(sizeof value), sizeof value);
  return value;
}

}  // namespace

TempDirectory::TempDirectory() {
  std::string pattern = (fs::temp_directory_path() / "plait-test-XXXXXX").string();
  REQUIRE(mkdtemp(pattern.data()) != nullptr);
  path_ = pattern;
}

TempDirectory::~TempDirectory() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

std::string TempDirectory::path(const std::string& name) const {
  return name.empty() ? path_ : path_ + "/" + name;
}

std::string TempDirectory::write(const std::string& name, const std::string& bytes) const {
  const fs::path full = path(name);
  fs::create_directories(full.parent_path());
  std::ofstream(full, std::ios::binary) << bytes;
  return full.string();
}

std::vector<std::string> TempDirectory::names() const {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(path_)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

std::string safetensors_file(const std::string& header, const std::string& data) {
  std::string bytes;
  append(&bytes, static_cast<uint64_t>(header.size()));
  return bytes + header + data;
}

std::string safetensors_file(const std::vector<RawTensor>& tensors, int spaces) {
  std::ostringstream header;
  std::string data;
  header << "{";
  for (size_t i = 0; i < tensors.size(); ++i) {
    header << (i ? "," : "") << Json(tensors[i].name) << R"(:{"shape":)"
           << shape_text(tensors[i].shape) << R"(,"dtype":")" << tensors[i].dtype
           << R"(","data_offsets":[)" << data.size() << "," << data.size() + tensors[i].bytes.size()
           << "]}";
    data += tensors[i].bytes;
  }
  header << "}" << std::string(static_cast<size_t>(spaces), ' ');
  return safetensors_file(header.str(), data);
}

std::string read_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  REQUIRE(stream.good());
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

std::map<std::string, RawTensor> read_safetensors(const std::string& path) {
  const std::string bytes = read_text(path);
  const auto header_bytes = at<uint64_t>(bytes, 0);
  const Json header = Json::parse(bytes.substr(8, header_bytes));
  std::map<std::string, RawTensor> tensors;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    tensors[name] = {name, entry["dtype"], entry["shape"],
                     bytes.substr(8 + header_bytes + begin, end - begin)};
  }
  return tensors;
}

RawTensor random_tensor(const std::string& name, const std::string& dtype,
                        const std::vector<int64_t>& shape) {
  RawTensor tensor{name, dtype, shape, ""};
  uint64_t state = std::hash<std::string>{}(name + dtype);
  for (int64_t i = 0; i < volume(shape); ++i) {
    const uint64_t bits = next_bits(&state);
    const uint64_t sign = bits >> 63;
    if (dtype == "F32") {  // exponents 100 to 154
      append(&tensor.bytes, static_cast<uint32_t>(sign << 31 | (100 + (bits >> 40) % 55) << 23 |
                                                  (bits & 0x7FFFFF)));
    } else if (dtype == "F64") {  // exponents 990 to 1055: about 2^-33 to 2^32
      append(&tensor.bytes,
             sign << 63 | (990 + (bits >> 54) % 65) << 52 | (next_bits(&state) >> 12));
    } else if (dtype == "F16") {  // every finite pattern
      append(&tensor.bytes,
             static_cast<uint16_t>(sign << 15 | (bits >> 20) % 31 << 10 | (bits & 0x3FF)));
    } else {
      append(&tensor.bytes,
             static_cast<uint16_t>(sign << 15 | (bits >> 20) % 255 << 7 | (bits & 0x7F)));
    }
  }
  return tensor;
}

float element(const RawTensor& tensor, int64_t i) {
  if (tensor.dtype == "F32") return at<float>(tensor.bytes, i);
  if (tensor.dtype == "F64") return static_cast<float>(at<double>(tensor.bytes, i));
  const auto bits = at<uint16_t>(tensor.bytes, i);
  if (tensor.dtype == "BF16") return std::bit_cast<float>(uint32_t{bits} << 16);
  const int exponent = bits >> 10 & 31, mantissa = bits & 0x3FF;
  const double magnitude =
      exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25);
  return static_cast<float>(bits >> 15 ? -magnitude : magnitude);
}

ModelFacts gpt2_facts() {
  ModelFacts facts;
  facts.family = ModelFacts::Family::kGpt2;
  facts.layers = 2;
  facts.hidden = 12;
  facts.heads = facts.key_value_heads = 3;
  facts.head_size = 4;
  facts.feed_forward = 20;
  facts.vocab_size = 37;
  facts.sequence_length = 9;
  return facts;
}

ModelFacts llama_facts() {
  ModelFacts facts;
  facts.family = ModelFacts::Family::kLlama;
  facts.layers = 2;
  facts.hidden = 12;
  facts.heads = 4;
  facts.key_value_heads = 2;
  facts.head_size = 6;
  facts.feed_forward = 10;
  facts.vocab_size = 41;
  facts.sequence_length = 64;
  facts.tied = false;
  facts.norm_epsilon = 1e-6;
  return facts;
}

std::string config_text(const ModelFacts& facts) {
  Json root;
  root["model_type"] = facts.family == ModelFacts::Family::kGpt2 ? "gpt2" : "llama";
  root["vocab_size"] = facts.vocab_size;
  root["tie_word_embeddings"] = facts.tied;
  if (facts.family == ModelFacts::Family::kGpt2) {
    root["n_embd"] = facts.hidden;
    root["n_layer"] = facts.layers;
    root["n_head"] = facts.heads;
    root["n_positions"] = facts.sequence_length;
    root["n_inner"] = facts.feed_forward;
    root["layer_norm_epsilon"] = facts.norm_epsilon;
  } else {
    root["hidden_size"] = facts.hidden;
    root["num_hidden_layers"] = facts.layers;
    root["num_attention_heads"] = facts.heads;
    root["num_key_value_heads"] = facts.key_value_heads;
    root["head_dim"] = facts.head_size;
    root["intermediate_size"] = facts.feed_forward;
    root["max_position_embeddings"] = facts.sequence_length;
    root["rms_norm_eps"] = facts.norm_epsilon;
    root["rope_theta"] = facts.rope_base;
  }
  return root.dump();
}

std::vector<RawTensor> model_tensors(const ModelFacts& facts, const std::string& dtype,
                                     const std::string& prefix) {
  std::vector<RawTensor> tensors;
  const int64_t h = facts.hidden, f = facts.feed_forward;
  const auto add = [&](const std::string& name, const std::vector<int64_t>& shape) {
    tensors.push_back(random_tensor(name, dtype, shape));
  };
  if (facts.family == ModelFacts::Family::kLlama) {
    const int64_t q = facts.heads * facts.head_size, k = facts.key_value_heads * facts.head_size;
    add("model.embed_tokens.weight", {facts.vocab_size, h});
    for (int64_t i = 0; i < facts.layers; ++i) {
      const std::string layer = "model.layers." + std::to_string(i) + ".";
      add(layer + "input_layernorm.weight", {h});
      add(layer + "self_attn.q_proj.weight", {q, h});
      add(layer + "self_attn.k_proj.weight", {k, h});
      add(layer + "self_attn.v_proj.weight", {k, h});
      add(layer + "self_attn.o_proj.weight", {h, q});
      add(layer + "post_attention_layernorm.weight", {h});
      add(layer + "mlp.gate_proj.weight", {f, h});
      add(layer + "mlp.up_proj.weight", {f, h});
      add(layer + "mlp.down_proj.weight", {h, f});
    }
    add("model.norm.weight", {h});
    if (!facts.tied) add("lm_head.weight", {facts.vocab_size, h});
    return tensors;
  }
  const auto add_pair = [&](const std::string& name, const std::vector<int64_t>& shape) {
    add(name + ".weight", shape);
    add(name + ".bias", {shape.back()});
  };
  add(prefix + "wte.weight", {facts.vocab_size, h});
  add(prefix + "wpe.weight", {facts.sequence_length, h});
  for (int64_t i = 0; i < facts.layers; ++i) {
    const std::string layer = prefix + "h." + std::to_string(i) + ".";
    add_pair(layer + "ln_1", {h});
    add_pair(layer + "attn.c_attn", {h, 3 * h});
    add_pair(layer + "attn.c_proj", {h, h});
    add_pair(layer + "ln_2", {h});
    add_pair(layer + "mlp.c_fc", {h, f});
    add_pair(layer + "mlp.c_proj", {f, h});
  }
  add_pair(prefix + "ln_f", {h});
  return tensors;
}

std::string write_model(const TempDirectory& directory, const std::string& name,
                        const ModelFacts& facts, const std::vector<RawTensor>& tensors) {
  directory.write(name + "/config.json", config_text(facts));
  directory.write(name + "/model.safetensors", safetensors_file(tensors));
  return directory.path(name);
}

std::string write_sharded_model(const TempDirectory& directory, const std::string& name,
                                const ModelFacts& facts, const std::vector<RawTensor>& tensors,
                                int shards) {
  directory.write(name + "/config.json", config_text(facts));
  Json index;
  uint64_t total = 0;
  for (int shard = 0; shard < shards; ++shard) {
    const std::string file = "part_" + std::to_string(shard) + ".safetensors";
    std::vector<RawTensor> mine;
    for (size_t i = static_cast<size_t>(shard); i < tensors.size();
         i += static_cast<size_t>(shards)) {
      mine.push_back(tensors[i]);
      index["weight_map"][tensors[i].name] = file;
      total += tensors[i].bytes.size();
    }
    directory.write(name + "/" + file, safetensors_file(mine, shard));
  }
  index["metadata"]["total_size"] = total;
  directory.write(name + "/model.safetensors.index.json", index.dump());
  return directory.path(name);
}

void require_error(const std::function<void()>& action, const std::string& word,
                   const std::vector<std::string>& parts) {
  std::string got_word = "no error", message;
  try {
    action();
  } catch (const Error& error) {
    got_word = error.word();
    message = error.message();
  }
  INFO(message);
  REQUIRE(got_word == word);
  for (const std::string& part : parts) REQUIRE_THAT(message, Catch::Matchers::Contains(part));
}

}  // namespace plait

#include "tests/capi/host.h"

#include <unistd.h>

#include <cstring>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace host {
namespace {

void require(int32_t code, const Err& err) {
  if (code != PLAIT_OK) throw std::runtime_error(err.message());
}

}  // namespace

std::vector<int32_t> Bytes::integers() const {
  std::vector<int32_t> values(static_cast<size_t>(plait_bytes_size(*this)) / 4);
  if (!values.empty()) std::memcpy(values.data(), plait_bytes_data(*this), values.size() * 4);
  return values;
}

Context make_context() {
  Context context;
  Err err;
  require(plait_context_create(PLAIT_API_VERSION, nullptr, context.out(), err), err);
  return context;
}

Config make_config(plait_context* context, const std::string& json) {
  Config config;
  Err err;
  require(plait_config_create(context, config.out(), err), err);
  require(plait_config_load(config, json.data(), static_cast<int64_t>(json.size()), err), err);
  return config;
}

Group make_group(plait_context* context, plait_config* config) {
  Group group;
  Err err;
  require(plait_group_create(context, config, 0, 1, 1, group.out(), err), err);
  return group;
}

std::string tiny_model() {
  return R"({"model":{"family":"gpt2","layers":1,"hidden":16,"heads":2,"vocab_size":256,
    "sequence_length":8},"train":{"global_batch":2},"seed":7,"threads":1})";
}

Folder::Folder() {
  std::string name = (std::filesystem::temp_directory_path() / "plait-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  root_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(root_, ignored);
}

std::string Folder::path(const std::string& name) const { return (root_ / name).string(); }

std::string Folder::write(const std::string& name, const std::string& content) const {
  const std::string target = path(name);
  std::ofstream(target, std::ios::binary) << content;
  return target;
}

std::string read_file(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return text.str();
}

void write_tiny_gpt2(const std::string& directory) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory + "/config.json") << R"({"architectures":["GPT2LMHeadModel"],
    "model_type":"gpt2","n_layer":1,"n_embd":4,"n_head":2,"vocab_size":8,"n_positions":6,
    "layer_norm_epsilon":1e-05,"activation_function":"gelu_new","tie_word_embeddings":true})";
  struct Row {
    const char* name;
    std::vector<int64_t> shape;
  };
  const Row rows[] = {{"h.0.attn.c_attn.bias", {12}},
                      {"h.0.attn.c_attn.weight", {4, 12}},
                      {"h.0.attn.c_proj.bias", {4}},
                      {"h.0.attn.c_proj.weight", {4, 4}},
                      {"h.0.ln_1.bias", {4}},
                      {"h.0.ln_1.weight", {4}},
                      {"h.0.ln_2.bias", {4}},
                      {"h.0.ln_2.weight", {4}},
                      {"h.0.mlp.c_fc.bias", {16}},
                      {"h.0.mlp.c_fc.weight", {4, 16}},
                      {"h.0.mlp.c_proj.bias", {4}},
                      {"h.0.mlp.c_proj.weight", {16, 4}},
                      {"ln_f.bias", {4}},
                      {"ln_f.weight", {4}},
                      {"wpe.weight", {6, 4}},
                      {"wte.weight", {8, 4}}};
  std::string header = "{";
  std::vector<float> values;
  for (const Row& row : rows) {
    int64_t elements = 1;
    std::string shape;
    for (int64_t size : row.shape) {
      elements *= size;
      shape += (shape.empty() ? "" : ",") + std::to_string(size);
    }
    const size_t begin = values.size() * 4;
    for (int64_t i = 0; i < elements; ++i) values.push_back(static_cast<float>(values.size()) / 64);
    header += (header.size() > 1 ? ",\"" : "\"") + std::string(row.name) +
              "\":{\"dtype\":\"F32\",\"shape\":[" + shape + "],\"data_offsets\":[" +
              std::to_string(begin) + "," + std::to_string(values.size() * 4) + "]}";
  }
  header += "}";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::ofstream file(directory + "/model.safetensors", std::ios::binary);
  const auto bytes = static_cast<uint64_t>(header.size());
  file.write(reinterpret_cast<const char*>(&bytes), 8);
  file << header;
  file.write(reinterpret_cast<const char*>(values.data()),
             static_cast<std::streamsize>(values.size() * 4));
}

}  // namespace host

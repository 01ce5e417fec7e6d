// The models of the oracle cases, whose files another program wrote.
#include <bit>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/hf_directory.h"
#include "checkpoint/hf_export.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

TEST_CASE("oracle cases import with the facts of their configuration, and export bit-equal") {
  for (const char* name : {"gpt2_tiny", "llama_tiny", "gpt2_clip_schedule"}) {
    INFO(name);
    const std::string path = std::string(PLAIT_ORACLE_CASES) + "/" + name;
    const auto config = nlohmann::json::parse(read_text(path + "/config.json"));
    const HfDirectory directory = HfDirectory::open(posix_env().files, path);
    const ModelFacts& facts = directory.facts();
    const bool is_gpt2 = config["model_type"] == "gpt2";
    CHECK(facts.layers == config[is_gpt2 ? "n_layer" : "num_hidden_layers"]);
    CHECK(facts.hidden == config[is_gpt2 ? "n_embd" : "hidden_size"]);
    CHECK(facts.vocab_size == config["vocab_size"]);
    CHECK(facts.tied == config["tie_word_embeddings"]);
    CHECK(directory.warnings().empty());
    const TempDirectory temp;
    HfExportOptions options;
    options.original_config = directory.config().text;
    export_hf(
        posix_env(), facts,
        [&](const CheckpointTensor& tensor, float* out) {
          directory.read(tensor.name, Box::whole(tensor.shape), out);
        },
        options, temp.path("to"));
    const auto before = read_safetensors(path + "/model.safetensors");
    const auto after = read_safetensors(temp.path("to/model.safetensors"));
    REQUIRE(before.size() == after.size());
    for (const auto& [tensor, raw] : before) {
      INFO(tensor);
      REQUIRE(after.count(tensor) == 1);
      CHECK(after.at(tensor).shape == raw.shape);
      CHECK(after.at(tensor).bytes == raw.bytes);
    }
  }
}

TEST_CASE("the square matrix of an oracle case is transposed") {
  const std::string path = std::string(PLAIT_ORACLE_CASES) + "/gpt2_tiny";
  const HfDirectory directory = HfDirectory::open(posix_env().files, path);
  const RawTensor raw =
      read_safetensors(path + "/model.safetensors").at("transformer.h.1.attn.c_proj.weight");
  const int64_t h = directory.facts().hidden;
  std::vector<float> values(static_cast<size_t>(h * h));
  const std::string name = "layers.1.attention.output.weight";
  directory.read(name, Box::whole(directory.find(name)->shape), values.data());
  for (int64_t r = 0; r < h; ++r) {
    for (int64_t c = 0; c < h; ++c) {
      REQUIRE(values[static_cast<size_t>(r * h + c)] == element(raw, c * h + r));
    }
  }
}

}  // namespace
}  // namespace plait

// Directories that are refused, each with the word and the names that explain it.
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_directory.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

using Json = nlohmann::json;

void require_refused(const std::string& path, const std::string& word,
                     const std::vector<std::string>& parts) {
  require_error([&] { HfDirectory::open(posix_env().files, path); }, word, parts);
}

TEST_CASE("a directory without weights or configuration") {
  const TempDirectory temp;
  require_refused(temp.path("none"), "no_file", {"config.json"});
  temp.write("m/config.json", config_text(gpt2_facts()));
  temp.write("m/pytorch_model.bin", "x");
  require_refused(temp.path("m"), "no_checkpoint", {temp.path("m")});
  std::filesystem::create_directory(temp.path("m/model.safetensors"));
  require_refused(temp.path("m"), "invalid_file", {"model.safetensors"});
  std::filesystem::remove(temp.path("m/model.safetensors"));
  REQUIRE(mkfifo(temp.path("m/model.safetensors").c_str(), 0600) == 0);
  require_refused(temp.path("m"), "invalid_file", {"model.safetensors"});
}

TEST_CASE("all missing and unexpected names stand in one error") {
  const TempDirectory temp;
  auto tensors = model_tensors(gpt2_facts(), "F32");
  tensors.erase(tensors.begin() + 1);  // wpe
  tensors.erase(tensors.begin() + 3);  // the first layer's c_attn.weight
  tensors.push_back(random_tensor("transformer.h.2.ln_1.weight", "F32", {12}));
  tensors.push_back(random_tensor("score.weight", "F32", {2, 12}));
  tensors.push_back(random_tensor("wte.weight", "F32", {37, 12}));  // beside transformer.wte.weight
  require_refused(
      write_model(temp, "m", gpt2_facts(), tensors), "name_mismatch",
      {"missing_count=2", "transformer.wpe.weight", "transformer.h.0.attn.c_attn.weight",
       "unexpected_count=3", "transformer.h.2.ln_1.weight", "score.weight", "wte.weight"});
  auto others = model_tensors(llama_facts(), "F32");
  others.pop_back();
  require_refused(write_model(temp, "l", llama_facts(), others), "name_mismatch",
                  {"missing_count=1", "lm_head.weight", "unexpected_count=0"});
  others.push_back(random_tensor("model.layers.0.self_attn.q_proj.bias", "F32", {24}));
  require_refused(write_model(temp, "l", llama_facts(), others), "name_mismatch",
                  {"self_attn.q_proj.bias"});
}

TEST_CASE("all shapes that differ stand in one error; the vocabulary is one of them") {
  const TempDirectory temp;
  ModelFacts padded = llama_facts();
  padded.vocab_size = 48;
  padded.feed_forward = 16;
  const std::string path = write_model(temp, "m", llama_facts(), model_tensors(padded, "F32"));
  require_refused(path, "config_mismatch",
                  {"count=8", "model.embed_tokens.weight", "[48,12]", "[41,12]", "lm_head.weight",
                   "mlp.up_proj.weight", "[16,12]", "[10,12]"});
  auto tensors = model_tensors(gpt2_facts(), "F32");
  tensors[0] = random_tensor("transformer.wte.weight", "F32", {37, 12, 1});
  require_refused(write_model(temp, "g", gpt2_facts(), tensors), "config_mismatch", {"[37,12,1]"});
  tensors[0] = random_tensor("transformer.wte.weight", "F32", {37, 12});
  tensors.push_back(random_tensor("lm_head.weight", "F32", {36, 12}));
  require_refused(write_model(temp, "g", gpt2_facts(), tensors), "config_mismatch", {"[36,12]"});
}

TEST_CASE("element types that no model is read from") {
  const TempDirectory temp;
  auto tensors = model_tensors(llama_facts(), "F32");
  tensors[2].dtype = "I32";
  require_refused(write_model(temp, "m", llama_facts(), tensors), "unsupported_model",
                  {tensors[2].name, "dtype=I32"});
  tensors[2].dtype = "F8_E4M3";
  tensors[2].bytes.resize(tensors[2].bytes.size() / 4);
  require_refused(write_model(temp, "m", llama_facts(), tensors), "unsupported_model",
                  {"dtype=F8_E4M3"});
}

TEST_CASE("a head that differs from a tied embedding, in one bit or in one rounding") {
  const TempDirectory temp;
  ModelFacts tied = llama_facts();
  tied.tied = true;
  for (const ModelFacts& facts : {gpt2_facts(), tied}) {
    auto tensors = model_tensors(facts, "F32");
    RawTensor head = tensors[0];
    head.name = "lm_head.weight";
    head.bytes[4 * 77] ^= 1;
    tensors.push_back(head);
    const std::string name = family_name(facts.family);
    require_refused(write_model(temp, name, facts, tensors), "tied_mismatch",
                    {"lm_head.weight", tensors[0].name, "index=77"});
    tensors.back() = random_tensor("lm_head.weight", "BF16", head.shape);
    require_refused(write_model(temp, name, facts, tensors), "tied_mismatch", {"index=0"});
  }
}

TEST_CASE("names of shards are hostile text") {
  const TempDirectory temp;
  const char* names[] = {"../m/part_0.safetensors",
                         "/etc/x.safetensors",
                         "a/b.safetensors",
                         "a\\b.safetensors",
                         "part_0.bin",
                         "",
                         "safetensors",
                         "a b.safetensors",
                         "a\u00e9.safetensors",
                         ".safetensors/",
                         "a%2f.safetensors"};
  const ModelFacts facts = gpt2_facts();
  const std::string path = write_sharded_model(temp, "m", facts, model_tensors(facts, "F32"), 2);
  const std::string file = path + "/model.safetensors.index.json";
  const Json good = Json::parse(read_text(file));
  for (const char* name : names) {
    Json index = good;
    index["weight_map"]["transformer.wte.weight"] = name;
    temp.write("m/model.safetensors.index.json", index.dump());
    require_refused(path, "invalid_field", {"weight_map.transformer.wte.weight", file});
  }
  Json index = good;
  index["weight_map"]["transformer.wte.weight"] = std::string("part_0.safetensors\0x", 20);
  temp.write("m/model.safetensors.index.json", index.dump());
  require_refused(path, "invalid_field", {"weight_map.transformer.wte.weight"});
  index["weight_map"]["transformer.wte.weight"] = 3;
  temp.write("m/model.safetensors.index.json", index.dump());
  require_refused(path, "invalid_field", {"weight_map.transformer.wte.weight"});
  index["weight_map"]["transformer.wte.weight"] = "part_7.safetensors";
  temp.write("m/model.safetensors.index.json", index.dump());
  require_refused(path, "missing_shard", {"part_7.safetensors"});
}

TEST_CASE("an index that is none, or that disagrees with its shards") {
  const TempDirectory temp;
  const ModelFacts facts = gpt2_facts();
  const std::string path = write_sharded_model(temp, "m", facts, model_tensors(facts, "F32"), 2);
  const std::string file = "model.safetensors.index.json";
  const Json good = Json::parse(read_text(path + "/" + file));
  for (const std::string text : {"", "[]", "{}", R"({"weight_map":[]})", R"({"weight_map":{"a":"b)",
                                 R"({"weight_map":{"a":"b.safetensors","a":"c.safetensors"}})"}) {
    temp.write("m/" + file, text);
    require_refused(path, "invalid_field", {file});
  }
  Json index = good;
  index["weight_map"].erase("transformer.wte.weight");
  index["weight_map"]["transformer.ghost"] = "part_0.safetensors";
  index["weight_map"]["transformer.wpe.weight"] = "part_0.safetensors";
  temp.write("m/" + file, index.dump());
  require_refused(path, "invalid_field",
                  {"disagree", "transformer.wte.weight", "transformer.ghost",
                   "transformer.wpe.weight", "count=4"});
  std::string many = R"({"weight_map":{)";
  for (int i = 0; i <= 4096; ++i) {
    many +=
        (i ? ",\"" : "\"") + std::to_string(i) + R"(":"s)" + std::to_string(i) + R"(.safetensors")";
  }
  temp.write("m/" + file, many + "}}");
  require_refused(path, "invalid_field", {"too many shards", "limit=4096"});
  temp.write("m/" + file, std::string((1 << 24) + 1, ' '));
  require_refused(path, "invalid_field", {"limit=16777216"});
}

TEST_CASE("one tensor in two shards is refused") {
  const TempDirectory temp;
  const ModelFacts facts = llama_facts();
  const auto tensors = model_tensors(facts, "F32");
  const std::string path = write_sharded_model(temp, "m", facts, tensors, 2);
  std::vector<RawTensor> shard;
  for (size_t i = 1; i < tensors.size(); i += 2) shard.push_back(tensors[i]);
  shard.push_back(tensors[0]);
  temp.write("m/part_1.safetensors", safetensors_file(shard));
  require_refused(path, "invalid_field", {"disagree", tensors[0].name, "part_1.safetensors"});
}

TEST_CASE("a run of another model is refused with every field that differs") {
  const TempDirectory temp;
  const HfDirectory directory =
      HfDirectory::open(posix_env().files,
                        write_model(temp, "m", llama_facts(), model_tensors(llama_facts(), "F32")));
  ModelFacts run = llama_facts();
  run.sequence_length = 8;  // llama has no table of positions
  CHECK_NOTHROW(directory.check_matches(run));
  run.vocab_size = 48;
  run.rope_base = 500000.0;
  require_error([&] { directory.check_matches(run); }, "config_mismatch",
                {"count=2", "model.vocab_size", "41", "48", "model.rope_base"});
  require_error([&] { directory.check_matches(gpt2_facts()); }, "config_mismatch",
                {"model.family"});
  float value = 0;
  require_error([&] { directory.read("layers.9.x", Box{}, &value); }, "argument", {"layers.9.x"});
  const HfDirectory other = HfDirectory::open(
      posix_env().files, write_model(temp, "g", gpt2_facts(), model_tensors(gpt2_facts(), "F32")));
  run = gpt2_facts();
  run.sequence_length = 8;
  require_error([&] { other.check_matches(run); }, "config_mismatch", {"model.sequence_length"});
}

}  // namespace
}  // namespace plait

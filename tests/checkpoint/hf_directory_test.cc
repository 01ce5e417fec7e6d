#include "checkpoint/hf_directory.h"

#include <bit>
#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <random>

#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

using Tensors = std::map<std::string, RawTensor>;

Tensors by_name(const std::vector<RawTensor>& tensors) {
  Tensors map;
  for (const RawTensor& tensor : tensors) map[tensor.name] = tensor;
  return map;
}

std::vector<float> read_whole(const HfDirectory& directory, const std::string& name) {
  const CheckpointTensor* tensor = directory.find(name);
  REQUIRE(tensor != nullptr);
  std::vector<float> values(static_cast<size_t>(tensor->shape.elements()));
  directory.read(name, Box::whole(tensor->shape), values.data());
  return values;
}

/// Compares bits of a logical [rows, columns] with file element at(r, c).
template <class Place>
void require_equal(const HfDirectory& directory, const std::string& name, const RawTensor& tensor,
                   const Place& place) {
  INFO(name);
  const Shape shape = directory.find(name)->shape;
  const int64_t columns = shape.dims() == 2 ? shape[1] : 1;
  const std::vector<float> values = read_whole(directory, name);
  for (int64_t r = 0; r < shape[0]; ++r) {
    for (int64_t c = 0; c < columns; ++c) {
      REQUIRE(std::bit_cast<uint32_t>(values[static_cast<size_t>(r * columns + c)]) ==
              std::bit_cast<uint32_t>(element(tensor, place(r, c))));
    }
  }
}

void require_gpt2_values(const HfDirectory& directory, const Tensors& files,
                         const std::string& prefix) {
  const ModelFacts& facts = directory.facts();
  const int64_t h = facts.hidden, f = facts.feed_forward;
  const auto same = [&](int64_t r, int64_t c) { return r * h + c; };
  const auto vector = [](int64_t r, int64_t) { return r; };
  require_equal(directory, "embedding.token.weight", files.at(prefix + "wte.weight"), same);
  require_equal(directory, "embedding.position.weight", files.at(prefix + "wpe.weight"), same);
  require_equal(directory, "final_norm.weight", files.at(prefix + "ln_f.weight"), vector);
  require_equal(directory, "final_norm.bias", files.at(prefix + "ln_f.bias"), vector);
  for (int64_t i = 0; i < facts.layers; ++i) {
    const std::string name = "layers." + std::to_string(i) + ".";
    const std::string file = prefix + "h." + std::to_string(i) + ".";
    const char* parts[] = {"attention.query", "attention.key", "attention.value"};
    for (int64_t p = 0; p < 3; ++p) {  // logical row r, column c: file row c, column p·h + r
      require_equal(directory, name + parts[p] + ".weight", files.at(file + "attn.c_attn.weight"),
                    [&](int64_t r, int64_t c) { return c * 3 * h + p * h + r; });
      require_equal(directory, name + parts[p] + ".bias", files.at(file + "attn.c_attn.bias"),
                    [&](int64_t r, int64_t) { return p * h + r; });
    }
    require_equal(directory, name + "attention.output.weight",
                  files.at(file + "attn.c_proj.weight"),
                  [&](int64_t r, int64_t c) { return c * h + r; });
    require_equal(directory, name + "feed_forward.up.weight", files.at(file + "mlp.c_fc.weight"),
                  [&](int64_t r, int64_t c) { return c * f + r; });
    require_equal(directory, name + "feed_forward.down.weight",
                  files.at(file + "mlp.c_proj.weight"),
                  [&](int64_t r, int64_t c) { return c * h + r; });
    require_equal(directory, name + "attention.output.bias", files.at(file + "attn.c_proj.bias"),
                  vector);
    require_equal(directory, name + "feed_forward.up.bias", files.at(file + "mlp.c_fc.bias"),
                  vector);
    require_equal(directory, name + "feed_forward.down.bias", files.at(file + "mlp.c_proj.bias"),
                  vector);
    require_equal(directory, name + "attention_norm.weight", files.at(file + "ln_1.weight"),
                  vector);
    require_equal(directory, name + "attention_norm.bias", files.at(file + "ln_1.bias"), vector);
    require_equal(directory, name + "feed_forward_norm.weight", files.at(file + "ln_2.weight"),
                  vector);
    require_equal(directory, name + "feed_forward_norm.bias", files.at(file + "ln_2.bias"), vector);
  }
}

TEST_CASE("gpt2 matrices are transposed and query, key, value taken apart, by value") {
  const TempDirectory temp;
  for (const std::string prefix : {"transformer.", ""}) {
    for (const char* dtype : {"F32", "F16", "BF16", "F64"}) {
      const auto tensors = model_tensors(gpt2_facts(), dtype, prefix);
      const HfDirectory directory =
          HfDirectory::open(posix_env().files, write_model(temp, "m", gpt2_facts(), tensors));
      CHECK(directory.facts() == gpt2_facts());
      CHECK(directory.tensors().size() == 2 + 2 * 16 + 2);
      CHECK(std::string(directory.type_name("layers.1.attention.key.weight")) == dtype);
      require_gpt2_values(directory, by_name(tensors), prefix);
    }
  }
}

TEST_CASE("llama tensors are read as they are, tied and untied, with shared key/value heads") {
  const TempDirectory temp;
  for (const bool tied : {false, true}) {
    ModelFacts facts = llama_facts();
    facts.tied = tied;
    const auto tensors = model_tensors(facts, "BF16");
    const HfDirectory directory =
        HfDirectory::open(posix_env().files, write_sharded_model(temp, "m", facts, tensors, 3));
    const Tensors files = by_name(tensors);
    CHECK(directory.file_count() == 3);
    CHECK(directory.warnings().empty());
    CHECK((directory.find("head.weight") == nullptr) == tied);
    const std::vector<std::pair<std::string, std::string>> names = {
        {"embedding.token.weight", "model.embed_tokens.weight"},
        {"layers.1.attention_norm.weight", "model.layers.1.input_layernorm.weight"},
        {"layers.1.attention.query.weight", "model.layers.1.self_attn.q_proj.weight"},
        {"layers.1.attention.key.weight", "model.layers.1.self_attn.k_proj.weight"},
        {"layers.1.attention.value.weight", "model.layers.1.self_attn.v_proj.weight"},
        {"layers.1.attention.output.weight", "model.layers.1.self_attn.o_proj.weight"},
        {"layers.1.feed_forward_norm.weight", "model.layers.1.post_attention_layernorm.weight"},
        {"layers.1.feed_forward.gate.weight", "model.layers.1.mlp.gate_proj.weight"},
        {"layers.1.feed_forward.up.weight", "model.layers.1.mlp.up_proj.weight"},
        {"layers.1.feed_forward.down.weight", "model.layers.1.mlp.down_proj.weight"},
        {"final_norm.weight", "model.norm.weight"},
    };
    for (const auto& [logical, file] : names) {
      const Shape shape = directory.find(logical)->shape;
      const int64_t columns = shape.dims() == 2 ? shape[1] : 1;
      require_equal(directory, logical, files.at(file),
                    [&](int64_t r, int64_t c) { return r * columns + c; });
    }
    if (!tied) {
      require_equal(directory, "head.weight", files.at("lm_head.weight"),
                    [&](int64_t r, int64_t c) { return r * facts.hidden + c; });
    }
  }
}

TEST_CASE("any box of any tensor equals the slice of the whole") {
  const TempDirectory temp;
  std::mt19937_64 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (const ModelFacts& facts : {gpt2_facts(), llama_facts()}) {
    const HfDirectory directory = HfDirectory::open(
        posix_env().files, write_sharded_model(temp, family_name(facts.family), facts,
                                               model_tensors(facts, "F16"), 2));
    for (const CheckpointTensor& tensor : directory.tensors()) {
      const std::vector<float> whole = read_whole(directory, tensor.name);
      for (int round = 0; round < 12; ++round) {
        Box box = Box::whole(tensor.shape);
        for (size_t d = 0; d < static_cast<size_t>(box.dims); ++d) {
          const int64_t size = tensor.shape[static_cast<int>(d)];
          box.first[d] = pick(0, size);
          box.size[d] = pick(0, size - box.first[d]);
        }
        std::vector<float> part(static_cast<size_t>(box.elements()) + 1, 123.0f);
        directory.read(tensor.name, box, part.data());
        REQUIRE(part.back() == 123.0f);
        const int64_t all = box.dims == 2 ? tensor.shape[1] : 1;
        const int64_t columns = box.dims == 2 ? box.size[1] : 1;
        const int64_t first = box.dims == 2 ? box.first[1] : 0;
        for (int64_t i = 0; i < box.elements(); ++i) {
          const int64_t place = (box.first[0] + i / columns) * all + first + i % columns;
          REQUIRE(std::bit_cast<uint32_t>(part[static_cast<size_t>(i)]) ==
                  std::bit_cast<uint32_t>(whole[static_cast<size_t>(place)]));
        }
      }
    }
  }
}

TEST_CASE("the single file wins over an index; symbolic links are followed") {
  const TempDirectory temp;
  const ModelFacts facts = llama_facts();
  const auto tensors = model_tensors(facts, "F32");
  const std::string path = write_sharded_model(temp, "m", facts, tensors, 2);
  temp.write("store/blob", safetensors_file(tensors));
  std::filesystem::create_symlink("../store/blob", path + "/model.safetensors");
  CHECK(HfDirectory::open(posix_env().files, path).file_count() == 1);
  CHECK(HfDirectory::is_one(posix_env().files, path));
  CHECK_FALSE(HfDirectory::is_one(posix_env().files, temp.path("store")));
}

TEST_CASE("mask buffers and inverse frequencies are ignored, whatever their type") {
  const TempDirectory temp;
  auto tensors = model_tensors(gpt2_facts(), "F32");
  tensors.push_back({"transformer.h.0.attn.bias", "BOOL", {1, 1, 3, 3}, std::string(9, '\1')});
  tensors.push_back({"h.1.attn.masked_bias", "I64", {}, std::string(8, '\0')});
  CHECK_NOTHROW(
      HfDirectory::open(posix_env().files, write_model(temp, "g", gpt2_facts(), tensors)));
  auto others = model_tensors(llama_facts(), "F32");
  others.push_back(random_tensor("model.layers.0.self_attn.rotary_emb.inv_freq", "F32", {3}));
  CHECK_NOTHROW(
      HfDirectory::open(posix_env().files, write_model(temp, "l", llama_facts(), others)));
}

TEST_CASE("a head that equals the embedding is accepted in a tied model") {
  const TempDirectory temp;
  ModelFacts tied = llama_facts();
  tied.tied = true;
  for (const ModelFacts& facts : {gpt2_facts(), tied}) {
    auto tensors = model_tensors(facts, "BF16");
    RawTensor head = tensors[0];
    head.name = "lm_head.weight";
    tensors.push_back(head);
    const std::string path = write_model(temp, family_name(facts.family), facts, tensors);
    CHECK(HfDirectory::open(posix_env().files, path).find("head.weight") == nullptr);
    RawTensor wide{"lm_head.weight", "F32", head.shape, ""};  // equal values of another type
    for (int64_t i = 0; i < facts.vocab_size * facts.hidden; ++i) {
      const float value = element(head, i);
      wide.bytes.append(reinterpret_cast<const char*>(&value), 4);
    }
    tensors.back() = wide;
    write_model(temp, family_name(facts.family), facts, tensors);
    CHECK_NOTHROW(HfDirectory::open(posix_env().files, path));
  }
}

TEST_CASE("a wrong total_size is a warning") {
  const TempDirectory temp;
  const ModelFacts facts = gpt2_facts();
  const std::string path = write_sharded_model(temp, "m", facts, model_tensors(facts, "F32"), 2);
  std::string index = read_text(path + "/model.safetensors.index.json");
  const size_t place = index.find("\"total_size\":") + 13;
  index.insert(place, "1");
  temp.write("m/model.safetensors.index.json", index);
  const HfDirectory directory = HfDirectory::open(posix_env().files, path);
  REQUIRE(directory.warnings().size() == 1);
  CHECK_THAT(directory.warnings()[0], Catch::Matchers::Contains("total_size"));
}

}  // namespace
}  // namespace plait

#include "checkpoint/hf_export.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/hf_directory.h"
#include "checkpoint/safetensors_writer.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

using Json = nlohmann::json;

TensorSource source_of(const HfDirectory& directory) {
  return [&directory](const CheckpointTensor& tensor, float* out) {
    directory.read(tensor.name, Box::whole(tensor.shape), out);
  };
}

HfExportResult export_from(const std::string& from, const std::string& to,
                           HfExportOptions options) {
  const HfDirectory directory = HfDirectory::open(posix_env().files, from);
  options.original_config = directory.config().text;
  return export_hf(posix_env(), directory.facts(), source_of(directory), options, to);
}

std::map<std::string, RawTensor> read_directory(const std::string& path) {
  std::map<std::string, RawTensor> tensors;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() != ".safetensors") continue;
    tensors.merge(read_safetensors(entry.path()));
  }
  return tensors;
}

DType dtype_of(const std::string& name) {
  return name == "F32" ? DType::kFloat32 : name == "F16" ? DType::kFloat16 : DType::kBFloat16;
}

struct Case {
  const char* what;
  ModelFacts facts;
  const char* dtype;
  const char* prefix;
  int shards;
};

std::vector<Case> cases() {
  ModelFacts prime = gpt2_facts(), tied = llama_facts(), single = llama_facts();
  prime.vocab_size = 127;
  tied.tied = true;
  tied.vocab_size = 53;
  single.key_value_heads = 1;
  single.layers = 1;
  return {
      {"single file", gpt2_facts(), "F32", "transformer.", 1},
      {"without prefix", gpt2_facts(), "F32", "", 1},
      {"shards", gpt2_facts(), "F32", "transformer.", 4},
      {"F16", prime, "F16", "", 2},
      {"BF16", prime, "BF16", "transformer.", 1},
      {"untied llama", llama_facts(), "BF16", "", 1},
      {"tied llama", tied, "F16", "", 3},
      {"one key/value head", single, "F32", "", 2},
  };
}

TEST_CASE("import, export, import is bit-equal for every tensor") {
  for (const Case& row : cases()) {
    INFO(row.what);
    const TempDirectory temp;
    const auto tensors = model_tensors(row.facts, row.dtype, row.prefix);
    const std::string from =
        row.shards == 1 ? write_model(temp, "from", row.facts, tensors)
                        : write_sharded_model(temp, "from", row.facts, tensors, row.shards);
    for (const int64_t limit : {int64_t{5'000'000'000}, int64_t{4000}}) {
      HfExportOptions options;
      options.dtype = dtype_of(row.dtype);
      options.max_shard_bytes = limit;
      const std::string to = temp.path("to" + std::to_string(limit));
      const HfExportResult result = export_from(from, to, options);
      CHECK((result.weight_files == 1) == (limit > 4000));
      const auto written = read_directory(to);
      REQUIRE(written.size() == tensors.size());
      CHECK(result.tensors == static_cast<int64_t>(tensors.size()));
      for (const RawTensor& tensor : tensors) {
        std::string name = tensor.name;
        if (row.facts.family == ModelFacts::Family::kGpt2 && row.prefix[0] == '\0') {
          name = "transformer." + name;
        }
        INFO(name);
        REQUIRE(written.count(name) == 1);
        CHECK(written.at(name).shape == tensor.shape);
        CHECK(written.at(name).dtype == tensor.dtype);
        CHECK(written.at(name).bytes == tensor.bytes);
      }
      const HfDirectory again = HfDirectory::open(posix_env().files, to);
      CHECK(again.facts() == row.facts);
      CHECK(again.warnings().empty());
    }
  }
}

TEST_CASE("equal input gives equal bytes, from whatever layout of files") {
  const TempDirectory temp;
  const ModelFacts facts = llama_facts();
  const auto tensors = model_tensors(facts, "F32");
  const std::string one = write_model(temp, "one", facts, tensors);
  const std::string three = write_sharded_model(temp, "three", facts, tensors, 3);
  HfExportOptions options;
  options.max_shard_bytes = 3000;
  export_from(one, temp.path("a"), options);
  export_from(three, temp.path("b"), options);
  int64_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(temp.path("a"))) {
    ++files;
    CHECK(read_text(entry.path()) == read_text(temp.path("b/") + entry.path().filename().string()));
  }
  CHECK(files >= 5);
}

TEST_CASE("shards are filled greedily in name order and hold to their limit") {
  const TempDirectory temp;
  const ModelFacts facts = gpt2_facts();
  const std::string from = write_model(temp, "from", facts, model_tensors(facts, "F32"));
  HfExportOptions options;
  options.max_shard_bytes = 5000;
  const HfExportResult result = export_from(from, temp.path("to"), options);
  const Json index = Json::parse(read_text(temp.path("to/model.safetensors.index.json")));
  CHECK(index["metadata"]["total_size"] == result.bytes);
  std::string previous;
  std::map<std::string, int64_t> first_bytes;
  for (const auto& [name, shard] : index["weight_map"].items()) {
    CHECK(previous <= shard.get<std::string>());  // names and shards ascend together
    const RawTensor tensor = read_safetensors(temp.path("to/") + shard.get<std::string>()).at(name);
    if (previous != shard) first_bytes[shard] = static_cast<int64_t>(tensor.bytes.size());
    previous = shard;
  }
  CHECK(static_cast<int64_t>(first_bytes.size()) == result.weight_files);
  const std::string count = std::to_string(result.weight_files);
  CHECK(previous == "model-" + std::string(5 - count.size(), '0') + count + "-of-" +
                        std::string(5 - count.size(), '0') + count + ".safetensors");
  std::string before;
  for (const auto& [shard, bytes] : first_bytes) {
    const auto size = static_cast<int64_t>(std::filesystem::file_size(temp.path("to/" + shard)));
    CHECK(size <= options.max_shard_bytes);
    if (!before.empty()) {  // the first tensor of a shard did not fit in the one before
      const auto left = options.max_shard_bytes -
                        static_cast<int64_t>(std::filesystem::file_size(temp.path("to/" + before)));
      CHECK(bytes + 200 > left);
    }
    before = shard;
  }
  options.max_shard_bytes = 1;  // every tensor alone
  CHECK(export_from(from, temp.path("alone"), options).weight_files == result.tensors);
}

TEST_CASE("the limit of a single file is exact") {
  const TempDirectory temp;
  const ModelFacts facts = llama_facts();
  const std::string from = write_model(temp, "from", facts, model_tensors(facts, "F32"));
  export_from(from, temp.path("a"), {});
  const auto bytes =
      static_cast<int64_t>(std::filesystem::file_size(temp.path("a/model.safetensors")));
  HfExportOptions options;
  options.max_shard_bytes = bytes;
  CHECK(export_from(from, temp.path("b"), options).weight_files == 1);
  options.max_shard_bytes = bytes - 1;
  CHECK(export_from(from, temp.path("c"), options).weight_files == 2);
}

TEST_CASE("an export narrows, widens and says so in config.json") {
  const TempDirectory temp;
  const ModelFacts facts = gpt2_facts();
  const auto tensors = model_tensors(facts, "F64");
  const std::string from = write_model(temp, "from", facts, tensors);
  HfExportOptions options;
  options.dtype = DType::kBFloat16;
  export_from(from, temp.path("to"), options);
  CHECK(Json::parse(read_text(temp.path("to/config.json")))["torch_dtype"] == "bfloat16");
  const auto written = read_directory(temp.path("to"));
  for (const RawTensor& tensor : tensors) {
    const RawTensor& got = written.at(tensor.name);
    REQUIRE(got.dtype == "BF16");
    for (int64_t i = 0; i < static_cast<int64_t>(tensor.bytes.size() / 8); ++i) {
      REQUIRE(element(got, i) == to_float(to_bfloat16(element(tensor, i))));
    }
  }
}

TEST_CASE("what an export refuses, before it writes anything") {
  const TempDirectory temp;
  const ModelFacts facts = gpt2_facts();
  const std::string from = write_model(temp, "from", facts, model_tensors(facts, "F32"));
  const HfDirectory directory = HfDirectory::open(posix_env().files, from);
  const auto attempt = [&](const ModelFacts& model, const HfExportOptions& options,
                           const std::string& target) {
    return [&, options, target, model] {
      export_hf(posix_env(), model, source_of(directory), options, target);
    };
  };
  temp.write("file", "x");
  std::filesystem::create_directory(temp.path("empty"));
  std::filesystem::create_symlink("nowhere", temp.path("dangling"));
  require_error(attempt(facts, {}, temp.path("empty")), "target_exists", {temp.path("empty")});
  require_error(attempt(facts, {}, temp.path("empty/")), "target_exists");
  require_error(attempt(facts, {}, temp.path("file")), "target_exists");
  require_error(attempt(facts, {}, temp.path("dangling")), "target_exists");
  require_error(attempt(facts, {}, temp.path("none/to")), "no_file");
  for (const char* target : {"", "/", ".", "..", "a/.."}) {
    require_error(attempt(facts, {}, target), "argument");
  }
  HfExportOptions options;
  options.max_shard_bytes = 0;
  require_error(attempt(facts, options, temp.path("to")), "argument", {"export.max_shard_bytes"});
  options = {};
  options.dtype = DType::kInt32;
  require_error(attempt(facts, options, temp.path("to")), "argument", {"export.dtype", "int32"});
  options = {};
  options.original_config = config_text(llama_facts());
  require_error(attempt(facts, options, temp.path("to")), "config_mismatch");
  ModelFacts untied = facts, grouped = facts, narrow = facts;
  untied.tied = false;
  grouped.key_value_heads = 1;
  narrow.head_size = 2;
  require_error(attempt(untied, {}, temp.path("to")), "unsupported_model", {"model.tied"});
  require_error(attempt(grouped, {}, temp.path("to")), "unsupported_model",
                {"model.key_value_heads"});
  require_error(attempt(narrow, {}, temp.path("to")), "unsupported_model", {"model.head_size"});
  CHECK(temp.names() == std::vector<std::string>{"dangling", "empty", "file", "from"});
}

TEST_CASE("an overflow and a cancellation leave nothing; progress reaches the total") {
  const TempDirectory temp;
  const ModelFacts facts = gpt2_facts();
  auto tensors = model_tensors(facts, "F32");
  const std::string from = write_model(temp, "from", facts, tensors);
  HfExportOptions options;
  options.dtype = DType::kFloat16;  // values reach 2^27
  require_error([&] { export_from(from, temp.path("to"), options); }, "dtype_overflow",
                {"tensor=transformer.", "index="});
  options.dtype = DType::kFloat32;
  std::atomic<bool> cancel = false;
  int64_t last = 0;
  options.cancel = &cancel;
  options.on_progress = [&](int64_t done, int64_t total) {
    CHECK(done > last);
    last = done;
    if (2 * done > total) cancel = true;
  };
  require_error([&] { export_from(from, temp.path("to"), options); }, "cancelled");
  CHECK(temp.names() == std::vector<std::string>{"from"});
  options.cancel = nullptr;
  last = 0;
  const HfExportResult result = export_from(from, temp.path("to"), options);
  CHECK(last == result.bytes);
  CHECK(temp.names() == std::vector<std::string>{"from", "to"});
}

}  // namespace
}  // namespace plait

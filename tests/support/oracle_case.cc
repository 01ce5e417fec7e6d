#include "tests/support/oracle_case.h"

#include <fstream>
#include <iterator>

#include "checkpoint/hf_config.h"

namespace plait::test {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void set(Config* config, const std::string& key, const nlohmann::json& value) {
  config->set(key, value.is_string() ? value.get<std::string>() : value.dump());
}

}  // namespace

std::vector<int32_t> OracleCase::rows(int64_t step) const {
  const int64_t samples = (static_cast<int64_t>(tokens.size()) - 1) / sequence;
  std::vector<int32_t> out;
  for (int64_t j = 0; j < batch; ++j) {
    const int64_t first = (step * batch + j) % samples * sequence;
    out.insert(out.end(), tokens.begin() + first, tokens.begin() + first + sequence + 1);
  }
  return out;
}

OracleCase load_case(const std::string& name) {
  OracleCase oracle;
  oracle.directory = std::string(PLAIT_SOURCE_DIR) + "/tests/oracle/cases/" + name;
  const HfConfig hf = read_hf_config(posix_env().files, oracle.directory);
  for (const auto& [key, value] : hf.keys) oracle.config.set(key, value);
  const nlohmann::json train = nlohmann::json::parse(read_text(oracle.directory + "/train.json"));
  oracle.batch = train["global_batch"];
  oracle.sequence = train["sequence_length"];
  oracle.steps = train["steps"];
  set(&oracle.config, "train.global_batch", train["global_batch"]);
  set(&oracle.config, "train.sequence_length", train["sequence_length"]);
  for (const char* key : {"lr", "min_lr", "lr_warmup_steps", "lr_decay_steps", "lr_schedule",
                          "weight_decay", "beta1", "beta2", "epsilon", "clip_grad_norm"}) {
    set(&oracle.config, std::string("optimizer.") + key, train[key]);
  }
  oracle.expected = nlohmann::json::parse(read_text(oracle.directory + "/expected.json"));
  const std::string raw = read_text(oracle.directory + "/tokens.bin");
  for (size_t i = 0; i + 1 < raw.size(); i += 2) {
    oracle.tokens.push_back(static_cast<unsigned char>(raw[i]) |
                            static_cast<unsigned char>(raw[i + 1]) << 8);
  }
  return oracle;
}

std::unique_ptr<TestEngine> make_engine(const OracleCase& oracle, const Config& config) {
  auto engine = std::make_unique<TestEngine>(config);
  (*engine)->load(oracle.directory, -1);
  return engine;
}

Metrics train_step(Engine& engine, const OracleCase& oracle, int64_t step) {
  const std::vector<int32_t> rows = oracle.rows(step);
  Batch batch;
  batch.tokens = {rows.data(), oracle.batch, oracle.sequence + 1};
  Metrics metrics;
  engine.step(&batch, -1, &metrics);
  return metrics;
}

std::vector<float> read_tensor(Engine& engine, const std::string& name, TensorKind kind) {
  for (const TensorEntry& entry : engine.tensors()) {
    if (entry.name != name) continue;
    std::vector<float> values(static_cast<size_t>(entry.shape.elements()));
    engine.read_tensor(name, kind, DType::kFloat32, -1, values.data(),
                       static_cast<int64_t>(values.size() * sizeof(float)));
    return values;
  }
  return {};
}

}  // namespace plait::test

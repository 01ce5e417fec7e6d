#include "tests/host/workout.h"

#include <cinttypes>
#include <cstdio>
#include <stdexcept>

#include "tests/host/rig.h"

namespace host {
namespace {

class Pass {
 public:
  Pass(const std::string& directory, const std::string& keys)
      : directory_(directory), keys_(keys) {}

  std::string run() {
    context_ = make_context();
    write_files();
    configure();
    tokenize();
    data();
    train();
    weights();
    return out_;
  }

 private:
  void must(int32_t code) {
    if (code != PLAIT_OK) throw std::runtime_error(err_.message());
  }
  void must_fail(int32_t code) {
    if (code == PLAIT_OK) throw std::runtime_error("a call that must fail did not");
    note(err_.message());
  }
  void note(const std::string& text) { out_ += text + '\n'; }
  void note(double value) {
    char text[40];
    uint64_t bits = 0;
    static_assert(sizeof bits == sizeof value);
    __builtin_memcpy(&bits, &value, sizeof bits);
    std::snprintf(text, sizeof text, "%016" PRIx64, bits);
    note(std::string(text));
  }
  std::string path(const char* name) const { return directory_ + "/" + name; }

  void write_files() {
    std::string text;
    for (int i = 0; i < 400; ++i) text += "line " + std::to_string(i * i) + "\n";
    if (FILE* file = std::fopen(path("text").c_str(), "wb")) {
      std::fwrite(text.data(), 1, text.size(), file);
      std::fclose(file);
    }
    write_tiny_gpt2(path("model"));
  }

  void configure() {
    const std::string data = path("tokens");
    config_ = small_config(context_, R"({"model.vocab_size":256,"optimizer.lr":0.00137,
      "optimizer.clip_grad_norm":0.75,"model.norm_epsilon":1.25e-5,"train.dropout":0.125,
      "data.split":[0.8,0.2],"data.train":")" +
                                         data + R"(","evaluate.batches":2,
      "generate.temperature":0.9,"generate.max_tokens":7})");
    must(plait_config_load(config_, keys_.data(), static_cast<int64_t>(keys_.size()), err_));
    must(plait_config_set(config_, "optimizer.beta2", "0.975", err_));
    must(plait_config_check(config_, err_));
    Bytes text;
    must(plait_config_dump(config_, 1, text.out(), err_));
    const std::string dump = text.text();
    note(dump.substr(0, dump.find("\"data.train\"")) + dump.substr(dump.find("data.train_w")));
    must_fail(plait_config_set(config_, "optimizer.beta2", "1,5", err_));
    must_fail(plait_config_set(config_, "optimizer.beta3", "0.5", err_));
    must_fail(plait_config_set(config_, "optimizer.beta2", "1.5", err_));
  }

  void tokenize() {
    Tokenizer tokenizer;
    must(plait_tokenizer_open(context_, "byte", nullptr, tokenizer.out(), err_));
    Op op;
    must(plait_tokenizer_encode_file(tokenizer, config_, path("text").c_str(),
                                     path("tokens").c_str(), op.out(), err_));
    must(plait_op_wait(op, 60000, err_));
    must(plait_tokenizer_encode_file(tokenizer, config_, path("none").c_str(), path("o").c_str(),
                                     op.out(), err_));
    if (plait_op_wait(op, 60000, err_) == PLAIT_OK) throw std::runtime_error("no file, no error");
  }

  void data() {
    must(plait_dataset_open(context_, config_, "train", train_.out(), err_));
    must(plait_dataset_open(context_, config_, "evaluate", evaluate_.out(), err_));
    auto info = sized<plait_dataset_info>();
    must(plait_dataset_describe(train_, &info, err_));
    note(std::to_string(info.samples) + " " + std::to_string(info.fingerprint));
  }

  void train() {
    group_ = make_group(context_, config_);
    must(plait_engine_create(group_, config_, 60000, engine_.out(), err_));
    must_fail(plait_engine_step(engine_, nullptr, 60000, nullptr, err_));
    must(plait_engine_attach_dataset(engine_, "train", train_, 60000, err_));
    must(plait_engine_attach_dataset(engine_, "evaluate", evaluate_, 60000, err_));
    auto metrics = sized<plait_metrics>();
    for (int i = 0; i < 3; ++i) {
      must(plait_engine_step(engine_, nullptr, 60000, &metrics, err_));
      note(metrics.loss);
      note(metrics.grad_norm);
      note(metrics.lr);
    }
    must(plait_engine_evaluate(engine_, nullptr, 60000, &metrics, err_));
    note(metrics.loss);
    const int32_t prompt[] = {108, 105, 110};
    Bytes tokens;
    must(plait_engine_generate(engine_, prompt, 3, 12, 60000, tokens.out(), err_));
    for (const int32_t id : tokens.integers()) note(std::to_string(id));
    must_fail(plait_engine_generate(engine_, prompt, 0, 12, 60000, tokens.out(), err_));
    Bytes report;
    must(plait_engine_report(engine_, "config", report.out(), err_));
    must(plait_engine_report(engine_, "counters", report.out(), err_));
    std::vector<float> values(32);
    must(plait_engine_tensor_read(engine_, "final_norm.weight", PLAIT_KIND_PARAM,
                                  PLAIT_DTYPE_FLOAT32, 60000, values.data(), 128, err_));
    for (const float value : values) note(static_cast<double>(value));
    must(plait_engine_close(engine_, 60000, err_));
  }

  void weights() {
    Config other = make_config(context_);
    must(plait_config_load_hf(other, path("model").c_str(), err_));
    Bytes epsilon;
    must(plait_config_get(other, "model.norm_epsilon", epsilon.out(), err_));
    note(epsilon.text());
    Checkpoint checkpoint;
    must(plait_checkpoint_open(context_, path("model").c_str(), checkpoint.out(), err_));
    Op op;
    must(plait_checkpoint_export_hf(checkpoint, other, path("export").c_str(), op.out(), err_));
    must(plait_op_wait(op, 60000, err_));
    note(read_file(path("export") + "/config.json"));
  }

  std::string directory_, keys_, out_;
  Err err_;
  Context context_;
  Config config_;
  Group group_;
  Dataset train_, evaluate_;
  Engine engine_;
};

}  // namespace

std::string workout(const std::string& directory, const std::string& keys) {
  return Pass(directory, keys).run();
}

}  // namespace host

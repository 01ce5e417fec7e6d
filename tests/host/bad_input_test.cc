// Bad input through the C ABI: its code and word, the numbers in its message, an engine that goes
// on, nothing half-written.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/host/process_state.h"
#include "tests/host/rig.h"

using host::Err;
using host::Rig;

namespace {

using Parts = std::vector<std::string>;

void check_refused(int32_t code, const Err& err, int32_t want, const std::string& word,
                   const Parts& parts) {
  INFO(err.message());
  CHECK(code == want);
  CHECK(err.word() == word);
  CHECK(plait_error_code(err.get()) == want);
  CHECK(err.message().find('\n') == std::string::npos);
  CHECK(err.message().rfind(word + ": ", 0) == 0);
  for (const std::string& part : parts) {
    INFO(part);
    CHECK(err.message().find(part) != std::string::npos);
  }
}

std::string uint16_text(const std::vector<int>& ids) {
  std::string bytes;
  for (const int id : ids) {
    bytes += static_cast<char>(id & 0xFF);
    bytes += static_cast<char>(id >> 8);
  }
  return bytes;
}

std::string number_text(uint64_t value, int bytes) {
  return {reinterpret_cast<const char*>(&value), static_cast<size_t>(bytes)};
}

/// An index of sequences of `lengths` uint16 ids, one document each.
std::string index_text(const std::vector<int32_t>& lengths) {
  std::string text("MMIDIDX\0\0", 9);
  text += number_text(1, 8) + number_text(8, 1);
  text += number_text(lengths.size(), 8) + number_text(lengths.size() + 1, 8);
  for (const int32_t length : lengths) text += number_text(static_cast<uint32_t>(length), 4);
  uint64_t at = 0;
  for (const int32_t length : lengths) {
    text += number_text(at, 8);
    at += static_cast<uint64_t>(length) * 2;
  }
  for (uint64_t i = 0; i <= lengths.size(); ++i) text += number_text(i, 8);
  return text;
}

Parts names_in(const std::string& directory) {
  Parts names;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(directory)) {
    names.push_back(entry.path().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A configuration whose training data is `path`.
host::Config data_config(plait_context* context, const std::string& path) {
  return host::small_config(context,
                            "{\"data.train\":\"" + path + "\",\"train.sequence_length\":4}");
}

}  // namespace

TEST_CASE("bad keys and values name what is legal", "[bad_input]") {
  const host::Context context = host::make_context();
  const host::Config config = host::small_config(context);
  host::Bytes before, after;
  Err err;
  REQUIRE(plait_config_dump(config, 1, before.out(), err) == PLAIT_OK);
  const auto set = [&](const char* key, const char* value, const Parts& parts) {
    check_refused(plait_config_set(config, key, value, err), err, PLAIT_INVALID_ARGUMENT,
                  "argument", parts);
  };
  set("train.global_bach", "8", {"train.global_bach", "train.global_batch"});
  set("modle.layers", "8", {"modle.layers", "model.layers"});
  set("optimizer.beta1", "1.5", {"optimizer.beta1", "1.5", "1"});
  set("model.layers", "0", {"model.layers", "0", "1"});
  set("seed", "9223372036854775808", {"seed", "9223372036854775808"});
  set("precision.compute", "fp8", {"precision.compute", "fp8", "fp32", "bf16", "fp16"});
  set("model.tied", "maybe", {"model.tied", "maybe"});
  const std::string json = R"({"model.layers":3,"model.widht":4})";
  check_refused(plait_config_load(config, json.data(), static_cast<int64_t>(json.size()), err), err,
                PLAIT_INVALID_ARGUMENT, "argument", {"model.widht", "model."});
  REQUIRE(plait_config_dump(config, 1, after.out(), err) == PLAIT_OK);
  CHECK(before.text() == after.text());
}

TEST_CASE("sizes that do not divide name both numbers", "[bad_input]") {
  const host::Context context = host::make_context();
  const host::Group group = host::make_group(context, host::small_config(context));
  const auto refused = [&](const std::string& keys, const Parts& parts) {
    const host::Config config = host::small_config(context, keys);
    Err err;
    check_refused(plait_config_check(config, err), err, PLAIT_INVALID_ARGUMENT, "argument", parts);
    host::Engine engine;
    const int32_t code = plait_engine_create(group, config, 60000, engine.out(), err);
    check_refused(code, err, PLAIT_INVALID_ARGUMENT, "argument", parts);
    CHECK(static_cast<plait_engine*>(engine) == nullptr);
  };
  refused(R"({"model.hidden":30})", {"30", "4", "model.hidden", "model.heads"});
  refused(R"({"train.global_batch":10,"layout.micro_batch":4})", {"10", "4"});
  refused(R"({"train.global_batch":4,"layout.micro_batch":8})", {"4", "8"});  // M4
  refused(R"({"model.family":"llama","model.key_value_heads":3})", {"3", "4"});
  refused(R"({"train.sequence_length":17})", {"17", "16"});
  host::Engine engine;
  CHECK(plait_engine_create(group, host::small_config(context), 60000, engine.out(), nullptr) ==
        PLAIT_OK);
}

TEST_CASE("bad batches and prompts leave the engine as it was", "[bad_input]") {
  Rig rig, other;
  rig.good_step(1);
  other.good_step(1);
  Err err;
  host::Bytes tokens;
  const auto invalid = [&](int32_t code, const std::string& word, const Parts& parts) {
    check_refused(code, err, PLAIT_INVALID_ARGUMENT, word, parts);
    CHECK(plait_error_disposition(err.get()) == PLAIT_DISPOSITION_UNCHANGED);
  };
  std::vector<int32_t> rows = host::make_rows(4, 17);
  rows[3 * 17 + 16] = 61;
  rig.set_tokens(rows);
  const Parts place = {"sequence=3", "position=16", "value=61", "vocabulary=61"};
  invalid(rig.step(err), "token_range", place);
  invalid(plait_engine_evaluate(rig.engine, rig.batch, 60000, nullptr, err), "token_range", place);
  float losses[64];
  invalid(plait_engine_score(rig.engine, rig.batch, 60000, losses, sizeof losses, err),
          "token_range", place);
  invalid(plait_engine_forward_backward(rig.engine, rig.batch, 60000, nullptr, err), "token_range",
          place);
  rows[3 * 17 + 16] = 127;  // inside the padded vocabulary of 128
  rig.set_tokens(rows);
  invalid(rig.step(err), "token_range", {"value=127", "vocabulary=61"});
  REQUIRE(plait_batch_set(rig.batch, "tokens", nullptr, 0, 0, err) == PLAIT_OK);
  invalid(rig.step(err), "argument", {"tokens"});
  invalid(plait_engine_step(rig.engine, nullptr, 60000, nullptr, err), "argument", {});
  invalid(plait_engine_evaluate(rig.engine, nullptr, 60000, nullptr, err), "argument", {});
  const int32_t prompt[] = {1, 2, 61};
  invalid(plait_engine_generate(rig.engine, prompt, 0, 4, 60000, tokens.out(), err), "argument",
          {"prompt"});
  invalid(plait_engine_generate(rig.engine, prompt, 3, 4, 60000, tokens.out(), err), "token_range",
          {"position=2", "value=61", "vocabulary=61"});
  CHECK(rig.state() == other.state());
  CHECK(rig.good_step(2) == other.good_step(2));
}

TEST_CASE("what is no error: no target at all, a prompt longer than the model", "[bad_input]") {
  Rig rig;
  Err err;
  const std::vector<int32_t> none(64, -1);
  rig.set_tokens(host::make_rows(4, 16), 16);
  REQUIRE(plait_batch_set(rig.batch, "targets", none.data(), 4, 16, err) == PLAIT_OK);
  const std::string state = rig.state();
  REQUIRE(rig.step(err) == PLAIT_OK);
  CHECK(rig.metrics.loss == 0);
  CHECK(rig.metrics.skipped == 1);
  CHECK(rig.metrics.targets == 0);
  CHECK(rig.metrics.step == 1);
  CHECK(rig.metrics.samples_total == 4);
  CHECK(rig.state() == state);
  const std::vector<int32_t> prompt = host::make_rows(1, 50);
  host::Bytes tokens;
  REQUIRE(plait_engine_generate(rig.engine, prompt.data(), 50, 9, 60000, tokens.out(), err) ==
          PLAIT_OK);
  CHECK(tokens.integers().size() == 9);
}

TEST_CASE("D1, D2: damaged token files are refused when they are opened", "[bad_input]") {
  const host::Folder folder;
  const host::Context context = host::make_context();
  Err err;
  host::Dataset dataset;
  const int64_t descriptors = host::descriptor_count();
  const auto refused = [&](const std::string& path, int32_t code, const std::string& word,
                           const Parts& parts) {
    const host::Config config = data_config(context, path);
    check_refused(plait_dataset_open(context, config, "train", dataset.out(), err), err, code, word,
                  parts);
    CHECK(static_cast<plait_dataset*>(dataset) == nullptr);
    CHECK(host::descriptor_count() == descriptors);
  };
  const std::string ids = uint16_text({1, 2, 3, 4, 5, 6, 7, 8});
  const std::string none = folder.path("none");
  refused(none, PLAIT_NOT_FOUND, "no_file", {none});
  refused(folder.write("empty", ""), PLAIT_DATA_LOSS, "dataset_truncated", {"empty"});
  refused(folder.write("odd", ids.substr(0, 15)), PLAIT_DATA_LOSS, "dataset_truncated",
          {"odd", "got=15"});
  refused(folder.write("short", ids.substr(0, 8)), PLAIT_INVALID_ARGUMENT, "argument",
          {"short", "tokens=4", "sequence_length=4"});
  const std::string bin = folder.write("d.bin", ids);
  folder.write("d.idx", index_text({3, 5}));
  CHECK(plait_dataset_open(context, data_config(context, bin), "train", dataset.out(), err) ==
        PLAIT_OK);
  dataset = host::Dataset();
  folder.write("d.idx", index_text({3, 6}));  // one id more than the .bin holds
  refused(bin, PLAIT_DATA_LOSS, "dataset_truncated", {"d.", "want=12", "got=10"});
  folder.write("d.idx", index_text({3, -5}));
  refused(bin, PLAIT_DATA_LOSS, "dataset_lengths", {"sequence=1", "got=-5"});
  folder.write("d.idx", index_text({3, 5}).substr(0, 40));
  refused(bin, PLAIT_DATA_LOSS, "dataset_truncated", {"d.idx"});
  folder.write("d.idx", "");
  refused(bin, PLAIT_DATA_LOSS, "dataset_truncated", {"d.idx"});
  folder.write("d.idx", "MMIDXXX" + index_text({3, 5}).substr(7));
  refused(bin, PLAIT_DATA_LOSS, "dataset_magic", {"d.idx"});
}

TEST_CASE("D1: an id of a file outside the vocabulary ends the step before it", "[bad_input]") {
  const host::Folder folder;
  std::vector<int> ids(16 * 8 + 1, 5);
  ids[100] = 61;
  const std::string path = folder.write("d", uint16_text(ids));
  Rig rig("{\"data.shuffle\":false,\"data.train\":\"" + path + "\"}"), other;
  host::Dataset dataset;
  Err err;
  REQUIRE(plait_dataset_open(rig.context, rig.config, "train", dataset.out(), err) == PLAIT_OK);
  REQUIRE(plait_engine_attach_dataset(rig.engine, "train", dataset, 60000, err) == PLAIT_OK);
  REQUIRE(plait_engine_step(rig.engine, nullptr, 60000, nullptr, err) == PLAIT_OK);
  const std::string state = rig.state();
  for (int i = 0; i < 2; ++i) {
    check_refused(plait_engine_step(rig.engine, nullptr, 60000, nullptr, err), err, PLAIT_DATA_LOSS,
                  "dataset_token", {path, "index=100", "value=61", "vocabulary=61"});
    CHECK(plait_error_disposition(err.get()) == PLAIT_DISPOSITION_UNCHANGED);
    CHECK(rig.state() == state);
  }
  REQUIRE(plait_engine_attach_dataset(rig.engine, "train", nullptr, 60000, err) == PLAIT_OK);
  rig.good_step();
  CHECK(rig.metrics.step == 2);
}

TEST_CASE("D5: a token file that shrinks under the engine is an error, no signal", "[bad_input]") {
  const host::Folder folder;
  const std::string path = folder.write("d", uint16_text(std::vector<int>(1 << 16, 5)));
  Rig rig("{\"data.shuffle\":false,\"data.train\":\"" + path + "\"}");
  host::Dataset dataset;
  Err err;
  REQUIRE(plait_dataset_open(rig.context, rig.config, "train", dataset.out(), err) == PLAIT_OK);
  REQUIRE(plait_engine_attach_dataset(rig.engine, "train", dataset, 60000, err) == PLAIT_OK);
  REQUIRE(plait_engine_step(rig.engine, nullptr, 60000, nullptr, err) == PLAIT_OK);
  std::filesystem::resize_file(path, 20);
  check_refused(plait_engine_step(rig.engine, nullptr, 60000, nullptr, err), err, PLAIT_DATA_LOSS,
                "dataset_truncated", {path});
  REQUIRE(plait_engine_attach_dataset(rig.engine, "train", nullptr, 60000, err) == PLAIT_OK);
  rig.good_step();
}

TEST_CASE("files that cannot be encoded leave nothing behind", "[bad_input]") {
  const host::Folder folder;
  const host::Context context = host::make_context();
  host::Tokenizer tokenizer;
  Err err;
  REQUIRE(plait_tokenizer_open(context, "byte", nullptr, tokenizer.out(), err) == PLAIT_OK);
  folder.write("text", "some text");
  const Parts before = names_in(folder.path());
  const auto encode = [&](const std::string& input, const std::string& output) {
    host::Op op;
    const int32_t code = plait_tokenizer_encode_file(tokenizer, nullptr, input.c_str(),
                                                     output.c_str(), op.out(), err);
    return code == PLAIT_OK ? plait_op_wait(op, 60000, err) : code;
  };
  check_refused(encode(folder.path("none"), folder.path("out")), err, PLAIT_NOT_FOUND, "no_file",
                {folder.path("none")});
  CHECK(encode(folder.path("text"), folder.path("no/such/folder")) != PLAIT_OK);
  CHECK(encode(folder.path(), folder.path("out")) != PLAIT_OK);
  CHECK(names_in(folder.path()) == before);
  CHECK(encode(folder.path("text"), folder.path("out")) == PLAIT_OK);
}

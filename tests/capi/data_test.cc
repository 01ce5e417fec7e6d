#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include "tests/capi/host.h"

using host::Err;

namespace {

std::string uint16_file(int count) {
  std::string data;
  for (int i = 0; i < count; ++i) {
    data += static_cast<char>(i & 255);
    data += static_cast<char>(i >> 8);
  }
  return data;
}

std::string data_config(const std::string& path) {
  return "{\"data.train\":\"" + path +
         "\",\"data.shuffle\":false,\"data.split\":[0.75,0.25],\"data.token_type\":\"uint16\","
         "\"train.sequence_length\":10,\"model.vocab_size\":1000}";
}

}  // namespace

TEST_CASE("A data set describes and reads its samples", "[capi]") {
  const host::Folder folder;
  const std::string path = folder.write("t.bin", uint16_file(400));
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context, data_config(path));
  host::Dataset train, evaluate;
  Err err;
  REQUIRE(plait_dataset_open(context, config, "train", train.out(), err) == PLAIT_OK);
  REQUIRE(plait_dataset_open(context, config, "evaluate", evaluate.out(), err) == PLAIT_OK);
  auto info = host::sized<plait_dataset_info>();
  REQUIRE(plait_dataset_describe(train, &info, err) == PLAIT_OK);
  CHECK(info.tokens == 300);
  CHECK(info.samples == 29);
  CHECK(info.sequence_length == 10);
  CHECK(info.documents == 1);
  CHECK(info.fingerprint != 0);
  REQUIRE(plait_dataset_describe(evaluate, &info, err) == PLAIT_OK);
  CHECK(info.tokens == 100);
  host::Bytes values;
  REQUIRE(plait_dataset_read(train, "tokens", 1, 2, values.out(), err) == PLAIT_OK);
  const std::vector<int32_t> tokens = values.integers();
  REQUIRE(tokens.size() == 22);
  CHECK(tokens[0] == 10);
  CHECK(tokens[10] == 20);
  CHECK(tokens[11] == 20);
  CHECK(tokens[21] == 30);
  REQUIRE(plait_dataset_read(evaluate, "documents", 0, 1, values.out(), err) == PLAIT_OK);
  CHECK(values.integers() == std::vector<int32_t>(11, 0));
  REQUIRE(plait_dataset_read(train, "tokens", int64_t{3000000000}, 1, values.out(), err) ==
          PLAIT_OK);
  CHECK(values.integers()[0] == 10 * static_cast<int32_t>(3000000000 % 29));
  REQUIRE(plait_dataset_read(train, "tokens", 0, 0, values.out(), err) == PLAIT_OK);
  CHECK(plait_bytes_size(values) == 0);
}

TEST_CASE("A data set refuses bad requests and bad files", "[capi]") {
  const host::Folder folder;
  const std::string path = folder.write("t.bin", uint16_file(400));
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context, data_config(path));
  host::Dataset dataset;
  host::Bytes values;
  Err err;
  CHECK(plait_dataset_open(context, config, "test", dataset.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_dataset_open(context, config, nullptr, dataset.out(), err) == PLAIT_INVALID_ARGUMENT);
  REQUIRE(plait_dataset_open(context, config, "train", dataset.out(), err) == PLAIT_OK);
  CHECK(plait_dataset_read(dataset, "tokens", -1, 1, values.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_dataset_read(dataset, "tokens", 0, -1, values.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_dataset_read(dataset, "tokens", 0, INT64_MAX, values.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_dataset_read(dataset, "tokens", INT64_MAX, 2, values.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_dataset_read(dataset, "words", 0, 1, values.out(), err) == PLAIT_INVALID_ARGUMENT);
  REQUIRE(plait_config_set(config, "data.train", folder.path("none.bin").c_str(), err) == PLAIT_OK);
  CHECK(plait_dataset_open(context, config, "train", dataset.out(), err) == PLAIT_NOT_FOUND);
  REQUIRE(plait_config_set(config, "data.train", nullptr, err) == PLAIT_OK);
  CHECK(plait_dataset_open(context, config, "train", dataset.out(), err) == PLAIT_INVALID_ARGUMENT);
  folder.write("odd.bin", "abc");
  REQUIRE(plait_config_set(config, "data.train", folder.path("odd.bin").c_str(), err) == PLAIT_OK);
  CHECK(plait_dataset_open(context, config, "train", dataset.out(), err) == PLAIT_DATA_LOSS);
}

TEST_CASE("Bytes are tokens and come back", "[capi]") {
  const host::Context context = host::make_context();
  host::Tokenizer tokenizer;
  Err err;
  REQUIRE(plait_tokenizer_open(context, "byte", nullptr, tokenizer.out(), err) == PLAIT_OK);
  CHECK(plait_tokenizer_vocab_size(tokenizer) == 256);
  CHECK(plait_tokenizer_vocab_size(nullptr) == 0);
  const std::string text("a\0\xff z", 5);
  host::Bytes tokens, back;
  REQUIRE(plait_tokenizer_encode(tokenizer, text.data(), 5, tokens.out(), err) == PLAIT_OK);
  CHECK(tokens.integers() == std::vector<int32_t>{'a', 0, 255, ' ', 'z'});
  REQUIRE(plait_tokenizer_decode(tokenizer, tokens.integers().data(), 5, back.out(), err) ==
          PLAIT_OK);
  CHECK(back.text() == text);
  const int32_t bad[] = {1, 256};
  CHECK(plait_tokenizer_decode(tokenizer, bad, 2, back.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(err.word() == "token_range");
  CHECK(plait_tokenizer_encode(tokenizer, nullptr, 0, tokens.out(), err) == PLAIT_OK);
  CHECK(plait_tokenizer_encode(tokenizer, nullptr, 3, tokens.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_tokenizer_encode(tokenizer, "a", -1, tokens.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_tokenizer_decode(tokenizer, bad, INT64_MAX, back.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
  host::Tokenizer none;
  CHECK(plait_tokenizer_open(context, "words", nullptr, none.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_tokenizer_open(context, "gpt2", nullptr, none.out(), err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_tokenizer_open(context, "gpt2", "/nonexistent", none.out(), err) == PLAIT_NOT_FOUND);
}

TEST_CASE("A file is encoded in the background", "[capi]") {
  const host::Folder folder;
  const std::string text(3000000, 'q');
  folder.write("\xF0\x9F\x90\x8D.txt", text);  // a path beyond the BMP
  const host::Context context = host::make_context();
  host::Tokenizer tokenizer;
  Err err;
  REQUIRE(plait_tokenizer_open(context, "byte", nullptr, tokenizer.out(), err) == PLAIT_OK);
  host::Op op;
  REQUIRE(plait_tokenizer_encode_file(tokenizer, nullptr,
                                      folder.path("\xF0\x9F\x90\x8D.txt").c_str(),
                                      folder.path("out.bin").c_str(), op.out(), err) == PLAIT_OK);
  REQUIRE(plait_op_wait(op, 60000, err) == PLAIT_OK);
  auto progress = host::sized<plait_progress>();
  REQUIRE(plait_op_progress(op, &progress, err) == PLAIT_OK);
  CHECK(progress.state == PLAIT_OP_DONE);
  CHECK(progress.done_bytes == 3000000);
  CHECK(progress.total_bytes == 3000000);
  host::Bytes report;
  REQUIRE(plait_op_result(op, report.out(), err) == PLAIT_OK);
  CHECK(report.text().find("\"tokens\":3000000") != std::string::npos);
  CHECK(std::filesystem::file_size(folder.path("out.bin")) == 6000000);
  CHECK(plait_op_wait(op, 0, err) == PLAIT_OK);
  CHECK(plait_op_wait(op, -2, err) == PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("An operation that fails says so to everyone who asks", "[capi]") {
  const host::Folder folder;
  const host::Context context = host::make_context();
  host::Tokenizer tokenizer;
  Err err;
  REQUIRE(plait_tokenizer_open(context, "byte", nullptr, tokenizer.out(), err) == PLAIT_OK);
  host::Op op;
  REQUIRE(plait_tokenizer_encode_file(tokenizer, nullptr, folder.path("none").c_str(),
                                      folder.path("out").c_str(), op.out(), err) == PLAIT_OK);
  for (int i = 0; i < 2; ++i) {
    CHECK(plait_op_wait(op, 60000, err) == PLAIT_NOT_FOUND);
    CHECK(err.word() == "no_file");
  }
  auto progress = host::sized<plait_progress>();
  REQUIRE(plait_op_progress(op, &progress, err) == PLAIT_OK);
  CHECK(progress.state == PLAIT_OP_FAILED);
  host::Bytes report;
  CHECK(plait_op_result(op, report.out(), err) == PLAIT_NOT_FOUND);
  CHECK(!std::filesystem::exists(folder.path("out")));
}

TEST_CASE("An operation is polled, cancelled, or freed while it runs", "[capi]") {
  const host::Folder folder;
  folder.write("in.txt", std::string(64 << 20, 'q'));
  const host::Context context = host::make_context();
  host::Tokenizer tokenizer;
  Err err;
  REQUIRE(plait_tokenizer_open(context, "byte", nullptr, tokenizer.out(), err) == PLAIT_OK);
  const host::Config options = host::make_config(context, "{\"threads\":1}");
  const auto start = [&](plait_op** op) {
    return plait_tokenizer_encode_file(tokenizer, options, folder.path("in.txt").c_str(),
                                       folder.path("out").c_str(), op, err);
  };
  host::Op op;
  REQUIRE(start(op.out()) == PLAIT_OK);
  CHECK(plait_op_wait(op, 0, err) == PLAIT_DEADLINE_EXCEEDED);
  CHECK(plait_error_disposition(err.get()) == PLAIT_DISPOSITION_RETRY);
  host::Bytes report;
  CHECK(plait_op_result(op, report.out(), err) == PLAIT_FAILED_PRECONDITION);
  plait_op_cancel(op);
  CHECK(plait_op_wait(op, 60000, err) == PLAIT_CANCELLED);
  auto progress = host::sized<plait_progress>();
  REQUIRE(plait_op_progress(op, &progress, err) == PLAIT_OK);
  CHECK(progress.state == PLAIT_OP_CANCELLED);
  CHECK(!std::filesystem::exists(folder.path("out")));
  REQUIRE(start(op.out()) == PLAIT_OK);
  plait_op_free(op.release());  // neither waits nor cancels: the file appears
  for (int i = 0; i < 3000 && !std::filesystem::exists(folder.path("out")); ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(std::filesystem::exists(folder.path("out")));
}

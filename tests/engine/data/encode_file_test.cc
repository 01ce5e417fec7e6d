#include "engine/data/encode_file.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "engine/data/token_file.h"
#include "kernels/base/random.h"
#include "tests/engine/data/bpe_support.h"
#include "tests/engine/data/data_support.h"
#include "tests/support/memory_files.h"

using namespace plait;

namespace {

using Ids = std::vector<int32_t>;

std::unique_ptr<Tokenizer> small_tokenizer() {
  MemoryFiles files;
  const SmallBpe bpe = train_small_bpe(sample_text(), 120);
  files.put("v/encoder.json", bpe.vocabulary());
  files.put("v/vocab.bpe", bpe.merges_text());
  return open_tokenizer(files, "gpt2", "v");
}

Ids tokens_of(Files& files, const std::string& path, int64_t vocab_size) {
  const auto file = TokenFile::open(files, path, {TokenType::kAuto, vocab_size});
  Ids ids(static_cast<size_t>(file->tokens()));
  file->read(0, file->tokens(), ids.data());
  return ids;
}

/// Text in which every kind of border occurs near every chunk border.
std::string awkward_text(uint32_t seed, size_t bytes) {
  const std::vector<std::string> pieces = {" ",
                                           "     ",
                                           "\n",
                                           "\n\n \n",
                                           "the cat's",
                                           "banana",
                                           "'ll",
                                           "1234",
                                           "!?",
                                           "\xC3\xA9",
                                           "\xE3\x80\x80",
                                           "\xF0\x9F\x98\x80",
                                           "\xFF",
                                           "\xE4\xB8\xAD\xE6\x96\x87",
                                           "<|endoftext|>",
                                           "<|endof",
                                           "\t\r\n",
                                           "aaaaaaaaaa",
                                           std::string(3, '\0')};
  std::string text;
  for (uint32_t i = 0; text.size() < bytes; ++i) {
    text += pieces[philox({seed, 4}, {i, 0, 0, 0})[0] % pieces.size()];
  }
  return text;
}

}  // namespace

TEST_CASE("neither chunks nor threads change the ids", "[encode_file]") {
  const auto tokenizer = small_tokenizer();
  MemoryFiles files;
  Env env = memory_env(files);
  for (uint32_t seed = 0; seed < 6; ++seed) {
    const std::string text = awkward_text(seed, 3000);
    files.put("in", text);
    for (const bool is_special : {false, true}) {
      const Ids want = tokenizer->encode(text, is_special);
      for (const int64_t chunk : {1, 2, 3, 7, 16, 61, 256, 1000, 100000}) {
        EncodeFileOptions options;
        options.chunk_bytes = chunk;
        options.threads = 1 + static_cast<int>(chunk % 3);
        options.is_special = is_special;
        const EncodeFileResult result = encode_file(env, *tokenizer, "in", "out", options);
        CHECK(result.tokens == static_cast<int64_t>(want.size()));
        CHECK(result.bytes == static_cast<int64_t>(text.size()));
        CHECK(result.documents == 1);
        if (tokens_of(files, "out", tokenizer->vocab_size()) != want) FAIL(seed << " " << chunk);
      }
    }
    decode_file(env, *tokenizer, "out", "back", TokenType::kAuto, {});
    CHECK(files.at("back").bytes == text);
  }
}

TEST_CASE("text without any white space is cut too", "[encode_file]") {
  const auto tokenizer = small_tokenizer();
  MemoryFiles files;
  Env env = memory_env(files);
  std::string text;
  for (int i = 0; i < 3000; ++i)
    text += i % 3 == 0 ? "banana" : i % 3 == 1 ? "12" : "\xE4\xB8\xAD!";
  for (const std::string& input : {text, std::string(20000, 'a'), std::string(20000, '\0')}) {
    files.put("in", input);
    EncodeFileOptions options;
    options.chunk_bytes = 500;
    options.threads = 2;
    encode_file(env, *tokenizer, "in", "out", options);
    CHECK(tokens_of(files, "out", tokenizer->vocab_size()) == tokenizer->encode(input));
  }
}

TEST_CASE("each line is a document encoded by itself", "[encode_file]") {
  const auto tokenizer = small_tokenizer();
  MemoryFiles files;
  Env env = memory_env(files);
  for (const std::string end : {"", "\n", "last line, open"}) {
    const std::string text = awkward_text(11, 2000) + "\n" + end;
    files.put("in", text);
    std::vector<Ids> want;
    std::string_view rest = text;
    while (!rest.empty()) {
      const size_t bytes = std::min(rest.find('\n'), rest.size() - 1) + 1;
      want.push_back(tokenizer->encode(rest.substr(0, bytes)));
      rest.remove_prefix(bytes);
    }
    for (const int64_t chunk : {1, 5, 64, 100000}) {
      EncodeFileOptions options;
      options.lines = true;
      options.is_indexed = true;
      options.chunk_bytes = chunk;
      options.threads = 2;
      const EncodeFileResult result = encode_file(env, *tokenizer, "in", "out.bin", options);
      CHECK(result.documents == static_cast<int64_t>(want.size()));
      const auto file =
          TokenFile::open(files, "out.bin", {TokenType::kAuto, tokenizer->vocab_size()});
      REQUIRE(file->documents() == static_cast<int64_t>(want.size()));
      for (int64_t d = 0; d < file->documents(); ++d) {
        const int64_t first = file->document_start(d), last = file->document_start(d + 1);
        Ids got(static_cast<size_t>(last - first));
        file->read(first, last - first, got.data());
        if (got != want[static_cast<size_t>(d)]) FAIL(d << " at chunk " << chunk);
      }
    }
    decode_file(env, *tokenizer, "out.bin", "back", TokenType::kAuto, {});
    CHECK(files.at("back").bytes == text);
  }
}

TEST_CASE("an empty text gives an empty file, and back", "[encode_file]") {
  MemoryFiles files;
  Env env = memory_env(files);
  const auto tokenizer = open_tokenizer(files, "byte", "");
  files.put("in", "");
  CHECK(encode_file(env, *tokenizer, "in", "out", {}).tokens == 0);
  CHECK(files.at("out").bytes.empty());
  decode_file(env, *tokenizer, "out", "back", TokenType::kAuto, {});
  CHECK(files.at("back").bytes.empty());
  EncodeFileOptions options;
  options.is_indexed = true;
  CHECK(encode_file(env, *tokenizer, "in", "d", options).documents == 1);
  CHECK(TokenFile::open(files, "d.bin", {TokenType::kAuto, 256})->documents() == 1);
  options.lines = true;
  CHECK(encode_file(env, *tokenizer, "in", "d", options).documents == 0);
  decode_file(env, *tokenizer, "d.bin", "back", TokenType::kAuto, {});
  CHECK(files.at("back").bytes.empty());
}

TEST_CASE("progress is told, cancelling and errors leave nothing", "[encode_file]") {
  MemoryFiles files;
  Env env = memory_env(files);
  const auto tokenizer = open_tokenizer(files, "byte", "");
  files.put("in", std::string(100000, 'x'));
  EncodeFileOptions options;
  options.chunk_bytes = 1000;
  std::vector<int64_t> done;
  options.progress = [&](int64_t bytes, int64_t total) {
    CHECK(total == 100000);
    done.push_back(bytes);
  };
  encode_file(env, *tokenizer, "in", "out", options);
  CHECK(done.size() > 10);
  CHECK(std::is_sorted(done.begin(), done.end()));
  CHECK(done.back() == 100000);
  files.unlink("out");
  std::atomic<bool> cancel{false};
  options.cancel = &cancel;
  options.progress = [&](int64_t bytes, int64_t) { cancel = bytes > 50000; };
  check_error([&] { encode_file(env, *tokenizer, "in", "out", options); }, "cancelled");
  CHECK(files.names() == std::vector<std::string>{"in"});
  check_error([&] { encode_file(env, *tokenizer, "none", "out", {}); }, "no_file");
  files.put("odd", pack<uint16_t>({1, 300}));
  check_error([&] { decode_file(env, *tokenizer, "odd", "out", TokenType::kAuto, {}); },
              "dataset_token", {R"("path":"odd","index":1,"value":300,"vocabulary":256)"});
  EncodeFileOptions special;
  special.is_special = true;
  check_error([&] { encode_file(env, *tokenizer, "in", "out", special); }, "argument");
  files.fail_new_files();
  check_error([&] { encode_file(env, *tokenizer, "in", "out", {}); }, "no_space");
  CHECK(files.names() == std::vector<std::string>{"in", "odd"});
}

TEST_CASE("files on disk with GPT-2's vocabulary", "[encode_file][gpt2]") {
  const std::string shared = std::string(PLAIT_SHARED_DIR) + "/data";
  if (!std::filesystem::exists(shared + "/gpt2")) {
    WARN("skipped: no vocabulary");
    return;
  }
  Env& env = posix_env();
  const TempDirectory directory;
  const auto tokenizer = open_tokenizer(env.files, "gpt2", shared + "/gpt2");
  const std::string in = directory.file("in"), out = directory.file("out");
  const auto cases = nlohmann::json::parse(read_text(shared + "/gpt2/vectors.json"))["cases"];
  for (const auto& row : cases) {
    write_text(in, row["text"].get<std::string>());
    encode_file(env, *tokenizer, in, out, {});
    const auto ids = row["ids"].get<std::vector<int64_t>>();
    CHECK(read_text(out) == pack<uint16_t>(ids));
    decode_file(env, *tokenizer, out, directory.file("back"), TokenType::kAuto, {});
    CHECK(read_text(directory.file("back")) == row["text"].get<std::string>());
  }
  EncodeFileOptions options;
  options.threads = 2;
  const EncodeFileResult result =
      encode_file(env, *tokenizer, shared + "/shakespeare.txt", out, options);
  CHECK(result.tokens == 338025);  // the count that the text is known for
  CHECK(tokens_of(env.files, out, 50257) ==
        tokenizer->encode(read_text(shared + "/shakespeare.txt")));
  decode_file(env, *tokenizer, out, directory.file("back"), TokenType::kAuto, {});
  CHECK(read_text(directory.file("back")) == read_text(shared + "/shakespeare.txt"));
  CHECK(std::distance(std::filesystem::directory_iterator(directory.file(".")), {}) == 3);
}

#include "engine/data/tokenizer.h"

#include <catch2/catch.hpp>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "kernels/base/random.h"
#include "tests/engine/data/bpe_support.h"
#include "tests/engine/data/data_support.h"
#include "tests/support/memory_files.h"

using namespace plait;

namespace {

using Ids = std::vector<int32_t>;

const std::string kShared = PLAIT_SHARED_DIR;

std::string random_bytes(uint32_t seed, size_t count) {
  std::string text;
  for (uint32_t i = 0; text.size() < count; ++i) {
    for (const uint32_t word : philox({seed, 1}, {i, 0, 0, 0})) {
      // Every other seed is mostly text, so that words of all kinds occur.
      const char byte = static_cast<char>(word >> 8);
      text += seed % 2 == 0 ? byte : " \n'sl0a.tre\xC3\xA9"[word % 13];
    }
  }
  return text.substr(0, count);
}

std::unique_ptr<Tokenizer> open_small(const SmallBpe& bpe, bool has_marker = true) {
  MemoryFiles files;
  files.put("v/encoder.json", bpe.vocabulary(has_marker));
  files.put("v/vocab.bpe", bpe.merges_text());
  return open_tokenizer(files, "gpt2", "v");
}

/// Null when the files are not there.
std::unique_ptr<Tokenizer> open_shared(const std::string& directory) {
  if (!std::filesystem::exists(kShared + directory)) {
    WARN("skipped: no " << directory);
    return nullptr;
  }
  return open_tokenizer(posix_env().files, "gpt2", kShared + directory);
}

}  // namespace

TEST_CASE("the byte tokenizer maps bytes to themselves", "[tokenizer]") {
  MemoryFiles files;
  const auto tokenizer = open_tokenizer(files, "byte", "");
  CHECK(tokenizer->vocab_size() == 256);
  CHECK(tokenizer->end_of_text() == -1);
  CHECK(tokenizer->encode("a\xFF\n") == Ids{97, 255, 10});
  CHECK(tokenizer->encode("").empty());
  const std::string text = random_bytes(2, 1000);
  CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
  check_error(
      [&] {
        tokenizer->decode(Ids{1, 256});
      },
      "token_range", {R"("index":1,"value":256,"vocabulary":256)"});
  check_error([&] { tokenizer->decode(Ids{-1}); }, "token_range", {R"("value":-1)"});
  check_error([&] { tokenizer->encode("a", true); }, "argument", {"tokenize.special"});
  check_error([&] { open_tokenizer(files, "llama", ""); }, "argument", {R"("got":"llama")"});
}

TEST_CASE("a small vocabulary encodes as plain merging does", "[tokenizer]") {
  const std::string text = sample_text();
  const SmallBpe bpe = train_small_bpe(text, 150);
  REQUIRE(bpe.merges.size() > 80);
  const auto tokenizer = open_small(bpe);
  CHECK(tokenizer->vocab_size() == static_cast<int64_t>(bpe.ids.size()) + 1);
  CHECK(tokenizer->encode(text) == encode_plainly(bpe, text));
  CHECK(tokenizer->encode(text).size() < text.size() / 2);
  CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
  for (uint32_t seed = 0; seed < 40; ++seed) {
    const std::string random = random_bytes(seed, 400);
    const Ids ids = tokenizer->encode(random);
    if (ids != encode_plainly(bpe, random)) FAIL("seed " << seed);
    if (tokenizer->decode(ids) != random) FAIL("seed " << seed);
  }
}

TEST_CASE("rules in any order are followed by rank, in short and long words", "[tokenizer]") {
  // Orders that no training gives: merged tokens may rank before their parts.
  SmallBpe bpe = train_small_bpe("", 0);
  const std::vector<std::string> letters = {"a", "b", "c"};
  for (const std::string& x : letters) {
    for (const std::string& y : letters) {
      bpe.merges.emplace_back(x, y);
      for (const std::string& z : letters) {
        bpe.merges.emplace_back(x + y, z);
        bpe.merges.emplace_back(x, y + z);
      }
    }
  }
  for (const auto& [left, right] : bpe.merges) {
    bpe.ids.emplace(left + right, static_cast<int32_t>(bpe.ids.size()));
  }
  for (uint32_t seed = 0; seed < 60; ++seed) {
    for (size_t i = bpe.merges.size() - 1; i > 0; --i) {
      const uint32_t word = philox({seed, 2}, {static_cast<uint32_t>(i), 0, 0, 0})[0];
      std::swap(bpe.merges[i], bpe.merges[word % (i + 1)]);
    }
    const auto tokenizer = open_small(bpe);
    for (const size_t length : {2, 3, 7, 30, 48, 49, 60, 200}) {
      std::string word;
      for (uint32_t i = 0; i < length; ++i) {
        word += "aabc"[philox({seed, 3}, {i, static_cast<uint32_t>(length), 0, 0})[0] % 4];
      }
      if (tokenizer->encode(word) != encode_plainly(bpe, word)) FAIL(seed << " " << word);
    }
  }
}

TEST_CASE("a word of a million letters is merged in reasonable time", "[tokenizer]") {
  const auto tokenizer = open_small(train_small_bpe(sample_text(), 150));
  std::string text;
  while (text.size() < 1000000) text += "bananaaaaathebatzq";
  const Ids ids = tokenizer->encode(text);
  CHECK(ids.size() < text.size() * 2 / 3);
  CHECK(tokenizer->decode(ids) == text);
}

TEST_CASE("the marker is text unless asked for", "[tokenizer][F6]") {
  const SmallBpe bpe = train_small_bpe(sample_text(), 50);
  const auto tokenizer = open_small(bpe);
  const int32_t marker = static_cast<int32_t>(bpe.ids.size());
  CHECK(tokenizer->end_of_text() == marker);
  const std::string text = "the cat  <|endoftext|>  hat<|endoftext|><|endoftext";
  CHECK(tokenizer->encode(text) == encode_plainly(bpe, text));
  Ids want = encode_plainly(bpe, "the cat  ");
  want.push_back(marker);
  for (const int32_t id : encode_plainly(bpe, "  hat")) want.push_back(id);
  want.push_back(marker);
  for (const int32_t id : encode_plainly(bpe, "<|endoftext")) want.push_back(id);
  CHECK(tokenizer->encode(text, true) == want);
  CHECK(tokenizer->decode(want) == text);
  const auto plain = open_small(bpe, false);
  CHECK(plain->end_of_text() == -1);
  check_error([&] { plain->encode("a", true); }, "argument", {"tokenize.special"});
}

TEST_CASE("decoding may end in half a character", "[tokenizer]") {
  const auto tokenizer = open_small(train_small_bpe("", 0));
  CHECK(tokenizer->decode(Ids{0xC3}) == "\xC3");
  CHECK(tokenizer->decode(Ids{0xC3, 0xA9}) == "\xC3\xA9");
  check_error(
      [&] {
        tokenizer->decode(Ids{5, 257});
      },
      "token_range", {R"("index":1,"value":257,"vocabulary":257)"});
}

TEST_CASE("GPT-2's files give the published ids", "[tokenizer][gpt2][F6][F8]") {
  const auto tokenizer = open_shared("/data/gpt2");
  if (!tokenizer) return;
  CHECK(tokenizer->vocab_size() == 50257);
  CHECK(tokenizer->end_of_text() == 50256);
  const auto cases = nlohmann::json::parse(read_text(kShared + "/data/gpt2/vectors.json"))["cases"];
  CHECK(cases.size() >= 12);
  for (const auto& row : cases) {
    const std::string text = row["text"];
    CAPTURE(text);
    CHECK(tokenizer->encode(text) == row["ids"].get<Ids>());
    CHECK(tokenizer->decode(row["ids"].get<Ids>()) == text);
  }
  CHECK(tokenizer->encode("<|endoftext|>") == Ids{27, 91, 437, 1659, 5239, 91, 29});
  CHECK(tokenizer->encode("<|endoftext|>", true) == Ids{50256});
  CHECK(tokenizer->decode(Ids{50256}) == "<|endoftext|>");
  CHECK(tokenizer->encode("  Hello World.") == Ids{220, 18435, 2159, 13});
  for (uint32_t seed = 0; seed < 20; ++seed) {
    const std::string text = random_bytes(seed, 5000);
    CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
  }
}

TEST_CASE("merges.txt and vocab.json are read too", "[tokenizer]") {
  const auto tokenizer = open_shared("/data/tiny_bpe");
  if (!tokenizer) return;
  CHECK(tokenizer->vocab_size() == 5000);
  CHECK(tokenizer->end_of_text() == 4999);
  const std::string text = sample_text();
  CHECK(tokenizer->decode(tokenizer->encode(text)) == text);
  CHECK(tokenizer->encode(text).size() < text.size() / 2);
}

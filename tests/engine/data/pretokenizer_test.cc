#include "engine/data/pretokenizer.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "kernels/base/random.h"
#include "tests/engine/data/data_support.h"

using namespace plait;

namespace {

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const size_t bytes = static_cast<size_t>(first_word(text));
    words.emplace_back(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
  return words;
}

}  // namespace

TEST_CASE("words are those of the pattern", "[pretokenizer]") {
  const std::string path = std::string(PLAIT_TEST_DATA_DIR) + "/pretokenizer_vectors.json";
  const auto rows =
      nlohmann::json::parse(read_text(path)).get<std::vector<std::vector<std::string>>>();
  CHECK(rows.size() >= 1000);
  for (const std::vector<std::string>& want : rows) {
    std::string text;
    for (const std::string& word : want) text += word;
    const std::vector<std::string> got = words_of(text);
    if (got != want) {
      CAPTURE(text);
      CHECK(got == want);
    }
  }
}

TEST_CASE("white space leaves its last character to what follows", "[pretokenizer][F8]") {
  using Words = std::vector<std::string>;
  CHECK(words_of("  Hello World.") == Words{" ", " Hello", " World", "."});
  CHECK(words_of("a \n b") == Words{"a", " \n", " b"});
  CHECK(words_of("a\n\nb") == Words{"a", "\n", "\n", "b"});
  CHECK(words_of("a  ") == Words{"a", "  "});
  CHECK(words_of("don't 'sx 'll'") == Words{"don", "'t", " '", "sx", " '", "ll", "'"});
  CHECK(words_of("'sx'REx") == Words{"'s", "x", "'", "REx"});
}

TEST_CASE("ill-formed bytes are characters of their own, no letters", "[pretokenizer]") {
  for (const std::string text :
       {"\x80", "\xC3", "\xC0\x80", "\xED\xA0\x80", "\xF5\x80\x80\x80", "\xE2\x82", "\xF0\x9F\x98",
        "\xE0\x80\xAF", "\xF4\x90\x80\x80", "\xFF\xFE"}) {
    std::string_view rest = text;
    while (!rest.empty()) {
      const Character character = first_character(rest);
      CHECK(character.bytes == 1);
      CHECK(character.kind == CharacterKind::kOther);
      rest.remove_prefix(1);
    }
    CHECK(words_of(" " + text + "a") == std::vector<std::string>{" " + text, "a"});
  }
}

TEST_CASE("a safe place to cut is safe whatever follows", "[pretokenizer]") {
  const std::vector<std::string> pieces = {" ",
                                           "  ",
                                           "\n",
                                           "a",
                                           "bc",
                                           "'",
                                           "'l",
                                           "l",
                                           "7",
                                           "!",
                                           "\xC3",
                                           "\xA9",
                                           "\xC3\xA9",
                                           "\xE3",
                                           "\x80",
                                           "\xC2",
                                           "\t",
                                           "\xA0",
                                           "re",
                                           " '",
                                           "\xF0",
                                           "\xF0\x9F\x98\x80",
                                           "\xE2\x80\x83",
                                           "\xE3\x80\x80"};
  const auto text_of = [&](uint32_t seed, uint32_t count) {
    std::string text;
    for (uint32_t i = 0; i < count; ++i) {
      text += pieces[philox({seed, 9}, {i, 0, 0, 0})[0] % pieces.size()];
    }
    return text;
  };
  int64_t cuts = 0;
  for (uint32_t seed = 0; seed < 4000; ++seed) {
    const std::string begin = text_of(seed, 1 + seed % 24);
    const int64_t cut = last_word_end(begin, 0);
    cuts += cut > 0;
    for (uint32_t other = 0; other < 8; ++other) {
      const std::string whole = begin + text_of(100000 + seed * 8 + other, other);
      std::vector<std::string> want = words_of(whole);
      const std::string_view view = whole;
      std::vector<std::string> got = words_of(view.substr(0, static_cast<size_t>(cut)));
      for (std::string& word : words_of(view.substr(static_cast<size_t>(cut)))) {
        got.push_back(std::move(word));
      }
      if (want != got) {
        CAPTURE(whole, cut);
        CHECK(want == got);
      }
    }
  }
  CHECK(cuts > 2000);
  CHECK(last_word_end("", 0) == 0);
  CHECK(last_word_end("aaaaaaaaaaaaaaaaaaaaaaaaaaa", 0) == 0);
}

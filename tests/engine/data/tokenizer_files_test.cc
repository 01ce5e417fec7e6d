#include "engine/data/tokenizer_files.h"

#include <catch2/catch.hpp>

#include "tests/engine/data/bpe_support.h"
#include "tests/engine/data/data_support.h"
#include "tests/support/memory_files.h"

using namespace plait;

namespace {

const SmallBpe& small() {
  static const SmallBpe bpe = train_small_bpe(sample_text(), 20);
  return bpe;
}

void parse(const std::string& vocabulary, const std::string& merges) {
  parse_bpe_files(vocabulary, "v.json", merges, "m.txt");
}

/// The good vocabulary with `from` replaced by `to`.
std::string changed(const std::string& from, const std::string& to) {
  std::string text = small().vocabulary();
  const size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a good pair of files", "[tokenizer_files]") {
  const BpeFiles files =
      parse_bpe_files(small().vocabulary(), "v.json", small().merges_text(), "m.txt");
  CHECK(files.tokens.size() == small().ids.size() + 1);
  CHECK(files.merges.size() == small().merges.size());
  for (const auto& [token, id] : small().ids) {
    CHECK(files.tokens[static_cast<size_t>(id)] == token);
  }
  std::string crlf;
  for (const char c : small().merges_text()) crlf += c == '\n' ? "\r\n" : std::string(1, c);
  CHECK(parse_bpe_files(small().vocabulary(), "v", crlf, "m").merges.size() ==
        small().merges.size());
  const std::string without_version = small().merges_text().substr(14);
  CHECK(parse_bpe_files(small().vocabulary(), "v", without_version, "m").merges.size() ==
        small().merges.size());
}

TEST_CASE("which files a directory must hold", "[tokenizer_files]") {
  MemoryFiles files;
  check_error([&] { read_bpe_files(files, "d"); }, "no_file", {R"("path":"d")"});
  files.put("d/merges.txt", small().merges_text());
  check_error([&] { read_bpe_files(files, "d"); }, "no_file", {R"("path":"d/vocab.json")"});
  files.put("d/vocab.json", small().vocabulary());
  CHECK(read_bpe_files(files, "d").merges.size() == small().merges.size());
  files.put("d/encoder.json", "{}");
  check_error([&] { read_bpe_files(files, "d"); }, "no_file", {R"("path":"d/vocab.bpe")"});
}

TEST_CASE("a hostile vocabulary is refused", "[tokenizer_files]") {
  const std::string merges = small().merges_text();
  for (const std::string text : {"", "nonsense", "[]", "[1]", "17", "-3", "\"a\"", "null", "true",
                                 "{\"a\":", "{\"a\":0", "{\"\xFF\":0}", "1e5"}) {
    CAPTURE(text);
    check_error([&] { parse(text, merges); }, "invalid_file", {R"("path":"v.json")"});
  }
  check_error([&] { parse(small().vocabulary() + "x", merges); }, "invalid_file");
  check_error([&] { parse(std::string(2000000, '['), merges); }, "invalid_file");
  for (const std::string value : {"-1", "1.5", "\"1\"", "null", "[0]", "{\"b\":1}", "true",
                                  "4294967296", "99999999999999999999", "2147483647", "400"}) {
    CAPTURE(value);
    check_error([&] { parse(changed("\"!\":33", "\"!\":" + value), merges); }, "invalid_field",
                {R"("path":"v.json")", R"("token":"!")"});
  }
  check_error([&] { parse(changed("\"!\":33", "\"!\":34"), merges); }, "invalid_field",
              {R"("got":34)"});
  check_error([&] { parse(changed("\"!\":33", "\"$\":33"), merges); }, "invalid_field",
              {R"("token":"$")"});
  check_error([&] { parse(changed("\"!\":33", "\"\":33"), merges); }, "invalid_field",
              {R"("token":"")"});
  check_error([&] { parse(changed("\"!\":33", "\"a b\":33"), merges); }, "invalid_field",
              {R"("token":"a b")"});
  check_error([&] { parse(changed("\"!\":33", "\"\xE4\xB8\xAD\":33"), merges); }, "invalid_field");
  check_error([&] { parse(changed("\"!\":33", "\"!!\":33"), merges); }, "invalid_field",
              {R"("byte":33)"});
  check_error([&] { parse("{}", merges); }, "invalid_field", {R"("byte":0)"});
}

TEST_CASE("hostile merges are refused by line", "[tokenizer_files]") {
  const std::string vocabulary = small().vocabulary(), merges = small().merges_text();
  for (const std::string line : {"a", " a", "a ", "a b c", "a  b", " "}) {
    CAPTURE(line);
    check_error([&] { parse(vocabulary, "#version: 0.2\n" + line + "\n"); }, "invalid_file",
                {R"("path":"m.txt","line":2)"});
  }
  check_error([&] { parse(vocabulary, "q z"); }, "invalid_field",
              {R"("path":"m.txt")", R"("token":"qz")", R"("line":1)"});
  check_error([&] { parse(vocabulary, "qq z"); }, "invalid_field", {R"("token":"qq")"});
  check_error([&] { parse(vocabulary, std::string("\0 a", 3)); }, "invalid_field");
  const std::string first = merges.substr(14, merges.find('\n', 14) - 13);
  check_error([&] { parse(vocabulary, merges + first); }, "invalid_field", {R"("line":22)"});
}

#include "engine/data/token_file.h"

#include <catch2/catch.hpp>
#include <functional>

#include "engine/data/token_index.h"
#include "tests/engine/data/data_support.h"
#include "tests/support/memory_files.h"

using namespace plait;

namespace {

std::vector<int32_t> read_all(const TokenFile& file) {
  std::vector<int32_t> out(static_cast<size_t>(file.tokens()));
  file.read(0, file.tokens(), out.data());
  return out;
}

std::unique_ptr<TokenFile> open(MemoryFiles& files, const std::string& path, int64_t vocab_size,
                                TokenType type = TokenType::kAuto) {
  return TokenFile::open(files, path, {type, vocab_size});
}

/// Three documents of 3, 0 and 4 tokens in three sequences of uint16.
IndexText good_index() {
  IndexText index;
  index.lengths = {3, 1, 3};
  index.offsets = {0, 6, 8};
  index.documents = {0, 1, 1, 3};
  return index;
}

void put_pair(MemoryFiles& files, const IndexText& index, const std::string& bin) {
  files.put("d.idx", index.bytes());
  files.put("d.bin", bin);
}

}  // namespace

TEST_CASE("flat files hold uint16 or int32 by the vocabulary", "[token_file]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>({1, 2, 65535}));
  files.put("b", pack<int32_t>({7, 65536}));
  CHECK(read_all(*open(files, "a", 65536)) == std::vector<int32_t>{1, 2, 65535});
  CHECK(read_all(*open(files, "b", 65537)) == std::vector<int32_t>{7, 65536});
  CHECK(read_all(*open(files, "b", 70000, TokenType::kInt32)) == std::vector<int32_t>{7, 65536});
  CHECK(open(files, "a", 65536)->type() == TokenType::kUint16);
  CHECK(open(files, "b", 65537)->type() == TokenType::kInt32);
  CHECK_FALSE(open(files, "a", 100)->is_indexed());
}

TEST_CASE("X.bin beside X.idx is indexed, all else is flat", "[token_file]") {
  MemoryFiles files;
  put_pair(files, good_index(), pack<uint16_t>(counting(10, 7)));
  files.put("e.bin", pack<uint16_t>({4, 5}));
  files.put("d", pack<uint16_t>({6}));
  CHECK(open(files, "d.bin", 100)->is_indexed());
  CHECK(open(files, "d.bin", 100)->documents() == 3);
  CHECK_FALSE(open(files, "e.bin", 100)->is_indexed());
  CHECK(open(files, "d", 100)->tokens() == 1);
  check_error([&] { open(files, "d.idx", 100); }, "argument", {R"("path":"d.idx")"});
  check_error([&] { open(files, "none", 100); }, "no_file", {R"("path":"none")"});
  check_error([&] { open(files, "d", 100, TokenType::kUint8); }, "argument", {"uint8"});
}

TEST_CASE("a damaged index is refused, each damage by its own word", "[token_file][F4][D2]") {
  struct Row {
    const char* word;
    std::function<void(IndexText*)> damage;
    std::vector<std::string> fields;
  };
  const std::vector<Row> rows = {
      {"dataset_magic", [](IndexText* index) { index->magic[3] = 'X'; }, {R"("path":"d.idx")"}},
      {"dataset_version", [](IndexText* index) { index->version = 2; }, {R"("got":2,"want":1)"}},
      {"dataset_dtype", [](IndexText* index) { index->code = 99; }, {R"("got":99)"}},
      {"dataset_dtype", [](IndexText* index) { index->code = 6; }, {R"("got":6)", "floating"}},
      {"dataset_dtype", [](IndexText* index) { index->code = 7; }, {R"("got":7)"}},
      {"dataset_dtype", [](IndexText* index) { index->code = 0; }, {R"("got":0)"}},
      {"dataset_documents",
       [](IndexText* index) { index->documents.back() = 2; },
       {R"("index":3,"got":2,"want":3)"}},
      {"dataset_documents",
       [](IndexText* index) {
         index->documents = {1, 3};
       },
       {R"("index":0,"got":1,"want":0)"}},
      {"dataset_documents",
       [](IndexText* index) {
         index->documents = {0, 2, 1, 3};
       },
       {R"("index":2,"got":1,"want":2)"}},
      {"dataset_documents", [](IndexText* index) { index->documents = {}; }, {}},
      {"dataset_lengths",
       [](IndexText* index) { index->lengths[1] = -1; },
       {R"("sequence":1,"got":-1)"}},
      {"dataset_lengths",
       [](IndexText* index) { index->offsets[2] = -8; },
       {R"("sequence":2,"got":-8)"}},
      {"dataset_lengths", [](IndexText* index) { index->modes = "12345"; }, {R"("got")"}},
      {"dataset_truncated",
       [](IndexText* index) { index->lengths[2] = 4; },
       {R"("sequence":2,"offset":8,"want":8,"got":6)"}},
      {"dataset_truncated",
       [](IndexText* index) { index->offsets[1] = INT64_MAX - 1; },
       {R"("sequence":1)"}},
      {"dataset_truncated", [](IndexText* index) { index->modes = "12"; }, {R"("want":3,"got":2)"}},
  };
  MemoryFiles files;
  for (const Row& row : rows) {
    IndexText index = good_index();
    row.damage(&index);
    put_pair(files, index, pack<uint16_t>(counting(10, 7)));
    if (row.fields.size() == 2) {
      check_error([&] { open(files, "d.bin", 100); }, row.word, {row.fields[0]});
    } else {
      check_error([&] { open(files, "d.bin", 100); }, row.word, row.fields);
    }
  }
}

TEST_CASE("an index cut or counting wrong anywhere is an error", "[token_file][D2]") {
  MemoryFiles files;
  const std::string bytes = good_index().bytes();
  for (size_t length = 0; length < bytes.size(); ++length) {
    files.put("d.idx", bytes.substr(0, length));
    files.put("d.bin", pack<uint16_t>(counting(10, 7)));
    check_error([&] { open(files, "d.bin", 100); }, "dataset_truncated");
  }
  for (const size_t field : {18, 26}) {  // counts of sequences and of document entries
    for (const uint64_t count : {uint64_t{1} << 62, ~uint64_t{0}, uint64_t{1} << 33}) {
      std::string wrong = bytes;
      std::memcpy(wrong.data() + field, &count, 8);
      files.put("d.idx", wrong);
      check_error([&] { open(files, "d.bin", 100); }, "dataset_truncated",
                  {"\"want\":" + std::to_string(count)});
    }
  }
  put_pair(files, good_index(), pack<uint16_t>(counting(10, 6)));
  check_error([&] { open(files, "d.bin", 100); }, "dataset_truncated", {R"("path":"d.idx")"});
  files.unlink("d.bin");
  check_error([&] { open(files, "d.bin", 100); }, "no_file", {R"("path":"d.bin")"});
}

TEST_CASE("flat files of odd size are refused", "[token_file][D2]") {
  MemoryFiles files;
  files.put("a", "12345");
  check_error([&] { open(files, "a", 100); }, "dataset_truncated",
              {R"("path":"a")", R"("got":5)", R"("token_bytes":2)"});
  files.put("a", "123456");
  check_error([&] { open(files, "a", 70000); }, "dataset_truncated", {R"("token_bytes":4)"});
}

TEST_CASE("modes are allowed and every element type is read", "[token_file]") {
  MemoryFiles files;
  const std::vector<int64_t> values = {0, 1, 2, 3, 4, 5, 100};
  const std::vector<int32_t> want(values.begin(), values.end());
  const std::vector<std::pair<uint8_t, std::string>> rows = {
      {1, pack<uint8_t>(values)}, {2, pack<int8_t>(values)},  {3, pack<int16_t>(values)},
      {4, pack<int32_t>(values)}, {5, pack<int64_t>(values)}, {8, pack<uint16_t>(values)}};
  for (const auto& [code, bin] : rows) {
    IndexText index = good_index();
    const int64_t element = static_cast<int64_t>(bin.size()) / 7;
    index.code = code;
    index.offsets = {0, 3 * element, 4 * element};
    index.modes = "abc";
    put_pair(files, index, bin);
    const auto file = open(files, "d.bin", 101);
    CHECK(token_bytes(file->type()) == element);
    CHECK(read_all(*file) == want);
    check_error([&] { read_all(*open(files, "d.bin", 100)); }, "dataset_token",
                {R"("path":"d.bin","index":6,"value":100,"vocabulary":100)"});
  }
}

TEST_CASE("sequences may lie anywhere in the .bin", "[token_file]") {
  MemoryFiles files;
  IndexText index;
  index.lengths = {3, 0, 2, 1};
  index.offsets = {8, 0, 0, 4};
  index.documents = {0, 2, 2, 4};
  put_pair(files, index, pack<uint16_t>({10, 11, 12, 13, 14, 15, 16}));
  const auto file = open(files, "d.bin", 100);
  CHECK_FALSE(file->index()->is_contiguous());
  CHECK(read_all(*file) == std::vector<int32_t>{14, 15, 16, 10, 11, 12});
  for (int64_t first = 0; first <= 6; ++first) {
    for (int64_t count = 0; count <= 6 - first; ++count) {
      std::vector<int32_t> out(static_cast<size_t>(count));
      file->read(first, count, out.data());
      const std::vector<int32_t> all = read_all(*file);
      CHECK(std::equal(out.begin(), out.end(), all.begin() + first));
    }
  }
  CHECK(file->document_start(0) == 0);
  CHECK(file->document_start(1) == 3);
  CHECK(file->document_start(2) == 3);
  CHECK(file->document_start(3) == 6);
  std::vector<int32_t> documents(6);
  file->read_documents(0, 6, documents.data());
  CHECK(documents == std::vector<int32_t>{0, 0, 0, 1, 1, 1});
  check_error([&] { file->read(1, 6, documents.data()); }, "argument", {R"("limit":6)"});
  check_error([&] { file->read(-1, 2, documents.data()); }, "argument", {R"("first":-1)"});
  check_error([&] { file->document_start(4); }, "argument", {R"("limit":3)"});
}

TEST_CASE("many sequences are found without an index in memory", "[token_file]") {
  // Lengths 0 … 4, documents of 0 … 3 sequences, and a gap after every seventh sequence.
  MemoryFiles files;
  IndexText index;
  std::vector<int64_t> values;
  std::vector<int32_t> stream, documents;
  index.documents = {0};
  int64_t left = 2, document = 0;
  for (int64_t i = 0; i < 3000; ++i) {
    while (left == 0) {
      index.documents.push_back(i);
      left = ++document % 4;
    }
    --left;
    if (i % 7 == 0) values.push_back(99);
    index.offsets.push_back(static_cast<int64_t>(values.size()) * 2);
    index.lengths.push_back(i * i % 5);
    for (int64_t k = 0; k < index.lengths.back(); ++k) {
      values.push_back(static_cast<int64_t>(stream.size()) % 90);
      stream.push_back(static_cast<int32_t>(values.back()));
      documents.push_back(static_cast<int32_t>(document));
    }
  }
  index.documents.push_back(3000);
  put_pair(files, index, pack<uint16_t>(values));
  const auto file = open(files, "d.bin", 100);
  REQUIRE(file->tokens() == static_cast<int64_t>(stream.size()));
  CHECK(read_all(*file) == stream);
  for (int64_t first = 0; first + 40 <= file->tokens(); first += 37) {
    std::vector<int32_t> tokens(40), found(40);
    file->read(first, 40, tokens.data());
    file->read_documents(first, 40, found.data());
    std::vector<int32_t> want;  // renumbered without empty documents
    for (int64_t i = 0; i < 40; ++i) {
      const size_t at = static_cast<size_t>(first + i);
      const bool is_new = i > 0 && documents[at] != documents[at - 1];
      want.push_back(i == 0 ? 0 : want.back() + (is_new ? 1 : 0));
    }
    if (!std::equal(tokens.begin(), tokens.end(), stream.begin() + first)) FAIL(first);
    if (found != want) FAIL(first);
  }
  for (int64_t d = 0; d + 1 < static_cast<int64_t>(index.documents.size()); ++d) {
    const int64_t sequence = index.documents[static_cast<size_t>(d)];
    if (file->document_start(d) != file->index()->sequence_start(sequence)) FAIL(d);
  }
}

TEST_CASE("16-bit files are refused for larger vocabularies", "[token_file][F5]") {
  MemoryFiles files;
  put_pair(files, good_index(), pack<uint16_t>(counting(10, 7)));
  CHECK(read_all(*open(files, "d.bin", 65536)).size() == 7);
  check_error([&] { open(files, "d.bin", 65537); }, "dataset_dtype",
              {R"("path":"d.bin")", R"("got":"uint16")", R"("vocabulary":65537)"});
  files.put("a", pack<uint16_t>({1}));
  check_error([&] { open(files, "a", 65537, TokenType::kUint16); }, "dataset_dtype");
}

TEST_CASE("ids outside the vocabulary are named by position and value", "[token_file][D1][F9]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>({1, 2, 50257, 3}));
  files.put("b", pack<int32_t>({1, -1}));
  const auto file = open(files, "a", 50257);
  int32_t out[4];
  check_error([&] { file->read(1, 3, out); }, "dataset_token",
              {R"("path":"a","index":2,"value":50257,"vocabulary":50257)"});
  file->read(0, 2, out);
  CHECK(out[1] == 2);
  check_error([&] { read_all(*open(files, "b", 70000)); }, "dataset_token",
              {R"("index":1,"value":-1,"vocabulary":70000)"});
}

TEST_CASE("a file that shrinks or fails meanwhile is an error", "[token_file][D5]") {
  MemoryFiles files;
  files.put("a", pack<uint16_t>(counting(0, 50)));
  put_pair(files, good_index(), pack<uint16_t>(counting(10, 7)));
  const auto flat = open(files, "a", 100);
  const auto pair = open(files, "d.bin", 100);
  std::vector<int32_t> out(50);
  files.at("a").bytes.resize(60);
  flat->read(0, 30, out.data());
  check_error([&] { flat->read(20, 30, out.data()); }, "dataset_truncated",
              {R"("path":"a","offset":40,"want":60,"got":20)"});
  files.at("d.bin").fails_reads = true;
  check_error([&] { pair->read(0, 7, out.data()); }, "io_error", {R"("path":"d.bin")"});
  files.at("d.bin").fails_reads = false;
  pair->read(0, 7, out.data());
  CHECK(out[6] == 16);
  files.at("d.idx").bytes.resize(40);
  check_error([&] { pair->read_documents(0, 7, out.data()); }, "dataset_truncated",
              {R"("path":"d.idx")"});
}

TEST_CASE("facts do not depend on names", "[token_file]") {
  MemoryFiles files;
  put_pair(files, good_index(), pack<uint16_t>(counting(10, 7)));
  files.put("e.idx", good_index().bytes());
  files.put("e.bin", pack<uint16_t>(counting(10, 7)));
  const TokenFileFacts d = open(files, "d.bin", 100)->facts(),
                       e = open(files, "e.bin", 100)->facts();
  CHECK(d.bytes == 14);
  CHECK(d.tokens == 7);
  CHECK(d.documents == 3);
  CHECK(d.index_hash == e.index_hash);
  CHECK(d.content_hash == e.content_hash);
  files.unlink("e.idx");
  CHECK(open(files, "e.bin", 100)->facts().index_hash == 0);
  CHECK(open(files, "e.bin", 100)->facts().content_hash == d.content_hash);
  files.at("e.bin").bytes[0] = 9;
  CHECK(open(files, "e.bin", 100)->facts().content_hash != d.content_hash);
}

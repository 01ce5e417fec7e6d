#include "engine/data/token_writer.h"

#include <catch2/catch.hpp>

#include "engine/data/token_file.h"
#include "engine/data/token_index.h"
#include "engine/data/token_merge.h"
#include "tests/engine/data/data_support.h"
#include "tests/support/memory_files.h"

using namespace plait;

namespace {

using Ids = std::vector<int32_t>;
using Documents = std::vector<Ids>;

Ids read_range(const TokenFile& file, int64_t first, int64_t last) {
  Ids out(static_cast<size_t>(last - first));
  file.read(first, last - first, out.data());
  return out;
}

Documents documents_of(MemoryFiles& files, const std::string& path, int64_t vocab_size) {
  const auto file = TokenFile::open(files, path, {TokenType::kAuto, vocab_size});
  Documents out;
  for (int64_t d = 0; d < file->documents(); ++d) {
    out.push_back(read_range(*file, file->document_start(d), file->document_start(d + 1)));
  }
  return out;
}

void write_documents(MemoryFiles& files, const std::string& path, int64_t vocab_size,
                     const Documents& documents) {
  Env env = memory_env(files);
  const auto writer = make_indexed_writer(env, path, vocab_size);
  for (const Ids& document : documents) {
    writer->append(document.data(), static_cast<int64_t>(document.size()));
    writer->end_document();
  }
  writer->finish();
}

}  // namespace

TEST_CASE("the highest id of every vocabulary comes back", "[token_writer][F5]") {
  MemoryFiles files;
  Env env = memory_env(files);
  for (const int64_t vocab_size : {50257, 65535, 65536, 65537}) {
    const Ids ids = {0, 1, static_cast<int32_t>(vocab_size - 1)};
    const auto flat = make_flat_writer(env, "flat", vocab_size);
    flat->append(ids.data(), 3);
    flat->finish();
    write_documents(files, "d", vocab_size, {ids});
    const int64_t element = vocab_size <= 65536 ? 2 : 4;
    CHECK(static_cast<int64_t>(files.at("flat").bytes.size()) == 3 * element);
    for (const std::string path : {"flat", "d.bin"}) {
      const auto file = TokenFile::open(files, path, {TokenType::kAuto, vocab_size});
      CHECK(token_bytes(file->type()) == element);
      CHECK(read_range(*file, 0, 3) == ids);
    }
    const auto writer = make_flat_writer(env, "flat", vocab_size);
    const int32_t bad[] = {0, static_cast<int32_t>(vocab_size)};
    writer->append(ids.data(), 3);
    check_error([&] { writer->append(bad, 2); }, "token_range",
                {R"("path":"flat","index":4)", "\"vocabulary\":" + std::to_string(vocab_size)});
  }
  check_error([&] { make_flat_writer(env, "x", 0); }, "argument", {R"("got":0)"});
  check_error([&] { make_flat_writer(env, "d.bin", 9); }, "argument", {R"("index":"d.idx")"});
}

TEST_CASE("indexed files keep documents and sequences", "[token_writer]") {
  MemoryFiles files;
  const Documents documents = {{1, 2, 3}, {}, {4}, {5, 6}};
  write_documents(files, "d.bin", 100, documents);
  CHECK(documents_of(files, "d.bin", 100) == documents);
  CHECK(files.names() == std::vector<std::string>{"d.bin", "d.idx"});
  Env env = memory_env(files);
  const auto writer = make_indexed_writer(env, "e", 100);
  const Ids ids = {1, 2, 3, 4, 5};
  writer->append(ids.data(), 2);
  writer->end_sequence();
  writer->end_sequence();
  writer->append(ids.data() + 2, 1);
  writer->end_document();
  writer->append(ids.data() + 3, 2);  // never ended: a document of its own
  writer->finish();
  CHECK(documents_of(files, "e.bin", 100) == Documents{{1, 2, 3}, {4, 5}});
  const auto file = TokenFile::open(files, "e.bin", {TokenType::kAuto, 100});
  CHECK(file->sequences() == 4);
  int32_t lengths[4];
  file->index()->read_lengths(0, 4, lengths);
  CHECK(Ids(lengths, lengths + 4) == Ids{2, 0, 1, 2});
  IndexText index;
  index.lengths = {2, 0, 1, 2};
  index.offsets = {0, 4, 4, 6};
  index.documents = {0, 3, 4};
  CHECK(files.at("e.idx").bytes == index.bytes());
  CHECK(files.at("e.bin").bytes == pack<uint16_t>({1, 2, 3, 4, 5}));
}

TEST_CASE("more entries than a block", "[token_writer]") {
  MemoryFiles files;
  Documents documents;
  for (int32_t i = 0; i < 40000; ++i) documents.push_back(Ids(static_cast<size_t>(i % 4), i % 100));
  write_documents(files, "d", 70000, documents);
  CHECK(documents_of(files, "d.bin", 70000) == documents);
}

TEST_CASE("what is not finished leaves nothing", "[token_writer]") {
  MemoryFiles files;
  Env env = memory_env(files);
  write_documents(files, "d", 100, {{1, 2}});
  const std::string before = files.at("d.idx").bytes;
  const Ids ids(1000000, 7);
  {
    const auto indexed = make_indexed_writer(env, "d", 100);
    const auto flat = make_flat_writer(env, "f", 100);
    indexed->append(ids.data(), 1000000);
    flat->append(ids.data(), 1000000);
    CHECK(files.names().size() > 2);
  }
  CHECK(files.names() == std::vector<std::string>{"d.bin", "d.idx"});
  CHECK(files.at("d.idx").bytes == before);
  files.fail_new_files();
  check_error([&] { write_documents(files, "d", 100, {ids}); }, "no_space");
  check_error([&] { merge_token_files(env, {"d.bin"}, "e", 100); }, "no_space");
  CHECK(files.names() == std::vector<std::string>{"d.bin", "d.idx"});
  CHECK(documents_of(files, "d.bin", 100) == Documents{{1, 2}});
}

TEST_CASE("merging keeps every document, in any number of steps", "[token_writer][F3]") {
  MemoryFiles files;
  Env env = memory_env(files);
  const Documents a = {{1, 2, 3}, {4}, {5, 6}}, b = {{7, 8}}, c = {{9}, {}, {10, 11, 12}, {13}};
  write_documents(files, "a", 100, a);
  write_documents(files, "b", 100, b);
  write_documents(files, "c", 100, c);
  merge_token_files(env, {"a.bin", "b.bin", "c.bin"}, "all", 100);
  Documents want = a;
  want.insert(want.end(), b.begin(), b.end());
  want.insert(want.end(), c.begin(), c.end());
  CHECK(want.size() == 8);
  CHECK(documents_of(files, "all.bin", 100) == want);
  merge_token_files(env, {"a.bin", "b.bin"}, "ab", 100);
  merge_token_files(env, {"ab.bin", "c.bin"}, "steps", 100);
  CHECK(files.at("steps.bin").bytes == files.at("all.bin").bytes);
  CHECK(files.at("steps.idx").bytes == files.at("all.idx").bytes);
  files.put("flat", pack<uint16_t>({20, 21}));
  merge_token_files(env, {"b.bin", "flat"}, "mixed", 100);
  CHECK(documents_of(files, "mixed.bin", 100) == Documents{{7, 8}, {20, 21}});
  check_error(
      [&] {
        merge_token_files(env, {"a.bin", "c.bin"}, "x", 13);
      },
      "dataset_token", {R"("path":"c.bin")", R"("value":13)"});
  CHECK_FALSE(files.exists("x.bin"));
}

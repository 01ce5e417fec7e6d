// Files beyond 4 GiB, made sparse so that they take no room.
#include <sys/resource.h>

#include <catch2/catch.hpp>

#include "engine/data/sampler.h"
#include "engine/data/token_index.h"
#include "tests/engine/data/data_support.h"

using namespace plait;

namespace {

int64_t peak_memory_kib() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_maxrss;
}

void put_tokens(const std::string& path, int64_t bytes,
                const std::vector<std::pair<int64_t, uint16_t>>& tokens) {
  const auto file = posix_env().files.create(path, true);
  for (const auto& [position, value] : tokens) file->pwrite(&value, 2, 2 * position);
  const uint16_t last = 0;
  file->pwrite(&last, 2, bytes - 2);
}

}  // namespace

TEST_CASE("a flat file beyond 32 bits of tokens and bytes", "[large][D3]") {
  const TempDirectory directory;
  const std::string path = directory.file("flat");
  constexpr int64_t kTokens = (int64_t{1} << 32) + 4096;
  put_tokens(
      path, 2 * kTokens,
      {{(int64_t{1} << 31) + 1, 11}, {(int64_t{1} << 32) - 1, 12}, {(int64_t{1} << 32), 13}});
  const int64_t before = peak_memory_kib();
  DataOptions options;
  options.paths = {path};
  options.vocab_size = 256;
  options.sequence_length = 1024;
  options.shuffle = false;
  const auto data = Dataset::open(posix_env().files, options);
  CHECK(data->tokens() == kTokens);
  CHECK(data->samples_per_epoch() == (kTokens - 1) / 1024);
  std::vector<int32_t> row(1025);
  data->read((int64_t{1} << 31) / 1024, 1, row.data());
  CHECK(row[0] == 0);
  CHECK(row[1] == 11);
  data->read((int64_t{1} << 32) / 1024 - 1, 1, row.data());
  CHECK(row[1023] == 12);
  CHECK(row[1024] == 13);
  data->read((int64_t{1} << 32) / 1024, 1, row.data());
  CHECK(row[0] == 13);
  CHECK(peak_memory_kib() - before < 64 * 1024);
}

TEST_CASE("an indexed file beyond 32 bits of tokens and bytes", "[large][D3]") {
  const TempDirectory directory;
  IndexText index;
  constexpr int64_t kLongest = INT32_MAX;
  for (int64_t i = 0; i < 3; ++i) {
    index.lengths.push_back(kLongest);
    index.offsets.push_back(2 * kLongest * i);
  }
  index.documents = {0, 2, 3};
  write_text(directory.file("d.idx"), index.bytes());
  put_tokens(directory.file("d.bin"), 6 * kLongest,
             {{2 * kLongest - 1, 21}, {2 * kLongest, 22}, {3 * kLongest - 2, 23}});
  const auto file = TokenFile::open(posix_env().files, directory.file("d.bin"), {{}, 100});
  CHECK(file->tokens() == 3 * kLongest);
  CHECK(file->document_start(1) == 2 * kLongest);
  int32_t tokens[4], documents[4];
  file->read(2 * kLongest - 2, 4, tokens);
  file->read_documents(2 * kLongest - 2, 4, documents);
  CHECK(std::vector<int32_t>(tokens, tokens + 4) == std::vector<int32_t>{0, 21, 22, 0});
  CHECK(std::vector<int32_t>(documents, documents + 4) == std::vector<int32_t>{0, 0, 1, 1});
  file->read(3 * kLongest - 3, 3, tokens);
  CHECK(tokens[1] == 23);
}

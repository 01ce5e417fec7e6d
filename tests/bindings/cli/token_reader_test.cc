#include "bindings/cli/token_reader.h"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>

#include "bindings/cli/failure.h"

namespace plait::cli {
namespace {

/// A directory that goes with its files.
class Folder {
 public:
  Folder() { REQUIRE(mkdtemp(path_) != nullptr); }
  ~Folder() {
    for (const std::string& file : files_) std::remove(file.c_str());
    rmdir(path_);
  }
  std::string write(const std::string& name, const std::string& bytes) {
    files_.push_back(std::string(path_) + "/" + name);
    std::FILE* file = std::fopen(files_.back().c_str(), "wb");
    REQUIRE(file != nullptr);
    std::fwrite(bytes.data(), 1, bytes.size(), file);
    std::fclose(file);
    return files_.back();
  }

 private:
  char path_[32] = "/tmp/plait-test-XXXXXX";
  std::vector<std::string> files_;
};

std::string index_header(char type) {
  return std::string("MMIDIDX\0\0\1\0\0\0\0\0\0\0", 17) + type;
}

std::string word_of(const std::string& path, TokenWidth width = TokenWidth::kUint16) {
  try {
    TokenReader reader(path, width);
  } catch (const Failure& failure) {
    return failure.word();
  }
  return "";
}

TEST_CASE("flat files of both widths") {
  Folder folder;
  const std::string path = folder.write("t.bin", std::string("\1\0\xff\xff\2\1\0\0", 8));
  TokenReader narrow(path, TokenWidth::kUint16);
  CHECK(narrow.tokens() == 4);
  CHECK(narrow.read(3) == std::vector<int32_t>{1, 65535, 258});
  CHECK(narrow.read(3) == std::vector<int32_t>{0});
  CHECK(narrow.read(3).empty());
  TokenReader wide(path, TokenWidth::kInt32);
  CHECK(wide.read(9) == std::vector<int32_t>{-65535, 258});
  CHECK(TokenReader(folder.write("empty", ""), TokenWidth::kUint16).read(1).empty());
}

TEST_CASE("an index beside the tokens says their width") {
  Folder folder;
  const std::string path = folder.write("a.bin", std::string("\1\0\0\0", 4));
  const std::string index = folder.write("a.idx", index_header(4));
  for (const std::string& name : {path, index}) {
    TokenReader reader(name, TokenWidth::kUint16);
    CHECK(reader.width() == TokenWidth::kInt32);
    CHECK(reader.read(5) == std::vector<int32_t>{1});
  }
}

TEST_CASE("damage has the words of datasets") {
  Folder folder;
  CHECK(word_of("/nowhere/t.bin") == "no_file");
  CHECK(word_of(folder.write("odd.bin", "abc")) == "dataset_truncated");
  CHECK(word_of(folder.write("six", "abcdef"), TokenWidth::kInt32) == "dataset_truncated");
  const std::string path = folder.write("a.bin", "abcd");
  folder.write("a.idx", "MMIDIDX");
  CHECK(word_of(path) == "dataset_truncated");
  folder.write("a.idx", std::string(18, 'x'));
  CHECK(word_of(path) == "dataset_magic");
  folder.write("a.idx", index_header(6));
  CHECK(word_of(path) == "dataset_dtype");
}

}  // namespace
}  // namespace plait::cli

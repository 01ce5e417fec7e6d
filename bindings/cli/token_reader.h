// The ids of a token file, front to back.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

namespace plait::cli {

/// Bytes of one token in a file.
enum class TokenWidth { kUint16 = 2, kInt32 = 4 };

/// The file of tokens that `path` names: `X.bin` beside `X.idx` (either name) is indexed.
struct TokenPaths {
  std::string tokens, index;  ///< `index` is empty for a flat file
};
TokenPaths token_paths(const std::string& path);

class TokenReader {
 public:
  /// Opens a flat file of `width`, or an indexed one, whose index says the width. Damage is
  /// DATA_LOSS/dataset_….
  TokenReader(const std::string& path, TokenWidth width);

  int64_t tokens() const { return tokens_; }
  TokenWidth width() const { return width_; }
  /// The next at most `most` ids; empty at the end.
  std::vector<int32_t> read(int64_t most);

 private:
  std::string path_;
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_;
  TokenWidth width_;
  int64_t tokens_ = 0, left_ = 0;
};

}  // namespace plait::cli

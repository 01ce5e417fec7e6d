#include "bindings/cli/token_reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "bindings/cli/failure.h"

namespace plait::cli {
namespace {

using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;

File open_file(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) throw file_failure(errno, "open", path);
  return file;
}

Failure damage(const char* word, const std::string& sentence, const std::string& path) {
  return Failure(PLAIT_DATA_LOSS, word, sentence).with("path", path);
}

/// The width that the header of an index states: magic, version 1, code of the element type.
TokenWidth width_of_index(const std::string& path) {
  constexpr size_t kHeaderBytes = 18, kTypeAt = 17;
  const char magic[] = "MMIDIDX\0\0\1\0\0\0\0\0\0";
  const File file = open_file(path);
  unsigned char header[kHeaderBytes];
  if (std::fread(header, 1, sizeof header, file.get()) != sizeof header) {
    throw damage("dataset_truncated", "the index ends within its header", path);
  }
  if (std::memcmp(header, magic, kTypeAt) != 0) {
    throw damage("dataset_magic", "the file is no index of version 1", path);
  }
  constexpr int kInt32 = 4, kUint16 = 8;
  if (header[kTypeAt] == kUint16) return TokenWidth::kUint16;
  if (header[kTypeAt] == kInt32) return TokenWidth::kInt32;
  throw damage("dataset_dtype", "tokens must be uint16 or int32", path)
      .with("type", header[kTypeAt]);
}

bool is_file(const std::string& path) {
  struct stat facts;
  return stat(path.c_str(), &facts) == 0 && S_ISREG(facts.st_mode);
}

}  // namespace

TokenPaths token_paths(const std::string& path) {
  if (path.size() > 4) {
    const std::string stem = path.substr(0, path.size() - 4), ending = path.substr(stem.size());
    const bool is_half = ending == ".bin" || ending == ".idx";
    if (is_half && is_file(stem + ".idx")) return {stem + ".bin", stem + ".idx"};
  }
  return {path, ""};
}

TokenReader::TokenReader(const std::string& path, TokenWidth width)
    : file_(nullptr, std::fclose), width_(width) {
  const TokenPaths paths = token_paths(path);
  path_ = paths.tokens;
  if (!paths.index.empty()) width_ = width_of_index(paths.index);
  file_ = open_file(path_);
  struct stat facts;
  if (fstat(fileno(file_.get()), &facts) != 0) throw file_failure(errno, "stat", path_);
  if (!S_ISREG(facts.st_mode)) throw usage_failure("a token file is a file").with("path", path_);
  const auto bytes = static_cast<int64_t>(width_);
  if (facts.st_size % bytes != 0) {
    throw damage("dataset_truncated", "the file is no whole number of tokens", path_)
        .with("bytes", facts.st_size)
        .with("token_bytes", bytes);
  }
  tokens_ = left_ = facts.st_size / bytes;
}

std::vector<int32_t> TokenReader::read(int64_t most) {
  std::vector<int32_t> ids(static_cast<size_t>(std::min(most, left_)));
  const auto bytes = static_cast<size_t>(width_);
  std::vector<unsigned char> raw(ids.size() * bytes);
  if (std::fread(raw.data(), 1, raw.size(), file_.get()) != raw.size()) {
    if (std::ferror(file_.get()) != 0) throw file_failure(errno, "read", path_);
    throw damage("dataset_truncated", "the file became shorter while it was read", path_);
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    if (width_ == TokenWidth::kInt32) {
      std::memcpy(&ids[i], &raw[i * bytes], bytes);
    } else {
      uint16_t id = 0;
      std::memcpy(&id, &raw[i * bytes], bytes);
      ids[i] = id;
    }
  }
  left_ -= static_cast<int64_t>(ids.size());
  return ids;
}

}  // namespace plait::cli

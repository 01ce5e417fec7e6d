// What the tests of token files share: making files, and matching errors by word and fields.
#pragma once

#include <catch2/catch.hpp>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait {

/// Runs `action`, which must throw an Error of `word` whose details hold all `fields` (JSON text).
template <class Action>
void check_error(const Action& action, std::string_view word,
                 const std::vector<std::string>& fields = {}) {
  try {
    action();
  } catch (const Error& error) {
    INFO(error.message());
    CHECK(error.word() == word);
    for (const std::string& field : fields) {
      INFO(field);
      CHECK(error.details().find(field) != std::string::npos);
    }
    return;
  }
  FAIL("no error, want " << word);
}

/// `values` as elements of T, little endian.
template <class T>
std::string pack(const std::vector<int64_t>& values) {
  std::string bytes;
  for (const int64_t value : values) {
    const T element = static_cast<T>(value);
    bytes.append(reinterpret_cast<const char*>(&element), sizeof element);
  }
  return bytes;
}

/// An `.idx` byte by byte, so that every field can be wrong.
struct IndexText {
  std::string magic = std::string("MMIDIDX\0\0", 9);
  uint64_t version = 1;
  uint8_t code = 8;
  std::vector<int64_t> lengths, offsets, documents;
  std::string modes;

  std::string bytes() const {
    std::string out = magic + pack<uint64_t>({static_cast<int64_t>(version)});
    out += static_cast<char>(code);
    out += pack<uint64_t>({static_cast<int64_t>(lengths.size())});
    out += pack<uint64_t>({static_cast<int64_t>(documents.size())});
    return out + pack<int32_t>(lengths) + pack<int64_t>(offsets) + pack<int64_t>(documents) + modes;
  }
};

/// A directory of its own for a test, removed at the end.
class TempDirectory {
 public:
  TempDirectory() {
    path_ = std::filesystem::temp_directory_path() /
            ("plait-data-" + std::to_string(posix_env().entropy.next()));
    std::filesystem::create_directory(path_);
  }
  ~TempDirectory() { std::filesystem::remove_all(path_); }
  TempDirectory(const TempDirectory&) = delete;
  TempDirectory& operator=(const TempDirectory&) = delete;
  std::string file(const std::string& name) const { return (path_ / name).string(); }

 private:
  std::filesystem::path path_;
};

inline std::string read_text(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline void write_text(const std::string& path, std::string_view text) {
  std::ofstream(path, std::ios::binary)
      .write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// first, first + 1, …
inline std::vector<int64_t> counting(int64_t first, int64_t count) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(first + i);
  return out;
}

}  // namespace plait

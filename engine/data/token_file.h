// A file of tokens, opened to read: flat, or one of Megatron's `.bin`/`.idx` pairs.
//
//   .idx (little endian): "MMIDIDX\0\0"; u64 version = 1; u8 type; u64 sequences Q; u64 document
//   entries; i32 lengths[Q]; i64 byte offsets[Q]; i64 documents[] (first sequence of each document,
//   then Q); optionally i8 modes[Q]; nothing else.     .bin: tokens back to back.
//   Flat: u16 or i32, little endian, no header.
//
// Positions count tokens of the stream: all documents in file order, from 0. Files are read by
// pread where they are needed, never whole and never mapped: a file that shrinks meanwhile is an
// error (`dataset_truncated`), not a signal. All methods are const and may run in any thread;
// reads allocate nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "engine/data/token_type.h"
#include "kernels/base/env.h"

namespace plait {

class TokenIndex;

struct TokenFileOptions {
  TokenType flat_type = TokenType::kAuto;  ///< of flat files: auto, uint16 or int32
  int64_t vocab_size = 0;  ///< ids must be below it; 0: unknown, only ids in [0, 2³¹) pass
};

/// What a fingerprint is made of; names and times play no part.
struct TokenFileFacts {
  int64_t bytes = 0;  ///< of the `.bin` or flat file
  int64_t tokens = 0;
  int64_t documents = 0;      ///< a flat file is one document
  uint64_t index_hash = 0;    ///< XXH3-64 of the `.idx`, 0 if flat
  uint64_t content_hash = 0;  ///< XXH3-64 of 64 evenly spaced 64 KiB blocks, or of all below 4 MiB
};

class TokenFile {
 public:
  /// `X.bin` beside `X.idx` is indexed, every other path is flat. Checks everything that can be
  /// checked without reading the tokens: `dataset_magic`, `dataset_version`, `dataset_dtype`,
  /// `dataset_lengths`, `dataset_documents`, `dataset_truncated`, each with `path` and both values.
  static std::unique_ptr<TokenFile> open(Files& files, const std::string& path,
                                         const TokenFileOptions& options);
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  bool is_indexed() const { return index_ != nullptr; }
  TokenType type() const { return type_; }
  int64_t tokens() const { return tokens_; }
  int64_t documents() const;  ///< 1 for a flat file
  int64_t sequences() const;  ///< entries of the `.idx`; 1 for a flat file
  int64_t bytes() const { return bytes_; }

  /// Position at which `document` in [0, documents()] begins; the last is tokens().
  int64_t document_start(int64_t document) const;

  /// out[0, count) = tokens [first, first + count) of the stream, all inside [0, tokens()].
  /// An id outside the vocabulary is `dataset_token` with path, index, value and vocabulary.
  void read(int64_t first, int64_t count, int32_t* out) const;

  /// out[i] = document of token first + i, counted from 0 at the first token; empty documents in
  /// between do not count. All zero for a flat file.
  void read_documents(int64_t first, int64_t count, int32_t* out) const;

  /// The `.idx` of a pair, null for a flat file.
  const TokenIndex* index() const { return index_.get(); }

  /// Reads the index and up to 4 MiB of the tokens.
  TokenFileFacts facts() const;

 private:
  TokenFile(std::unique_ptr<File> file, const TokenFileOptions& options);
  void read_run(int64_t byte_offset, int64_t first, int64_t count, int32_t* out) const;
  void check_range(int64_t first, int64_t count) const;

  std::unique_ptr<File> file_;
  std::unique_ptr<TokenIndex> index_;
  std::string path_;
  int64_t bytes_ = 0;
  int64_t tokens_ = 0;
  int64_t limit_ = 0;  // ids are below it
  TokenType type_ = TokenType::kAuto;
};

/// "X.idx" for "X.bin", empty for any other path.
std::string index_path_of(const std::string& path);

}  // namespace plait

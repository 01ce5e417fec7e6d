// Writing token files. A file appears whole or not at all: everything goes to temporary names
// beside the target and is renamed by finish(); a writer destroyed before that leaves nothing.
// One thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/token_type.h"
#include "kernels/base/env.h"

namespace plait {

/// Appends to a temporary file through a buffer of 1 MiB; unlinks it unless renamed.
class SpillFile {
 public:
  SpillFile(Env& env, const std::string& target, const char* suffix);
  ~SpillFile();
  SpillFile(const SpillFile&) = delete;
  SpillFile& operator=(const SpillFile&) = delete;

  void append(const void* data, int64_t bytes);
  void flush();
  void sync();  ///< flushes; the contents are durable after it
  int64_t bytes() const { return flushed_ + static_cast<int64_t>(buffer_.size()); }
  File& file() { return *file_; }           ///< flush before reading
  void rename_to(const std::string& path);  ///< flushes, syncs, renames over `path`

 private:
  Files& files_;
  std::string path_;
  std::unique_ptr<File> file_;
  std::vector<char> buffer_;
  int64_t flushed_ = 0;
  bool is_synced_ = false;
  bool is_renamed_ = false;
};

/// Takes tokens in order. Ids must lie in [0, vocab_size), else `token_range`.
class TokenWriter {
 public:
  virtual ~TokenWriter() = default;
  virtual void append(const int32_t* tokens, int64_t count) = 0;
  /// Ends the current sequence, empty or not. Flat files have no borders and ignore it.
  virtual void end_sequence() = 0;
  /// Ends the current document, whose last sequence are the tokens since the last end_sequence, if
  /// there are any. Flat files ignore it.
  virtual void end_document() = 0;
  /// Makes the files appear, replacing older ones. Nothing may be appended after it.
  virtual void finish() = 0;
  int64_t tokens() const { return tokens_; }

 protected:
  int64_t tokens_ = 0;
};

/// Flat: uint16 iff vocab_size ≤ 65536, else int32. Refuses a path `X.bin` beside an `X.idx`, as
/// it would be read as indexed.
std::unique_ptr<TokenWriter> make_flat_writer(Env& env, const std::string& path,
                                              int64_t vocab_size);

/// `X.bin` and `X.idx` for a path `X.bin` or `X`. Tokens after the last end_document are a document
/// of their own. A sequence longer than 2³¹ − 1 tokens is continued in a further one.
std::unique_ptr<TokenWriter> make_indexed_writer(Env& env, const std::string& path,
                                                 int64_t vocab_size);

}  // namespace plait

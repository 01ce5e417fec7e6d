// Text files to token files and back, in bounded memory and on several threads.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <string>

#include "engine/data/token_type.h"
#include "engine/data/tokenizer.h"
#include "kernels/base/env.h"

namespace plait {

struct EncodeFileOptions {
  bool is_indexed = false;  ///< `.bin`/`.idx` pair, else flat
  bool lines = false;       ///< each line with its newline is a document, encoded by itself
  bool is_special = false;  ///< the end-of-text marker in the text becomes its id
  int threads = 1;          ///< ≥ 1; they inherit the caller's signal mask
  int64_t chunk_bytes = int64_t{1} << 18;  ///< text per task, ≥ 1; has no effect on the result
  /// Called by the caller's thread with bytes read so far and in all; may be empty.
  std::function<void(int64_t done_bytes, int64_t total_bytes)> progress;
  const std::atomic<bool>* cancel = nullptr;  ///< set it to end with `cancelled`; may be null
};

struct EncodeFileResult {
  int64_t bytes = 0;  ///< of the text
  int64_t tokens = 0;
  int64_t documents = 0;
};

/// Encodes `input` into `output`. The ids equal those of encoding each document at once. Memory is
/// bounded by threads and chunk_bytes, unless one word is longer than a chunk (at most 256 MiB,
/// else `too_large`). The output appears whole or not at all.
EncodeFileResult encode_file(Env& env, const Tokenizer& tokenizer, const std::string& input,
                             const std::string& output, const EncodeFileOptions& options);

/// Decodes the token file `input` (indexed or flat of `token_type`) into the bytes `output`. Of the
/// options only progress and cancel are used; progress counts tokens.
EncodeFileResult decode_file(Env& env, const Tokenizer& tokenizer, const std::string& input,
                             const std::string& output, TokenType token_type,
                             const EncodeFileOptions& options);

}  // namespace plait

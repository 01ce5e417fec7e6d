// Text to ids and back. Two kinds: `byte` (256 ids, one per byte) and `gpt2` (byte-level BPE with
// GPT-2's pre-tokenizer). Any bytes, valid UTF-8 or not, come back exactly.
//
// The end-of-text marker `<|endoftext|>` in a text is plain text unless the caller asks otherwise.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/env.h"

namespace plait {

inline constexpr std::string_view kEndOfText = "<|endoftext|>";

/// Working memory of one thread that encodes: a cache of words. Refers to its tokenizer.
class Encoder {
 public:
  virtual ~Encoder() = default;
  /// Appends the ids of `text` to `out`. `is_special`: the marker becomes its one id.
  virtual void encode(std::string_view text, bool is_special, std::vector<int32_t>* out) = 0;
};

/// Immutable; all methods may run in any thread.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  virtual int64_t vocab_size() const = 0;
  /// Id of the end-of-text marker, −1 when the vocabulary has none.
  virtual int32_t end_of_text() const = 0;
  virtual std::unique_ptr<Encoder> make_encoder() const = 0;
  /// Appends the bytes of the tokens to `out`; may end in half a character. An id outside the
  /// vocabulary is `token_range` with position and value.
  virtual void decode(const int32_t* tokens, int64_t count, std::string* out) const = 0;
  /// Where `text`, the beginning of a longer text, may be cut so that the ids of both pieces are
  /// those of the whole, whatever follows. 0 when there is no such place yet.
  virtual int64_t safe_cut(std::string_view text, bool is_special) const = 0;

  /// Ids of `text`. `argument` when `is_special` is asked of a vocabulary without the marker.
  std::vector<int32_t> encode(std::string_view text, bool is_special = false) const;
  std::string decode(const std::vector<int32_t>& tokens) const;
  /// `argument` when the vocabulary has no end-of-text marker.
  void require_special() const;
};

/// kind "byte" (`directory` is not read) or "gpt2", whose directory holds `vocab.bpe` and
/// `encoder.json`, or `merges.txt` and `vocab.json`. Other kinds are `argument`; a missing file is
/// `no_file`; damaged ones `invalid_file` or `invalid_field` with path and place.
std::unique_ptr<Tokenizer> open_tokenizer(Files& files, std::string_view kind,
                                          const std::string& directory);

}  // namespace plait

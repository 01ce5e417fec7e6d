// GPT-2's pre-tokenizer, which cuts a text into the words that byte-pair merges then work on. The
// words are the successive matches of
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// over UTF-8. A byte that is part of no well-formed character counts as one character that is
// neither space, letter nor number. Where a word ends depends on what follows, never on what came
// before it.
#pragma once

#include <cstdint>
#include <string_view>

namespace plait {

enum class CharacterKind : uint8_t { kOther, kLetter, kNumber, kSpace };

/// One character of a text.
struct Character {
  int32_t bytes = 0;  ///< 1 … 4
  CharacterKind kind = CharacterKind::kOther;
};

/// The character at the beginning of `text`, which is not empty.
Character first_character(std::string_view text);

/// Bytes of the first word of `text`, at least 1; `text` is not empty.
int64_t first_word(std::string_view text);

/// The last place found in `text` where it may be cut so that the words of both pieces are those of
/// the whole, whatever follows the text; 0 when there is none. `text` begins where a word begins.
/// `margin`: how many of the last bytes may belong to something else that cuts words, and are left
/// alone.
int64_t last_word_end(std::string_view text, int64_t margin);

}  // namespace plait

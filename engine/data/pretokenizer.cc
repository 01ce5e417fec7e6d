#include "engine/data/pretokenizer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>

namespace plait {
namespace {

struct KindRange {
  uint32_t first;
  uint32_t last;
  CharacterKind kind;
};

constexpr KindRange kRanges[] = {
#include "engine/data/unicode_tables.inc"
};

constexpr CharacterKind look_up(uint32_t code) {
  const auto* above =
      std::upper_bound(std::begin(kRanges), std::end(kRanges), code,
                       [](uint32_t value, const KindRange& range) { return value < range.first; });
  if (above == std::begin(kRanges)) return CharacterKind::kOther;
  const KindRange& range = *(above - 1);
  return code <= range.last ? range.kind : CharacterKind::kOther;
}

constexpr std::array<CharacterKind, 128> make_ascii() {
  std::array<CharacterKind, 128> kinds{};
  for (uint32_t code = 0; code < 128; ++code) kinds[code] = look_up(code);
  return kinds;
}

constexpr std::array<CharacterKind, 128> kAscii = make_ascii();

constexpr Character kInvalid{1, CharacterKind::kOther};

/// A character of two to four bytes; a lone byte when it is ill-formed, overlong or a surrogate.
Character long_character(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(0);
  if (lead < 0xC2 || lead > 0xF4) return kInvalid;
  const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (text.size() < length) return kInvalid;
  uint32_t code = lead & (0x7F >> length);
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return kInvalid;
    code = code << 6 | (byte(i) & 0x3F);
  }
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  if (code < kLeast[length] || code > 0x10FFFF || is_surrogate) return kInvalid;
  return {static_cast<int32_t>(length), look_up(code)};
}

/// Bytes of 's, 't, 're, 've, 'm, 'll or 'd at the beginning of `text`, else 0.
int64_t contraction(std::string_view text) {
  if (text.size() < 2 || text[0] != '\'') return 0;
  const char next = text[1];
  if (next == 's' || next == 't' || next == 'm' || next == 'd') return 2;
  const std::string_view pair = text.substr(1, 2);
  return pair == "re" || pair == "ve" || pair == "ll" ? 3 : 0;
}

/// End of the run of characters of `kind` that begins at `at`.
size_t run_end(std::string_view text, size_t at, CharacterKind kind) {
  while (at < text.size()) {
    const unsigned char byte = static_cast<unsigned char>(text[at]);
    if (byte < 128) {
      if (kAscii[byte] != kind) break;
      ++at;
      continue;
    }
    const Character character = long_character(text.substr(at));
    if (character.kind != kind) break;
    at += static_cast<size_t>(character.bytes);
  }
  return at;
}

/// True when the text may end in a white-space character that is not ASCII; never wrongly false.
bool may_end_in_wide_space(std::string_view text) {
  constexpr std::string_view kTwoBytes[] = {"\xC2\x85", "\xC2\xA0"};
  for (const std::string_view space : kTwoBytes) {
    if (text.ends_with(space)) return true;
  }
  if (text.size() < 3) return false;
  const std::string_view lead = text.substr(text.size() - 3, 2);
  return lead == "\xE1\x9A" || lead == "\xE2\x80" || lead == "\xE2\x81" || lead == "\xE3\x80";
}

/// True for a word of white space alone.
bool is_white(std::string_view word) {
  const Character first = first_character(word);
  word.remove_prefix(static_cast<size_t>(first.bytes));
  return first.kind == CharacterKind::kSpace &&
         (word.empty() || first_character(word).kind == CharacterKind::kSpace);
}

/// What first_word may look at beyond the end of a word: a space of 3 bytes and a character.
constexpr int64_t kLookahead = 8;

}  // namespace

Character first_character(std::string_view text) {
  const unsigned char byte = static_cast<unsigned char>(text[0]);
  return byte < 128 ? Character{1, kAscii[byte]} : long_character(text);
}

int64_t first_word(std::string_view text) {
  if (const int64_t bytes = contraction(text); bytes > 0) return bytes;
  size_t start = 0;
  Character character = first_character(text);
  if (text[0] == ' ' && text.size() > 1) {
    const Character next = first_character(text.substr(1));
    if (next.kind != CharacterKind::kSpace) {
      start = 1;
      character = next;
    }
  }
  if (character.kind != CharacterKind::kSpace) {
    return static_cast<int64_t>(run_end(text, start, character.kind));
  }
  // Of white space before something else the last character is left to what follows.
  size_t at = 0, last = 0;
  while (at < text.size()) {
    const Character space = first_character(text.substr(at));
    if (space.kind != CharacterKind::kSpace) break;
    last = at;
    at += static_cast<size_t>(space.bytes);
  }
  return static_cast<int64_t>(at == text.size() || last == 0 ? at : last);
}

int64_t last_word_end(std::string_view text, int64_t margin) {
  const int64_t limit = static_cast<int64_t>(text.size()) - margin;
  // A word always ends between something else and white space; this needs no look at the rest.
  for (int64_t at = limit - 1; at > 0; --at) {
    const size_t i = static_cast<size_t>(at);
    if (text[i] != ' ' && text[i] != '\n') continue;
    const unsigned char before = static_cast<unsigned char>(text[i - 1]);
    if (before < 128 ? kAscii[before] == CharacterKind::kSpace
                     : may_end_in_wide_space(text.substr(0, i))) {
      continue;
    }
    return at;
  }
  int64_t end = 0, safe_end = 0;
  while (end < limit) {
    const int64_t next = end + first_word(text.substr(static_cast<size_t>(end)));
    if (next + kLookahead > limit) break;
    const std::string_view word =
        text.substr(static_cast<size_t>(end), static_cast<size_t>(next - end));
    end = next;
    // White space that ends a text is one word, so a cut behind it might join two.
    if (!is_white(word)) safe_end = end;
  }
  return safe_end;
}

}  // namespace plait

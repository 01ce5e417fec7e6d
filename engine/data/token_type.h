// Element types of token files, numbered as in Megatron's index files, and the rule by which Plait
// chooses one.
#pragma once

#include <cstdint>
#include <string_view>

namespace plait {

/// Values are the codes of an `.idx`; 6 and 7 are floating types there and never tokens.
enum class TokenType : uint8_t {
  kAuto = 0,  ///< by the vocabulary, see token_type_for; never the type of an open file
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kInt64 = 5,
  kUint16 = 8,
};

/// Bytes of one element; 0 for kAuto.
constexpr int64_t token_bytes(TokenType type) {
  switch (type) {
    case TokenType::kUint8:
    case TokenType::kInt8:
      return 1;
    case TokenType::kInt16:
    case TokenType::kUint16:
      return 2;
    case TokenType::kInt32:
      return 4;
    case TokenType::kInt64:
      return 8;
    case TokenType::kAuto:
      break;
  }
  return 0;
}

/// Largest vocabulary whose every id fits 16 bits.
inline constexpr int64_t kMaxUint16Vocabulary = 65536;

/// What Plait writes: 16 bits iff all ids 0 … vocab_size − 1 fit.
constexpr TokenType token_type_for(int64_t vocab_size) {
  return vocab_size <= kMaxUint16Vocabulary ? TokenType::kUint16 : TokenType::kInt32;
}

/// "auto", "uint8", "int8", "int16", "int32", "int64", "uint16".
std::string_view token_type_name(TokenType type);

/// The type named by configuration text `auto`, `uint16` or `int32`; anything else is `argument`.
TokenType parse_token_type(std::string_view name);

}  // namespace plait

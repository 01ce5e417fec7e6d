#include "engine/data/token_type.h"

#include "kernels/base/error.h"

namespace plait {

std::string_view token_type_name(TokenType type) {
  switch (type) {
    case TokenType::kAuto:
      return "auto";
    case TokenType::kUint8:
      return "uint8";
    case TokenType::kInt8:
      return "int8";
    case TokenType::kInt16:
      return "int16";
    case TokenType::kInt32:
      return "int32";
    case TokenType::kInt64:
      return "int64";
    case TokenType::kUint16:
      return "uint16";
  }
  return "unknown";
}

TokenType parse_token_type(std::string_view name) {
  for (const TokenType type : {TokenType::kAuto, TokenType::kUint16, TokenType::kInt32}) {
    if (name == token_type_name(type)) return type;
  }
  throw Error("argument", "the token type is unknown")
      .with("key", "data.token_type")
      .with("got", name)
      .with("want", "auto, uint16 or int32");
}

}  // namespace plait

// Numbers and texts as they are printed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait::cli {

/// `text` as a JSON string with its quotes; bytes that are no UTF-8 become U+FFFD.
std::string json_text(std::string_view text);

/// Shortest decimal that reads back to `value`; null where it is not finite.
std::string json_number(double value);

/// One JSON object, field by field, in the order of the calls.
class JsonLine {
 public:
  JsonLine& raw(std::string_view name, std::string_view json);
  JsonLine& text(std::string_view name, std::string_view value);
  JsonLine& number(std::string_view name, int64_t value);
  JsonLine& number(std::string_view name, double value);
  /// The object without a line end.
  std::string done() const { return body_ + "}"; }

 private:
  std::string body_ = "{";
};

/// `value` with `digits` significant digits, for people.
std::string rounded(double value, int digits = 4);
/// `value` with `digits` digits behind the point.
std::string fixed(double value, int digits);
/// 1234567 as "1,234,567".
std::string counted(int64_t value);
/// Bytes as "1.23 GiB" and the like.
std::string byte_size(double bytes);
/// Seconds as "0.12 s", "1:05 min" or "2:03:04 h".
std::string duration(double seconds);

/// Number of bytes of the longest prefix of `text` that ends with a whole UTF-8 character.
size_t whole_characters(std::string_view text);

}  // namespace plait::cli

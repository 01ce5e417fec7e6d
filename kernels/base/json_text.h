// Writing JSON text for reports, log lines and error details. Reading JSON is elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

/// `text` as a quoted JSON string; bytes that are not UTF-8 become U+FFFD.
std::string json_string(std::string_view text);

/// Shortest text that reads back as `value`; "null" when it is not finite.
std::string json_number(double value);

/// True when `text` is well-formed UTF-8 (no surrogates, no overlong forms).
bool is_utf8(std::string_view text);

/// Builds one object, fields in the order of the calls.
class JsonObject {
 public:
  JsonObject& field(std::string_view key, std::string_view value);
  JsonObject& field(std::string_view key, const char* value);
  JsonObject& field(std::string_view key, double value);
  JsonObject& field(std::string_view key, bool value);
  template <class Integer>
  requires std::is_integral_v<Integer> JsonObject& field(std::string_view key, Integer value) {
    return raw(key, std::to_string(value));
  }
  JsonObject& raw(std::string_view key, std::string_view json);  ///< value is JSON already
  std::string text() const { return body_ + "}"; }

 private:
  std::string body_ = "{";
};

/// Builds one array.
class JsonArray {
 public:
  JsonArray& add(std::string_view json);  ///< element is JSON already
  std::string text() const { return body_ + "]"; }

 private:
  std::string body_ = "[";
};

}  // namespace plait

// Limits on JSON text from strangers, tested before it is parsed into a document: memory stays in
// proportion to the text, and nothing in it is silently dropped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace plait {

struct JsonLimits {
  int64_t depth = 16;
  int64_t values = 1 << 17;        ///< scalars, tables and lists together
  int64_t string_bytes = 1 << 22;  ///< of one string, as written
};

/// Throws `invalid_field` with `file` unless `text` is one object of well-formed UTF-8 JSON within
/// the limits and without duplicate keys.
void guard_json(std::string_view text, const JsonLimits& limits, const std::string& file);

/// The string length limit alone, in one cheap pass.
void guard_json_strings(std::string_view text, int64_t limit, const std::string& file);

/// `text` cut to at most 200 bytes at a character border, for messages.
std::string shorten(std::string_view text);

/// The JSON text `json` if it is short, else a JSON string of its beginning, for error fields.
std::string json_excerpt(std::string_view json);

}  // namespace plait

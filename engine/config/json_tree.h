// Reading untrusted JSON text into a tree, with limits on size and depth.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace plait {

inline constexpr size_t kJsonMaxBytes = size_t{16} << 20;
inline constexpr size_t kJsonMaxDepth = 16;  ///< objects and arrays inside each other

/// The value that `text` spells. Throws `argument`: no JSON or not UTF-8 (field offset), an object
/// with the same key twice (key), more than kJsonMaxDepth levels or kJsonMaxBytes bytes (limit).
nlohmann::json parse_json(std::string_view text);

}  // namespace plait

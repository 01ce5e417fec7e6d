// Numbers from text, strictly; private to this room.
#pragma once

#include <charconv>
#include <string_view>
#include <system_error>

namespace plait {

/// Bytes of a hostile value that an error message quotes.
inline constexpr size_t kLongestShown = 120;

/// True when all of `text` spells a Number that fits; else `value` means nothing.
template <class Number>
bool parse_whole(std::string_view text, Number* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace plait

#include "bindings/cli/text.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace plait::cli {
namespace {

template <class... Arguments>
std::string format(const char* pattern, Arguments... arguments) {
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, pattern, arguments...);
  return buffer;
}

}  // namespace

std::string json_text(std::string_view text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char buffer[32];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof buffer, value);
  return std::string(buffer, end.ptr);
}

JsonLine& JsonLine::raw(std::string_view name, std::string_view json) {
  if (body_.size() > 1) body_ += ", ";
  body_ += json_text(name);
  body_ += ": ";
  body_ += json;
  return *this;
}

JsonLine& JsonLine::text(std::string_view name, std::string_view value) {
  return raw(name, json_text(value));
}

JsonLine& JsonLine::number(std::string_view name, int64_t value) {
  return raw(name, std::to_string(value));
}

JsonLine& JsonLine::number(std::string_view name, double value) {
  return raw(name, json_number(value));
}

std::string rounded(double value, int digits) {
  if (!std::isfinite(value)) return "-";
  // Whole numbers keep their digits instead of turning into powers of ten.
  if (std::abs(value) >= std::pow(10.0, digits)) return format("%.0f", value);
  return format("%.*g", digits, value);
}

std::string fixed(double value, int digits) {
  return std::isfinite(value) ? format("%.*f", digits, value) : "-";
}

std::string counted(int64_t value) {
  std::string digits = std::to_string(value);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) digits.insert(i -= 3, 1, ',');
  return digits;
}

std::string byte_size(double bytes) {
  const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  size_t unit = 0;
  for (; bytes >= 1024 && unit < 5; ++unit) bytes /= 1024;
  return format(unit == 0 ? "%.0f %s" : "%.2f %s", bytes, units[unit]);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return "-";
  if (seconds < 60) return format("%.2f s", seconds);
  const auto whole = static_cast<long long>(std::min(seconds, 1e15));
  if (whole < 3600) return format("%lld:%02lld min", whole / 60, whole % 60);
  return format("%lld:%02lld:%02lld h", whole / 3600, whole / 60 % 60, whole % 60);
}

size_t whole_characters(std::string_view text) {
  size_t end = text.size();
  for (size_t back = 1; back <= 3 && back <= end; ++back) {
    const auto byte = static_cast<unsigned char>(text[end - back]);
    if (byte < 0x80) return end;
    if (byte < 0xC0) continue;
    const size_t needed = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
    return needed > back ? end - back : end;
  }
  return end;
}

}  // namespace plait::cli

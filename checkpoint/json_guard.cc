#include "checkpoint/json_guard.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <unordered_set>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostExcerptBytes = 200;

class Guard final : public nlohmann::json_sax<Json> {
 public:
  Guard(const JsonLimits& limits, const std::string& file) : limits_(limits), file_(file) {}

  bool null() override { return count(); }
  bool boolean(bool) override { return count(); }
  bool number_integer(number_integer_t) override { return count(); }
  bool number_unsigned(number_unsigned_t) override { return count(); }
  bool number_float(number_float_t, const string_t&) override { return count(); }
  bool string(string_t&) override { return count(); }
  bool binary(binary_t&) override { return count(); }
  bool start_object(size_t) override { return open(); }
  bool start_array(size_t) override { return open(); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }

  bool key(string_t& name) override {
    if (!keys_.back().insert(name).second) {
      throw Error("invalid_field", "a key stands twice in one table")
          .with("file", file_)
          .with("field", shorten(name));
    }
    return true;
  }

  bool parse_error(size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error("invalid_field", "the text is not well-formed JSON in UTF-8")
        .with("file", file_)
        .with("position", position);
  }

 private:
  bool count() {
    if (keys_.empty()) throw Error("invalid_field", "the text is not a table").with("file", file_);
    if (++values_ <= limits_.values) return true;
    throw Error("invalid_field", "the text has too many values")
        .with("file", file_)
        .with("field", "values")
        .with("value", values_)
        .with("limit", limits_.values);
  }

  bool open() {
    if (!keys_.empty()) count();
    keys_.emplace_back();
    const auto depth = static_cast<int64_t>(keys_.size());
    if (depth <= limits_.depth) return true;
    throw Error("invalid_field", "the text is nested too deeply")
        .with("file", file_)
        .with("field", "depth")
        .with("value", depth)
        .with("limit", limits_.depth);
  }

  bool close() {
    keys_.pop_back();
    return true;
  }

  const JsonLimits& limits_;
  const std::string& file_;
  std::vector<std::unordered_set<std::string>> keys_;  // of each open table or list
  int64_t values_ = 0;
};

}  // namespace

void guard_json(std::string_view text, const JsonLimits& limits, const std::string& file) {
  const size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos || text[first] != '{') {
    throw Error("invalid_field", "the text is not a JSON object").with("file", file);
  }
  guard_json_strings(text, limits.string_bytes, file);
  Guard guard(limits, file);
  Json::sax_parse(text.begin(), text.end(), &guard);
}

void guard_json_strings(std::string_view text, int64_t limit, const std::string& file) {
  const auto bytes = static_cast<int64_t>(text.size());
  int64_t start = -1;  // of the open string
  for (int64_t i = 0; i < bytes; ++i) {
    if (start >= 0 && i - start > limit) {
      throw Error("invalid_field", "a string is too long")
          .with("file", file)
          .with("position", start)
          .with("limit", limit);
    }
    const char c = text[static_cast<size_t>(i)];
    if (start >= 0 && c == '\\') {
      ++i;
    } else if (c == '"') {
      start = start >= 0 ? -1 : i + 1;
    }
  }
}

std::string json_excerpt(std::string_view json) {
  return json.size() <= kMostExcerptBytes ? std::string(json) : json_string(shorten(json));
}

std::string shorten(std::string_view text) {
  if (text.size() <= kMostExcerptBytes) return std::string(text);
  size_t end = kMostExcerptBytes;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0u) == 0x80u) --end;
  return std::string(text.substr(0, end)) + "…";
}

}  // namespace plait

#include "bindings/cli/handles.h"

#include <charconv>

namespace plait::cli {

std::string get_text(const Config& config, const std::string& key) {
  return make_text([&](plait_bytes** value, plait_error** err) {
    return plait_config_get(config.get(), key.c_str(), value, err);
  });
}

int64_t get_integer(const Config& config, const std::string& key) {
  const std::string text = get_text(config, key);
  int64_t value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end) return value;
  throw usage_failure("a configuration key that is needed has no number")
      .with("key", key)
      .with("value", text);
}

}  // namespace plait::cli

#include "capi/src/arguments.h"

#include "kernels/base/json_text.h"

namespace plait {
namespace {

Error argument_error(const char* sentence, const char* parameter) {
  return Error("argument", sentence).with("parameter", parameter).subsystem("capi");
}

}  // namespace

std::string text_argument(const char* text, const char* parameter) {
  if (text == nullptr) throw argument_error("the text is null", parameter);
  return optional_text(text, parameter);
}

std::string optional_text(const char* text, const char* parameter) {
  if (text == nullptr) return {};
  std::string copy(text);
  if (!is_utf8(copy)) throw argument_error("the text is not valid UTF-8", parameter);
  return copy;
}

std::string_view bytes_argument(const void* data, int64_t bytes, const char* parameter) {
  if (bytes < 0) throw argument_error("the length is negative", parameter).with("got", bytes);
  if (bytes == 0) return {};
  if (data == nullptr) throw argument_error("the data is null", parameter).with("bytes", bytes);
  return {static_cast<const char*>(data), static_cast<size_t>(bytes)};
}

void check_timeout(int64_t timeout_ms) {
  if (timeout_ms == -1 || timeout_ms > 0) return;
  throw argument_error("a time-out is -1 or positive", "timeout_ms").with("got", timeout_ms);
}

void check_range(int64_t value, int64_t minimum, int64_t maximum, const char* parameter) {
  if (value >= minimum && value <= maximum) return;
  throw argument_error("the value is out of range", parameter)
      .with("got", value)
      .with("minimum", minimum)
      .with("maximum", maximum);
}

void check_index(int64_t index, int64_t count) {
  if (index >= 0 && index < count) return;
  throw argument_error("the index is out of range", "index")
      .with("got", index)
      .with("count", count);
}

void check_choice(std::string_view value, std::string_view choices, const char* parameter) {
  for (size_t begin = 0; begin < choices.size();) {
    size_t end = choices.find(' ', begin);
    if (end == std::string_view::npos) end = choices.size();
    if (choices.substr(begin, end - begin) == value) return;
    begin = end + 1;
  }
  throw argument_error("the word is not one of the choices", parameter)
      .with("got", value)
      .with("choices", choices);
}

}  // namespace plait

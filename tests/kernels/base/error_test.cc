#include "kernels/base/error.h"

#include <catch2/catch.hpp>
#include <cerrno>

#include "kernels/base/json_text.h"

using namespace plait;

TEST_CASE("an error's message is one line of word, sentence and fields", "[error]") {
  const Error error = Error("argument", "value out of range")
                          .with("key", "model.layers")
                          .with("value", -3)
                          .with("text", "two words");
  CHECK(error.message() ==
        "argument: value out of range; key=model.layers value=-3 text=\"two words\"");
  CHECK(error.details() == R"({"key":"model.layers","value":-3,"text":"two words"})");
  CHECK(error.code() == Code::kInvalidArgument);
  CHECK(error.disposition() == Disposition::kUnchanged);
}

TEST_CASE("errno becomes the word of the fault table", "[error]") {
  CHECK(errno_error(ENOSPC, "write", "/x").word() == "no_space");
  CHECK(errno_error(EDQUOT, "write", "/x").word() == "quota");
  CHECK(errno_error(EMFILE, "open", "/x").word() == "too_many_files");
  CHECK(errno_error(ENOMEM, "open directory", "/x").word() == "no_memory");
  CHECK(errno_error(EROFS, "open", "/x").word() == "read_only");
  CHECK(errno_error(ENOENT, "open", "/x").code() == Code::kNotFound);
  CHECK(errno_error(EIO, "read", "/x").word() == "io_error");
}

TEST_CASE("JSON text escapes and repairs", "[json_text]") {
  CHECK(json_string("a\"b\\\n\x01") == "\"a\\\"b\\\\\\n\\u0001\"");
  CHECK(json_string("\xF0\x9F\x98\x80") == "\"\xF0\x9F\x98\x80\"");
  CHECK(json_string("\xFFz") == "\"\xEF\xBF\xBDz\"");
  CHECK_FALSE(is_utf8("\xED\xA0\x80"));
  CHECK_FALSE(is_utf8("\xC0\x80"));
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(1.0 / 0.0) == "null");
}

#include "bindings/cli/text.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>

namespace plait::cli {
namespace {

TEST_CASE("JSON numbers are the shortest that read back") {
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(1) == "1");
  CHECK(json_number(3e-4) == "3e-04");
  CHECK(json_number(std::numeric_limits<double>::infinity()) == "null");
  CHECK(json_number(std::nan("")) == "null");
  std::mt19937_64 random(7);
  for (int i = 0; i < 2000; ++i) {
    const double value = std::ldexp(static_cast<double>(random()), static_cast<int>(i % 200) - 150);
    CHECK(nlohmann::json::parse(json_number(value)).get<double>() == value);
  }
}

TEST_CASE("JSON lines keep their order and any bytes") {
  const std::string line =
      JsonLine().text("b", "a\"\n\xff").number("a", int64_t{1} << 62).number("c", 0.5).done();
  CHECK(line.find("\"b\"") < line.find("\"a\""));
  const nlohmann::json parsed = nlohmann::json::parse(line);
  CHECK(parsed.at("a") == int64_t{1} << 62);
  CHECK(parsed.at("b") == "a\"\n\xEF\xBF\xBD");
  CHECK(JsonLine().done() == "{}");
}

TEST_CASE("numbers for people") {
  CHECK(counted(0) == "0");
  CHECK(counted(999) == "999");
  CHECK(counted(1234567) == "1,234,567");
  CHECK(counted(-1234) == "-1,234");
  CHECK(rounded(123456.7) == "123457");
  CHECK(rounded(1.23456789, 5) == "1.2346");
  CHECK(byte_size(10) == "10 B");
  CHECK(byte_size(1536) == "1.50 KiB");
  CHECK(duration(65) == "1:05 min");
  CHECK(duration(3661) == "1:01:01 h");
}

TEST_CASE("text is cut after whole characters") {
  CHECK(whole_characters("abc") == 3);
  CHECK(whole_characters("a\xC3\xA9") == 3);
  CHECK(whole_characters("a\xC3") == 1);
  CHECK(whole_characters("a\xF0\x9F\x98") == 1);
  CHECK(whole_characters("a\xF0\x9F\x98\x80") == 5);
  CHECK(whole_characters("") == 0);
  CHECK(whole_characters("\x80\x80\x80\x80") == 4);
}

}  // namespace
}  // namespace plait::cli

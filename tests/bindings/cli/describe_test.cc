#include "bindings/cli/describe.h"

#include <catch2/catch.hpp>
#include <limits>

namespace plait::cli {
namespace {

Entry property(int64_t type) {
  Entry entry;
  entry.name = "host.key";
  entry.type = type;
  return entry;
}

TEST_CASE("properties are printed by their type") {
  Entry integer = property(PLAIT_PROPERTY_INTEGER);
  integer.integer = std::numeric_limits<int64_t>::max();
  CHECK(property_text(integer) == "9223372036854775807");
  Entry real = property(PLAIT_PROPERTY_REAL);
  real.real = 0.1;
  CHECK(property_text(real) == "0.1");
  real.real = std::numeric_limits<double>::quiet_NaN();
  CHECK(property_text(real) == "null");
  Entry other = real;
  CHECK(is_same_property(real, other));
  other.real = std::numeric_limits<double>::infinity();
  CHECK(property_text(other) == "null");
  CHECK_FALSE(is_same_property(real, other));
  Entry text = property(PLAIT_PROPERTY_TEXT);
  text.text = "a \"b\"\n";
  CHECK(property_text(text) == "\"a \\\"b\\\"\\n\"");
  CHECK(entry_json(text) ==
        "{\"name\": \"host.key\", \"kind\": \"property\", \"value\": \"a \\\"b\\\"\\n\"}");
}

TEST_CASE("a tensor's line has its digest where the form has one") {
  Entry entry;
  entry.name = "w";
  entry.kind = PLAIT_KIND_MOMENT2;
  entry.dtype = PLAIT_DTYPE_FLOAT32;
  entry.shape = {2, 3};
  entry.elements = 6;
  const std::string without =
      "{\"name\": \"w\", \"kind\": \"moment2\", \"dtype\": \"float32\", \"shape\": [2, 3], "
      "\"elements\": 6";
  CHECK(entry_json(entry) == without + "}");
  entry.has_digest = true;
  entry.digest = 0xABC;
  CHECK(entry_json(entry) == without + ", \"digest\": \"0000000000000abc\"}");
}

TEST_CASE("differing shapes and types need no values") {
  Entry a, b;
  a.shape = {2, 3};
  b.shape = {3, 2};
  a.dtype = b.dtype = PLAIT_DTYPE_FLOAT32;
  CHECK(first_difference(nullptr, nullptr, a, b) == "shapes [2, 3] and [3, 2]");
  b.shape = a.shape;
  b.dtype = PLAIT_DTYPE_BFLOAT16;
  CHECK(first_difference(nullptr, nullptr, a, b) == "types float32 and bfloat16");
}

}  // namespace
}  // namespace plait::cli

#include "bindings/cli/text_table.h"

#include <catch2/catch.hpp>
#include <string>

using namespace plait::cli;

TEST_CASE("columns are as wide as their widest cell, in characters", "[cli]") {
  TextTable table({{"name", TextTable::Align::kLeft}, {"time"}, {"none"}, {"±"}});
  CHECK(table.is_empty());
  table.add({"a", "1.5", "", "± 3"});
  table.add({"größer", "12", "", ""});
  CHECK(table.text(". ") ==
        ". name    time    ±\n"
        ". a        1.5  ± 3\n"
        ". größer    12");
}

TEST_CASE("long text comes in lines that are cut at spaces", "[cli]") {
  CHECK(wrapped("one two three four", 9, "  ") == "one two\n  three\n  four");
  CHECK(wrapped("one", 9, "  ") == "one");
  CHECK(wrapped("unbreakable words", 4, "-") == "unbreakable\n-words");
  CHECK(wrapped("", 9, "  ").empty());
  CHECK(character_count("± ö") == 3);
}

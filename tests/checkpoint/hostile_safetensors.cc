// Safetensors headers that lie: each one is refused with the file, the field and the value.
#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/hostile_corpus.h"

namespace plait {
namespace {

struct BadHeader {
  const char* what;
  std::string header;
  std::string data;
  std::vector<std::string> parts;
};

std::string tensor(const std::string& name, const std::string& shape, const std::string& offsets,
                   const std::string& dtype = "F32") {
  return "\"" + name + R"(":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" +
         offsets + "}";
}

const std::string kEight(8, '\0'), kNone;
const std::string kGood = tensor("t", "[2]", "[0,8]");

const std::vector<BadHeader>& bad_headers() {
  static const std::vector<BadHeader> rows = {
      {"not an object", "[]", kNone, {"not one JSON object"}},
      {"a leading space", " {}", kNone, {"not one JSON object"}},
      {"a byte order mark", "\xEF\xBB\xBF{}", kNone, {"not one JSON object"}},
      {"a trailing newline", "{}\n", kNone, {"not one JSON object"}},
      {"two objects", "{}{}", kNone, {"not well-formed"}},
      {"a comment", "{/* */}", kNone, {"not well-formed"}},
      {"an open string", R"({"a)", kNone, {"not one JSON object"}},
      {"not UTF-8", "{\"a\xFF\":{}}", kNone, {"not well-formed"}},
      {"an overlong form", "{\"a\xC0\x80\":{}}", kNone, {"not well-formed"}},
      {"half a surrogate pair", R"({"\ud800":{}})", kNone, {"not well-formed"}},
      {"a duplicate tensor", "{" + kGood + "," + kGood + "}", kEight, {"duplicate", "field=t"}},
      {"a duplicate tensor, escaped",
       "{" + kGood + "," + tensor("\\u0074", "[2]", "[0,8]") + "}",
       kEight,
       {"duplicate", "field=t"}},
      {"a duplicate dtype",
       R"({"t":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})",
       kEight,
       {"duplicate"}},
      {"a duplicate shape",
       R"({"t":{"dtype":"F32","shape":[2],"shape":[2],"data_offsets":[0,8]}})",
       kEight,
       {"duplicate"}},
      {"duplicate metadata", R"({"__metadata__":{},"__metadata__":{}})", kNone, {"duplicate"}},
      {"a duplicate key in metadata",
       R"({"__metadata__":{"a":"1","a":"2"}})",
       kNone,
       {"duplicate"}},
      {"metadata that is no text", R"({"__metadata__":{"a":1}})", kNone, {"field=__metadata__"}},
      {"metadata that is nested", R"({"__metadata__":{"a":{}}})", kNone, {"field=__metadata__"}},
      {"metadata that is a text", R"({"__metadata__":"a"})", kNone, {"field=__metadata__"}},
      {"an unknown key",
       R"({"t":{"dtype":"F32","shape":[2],"data_offsets":[0,8],"x":1}})",
       kEight,
       {"unknown key", "field=t", "value=x"}},
      {"nesting", R"({"t":{"shape":[[[[2]]]]}})", kNone, {"list"}},
      {"a negative offset",
       "{" + tensor("t", "[2]", "[-8,0]") + "}",
       kEight,
       {"negative", "field=t.data_offsets"}},
      {"a real size",
       "{" + tensor("t", "[2.0]", "[0,8]") + "}",
       kEight,
       {"unsigned 64-bit", "field=t.shape"}},
      {"a size beyond 64 bits",
       "{" + tensor("t", "[18446744073709551616]", "[0,8]") + "}",
       kEight,
       {"unsigned 64-bit", "field=t.shape"}},
      {"a volume that overflows",
       "{" + tensor("t", "[4294967296,4294967297]", "[0,8]") + "}",
       kEight,
       {"overflows", "field=t.shape"}},
      {"a volume of bytes that overflows",
       "{" + tensor("t", "[4611686018427387904]", "[0,0]") + "}",
       kNone,
       {"volume × element size", "field=t.data_offsets"}},
      {"a size beyond 63 bits",
       "{" + tensor("t", "[9223372036854775808,0]", "[0,0]") + "}",
       kNone,
       {"overflows"}},
      {"too many bytes",
       "{" + tensor("t", "[1]", "[0,8]") + "}",
       kEight,
       {"volume × element size", "value=8", "dtype=F32"}},
      {"half a byte", "{" + tensor("t", "[3]", "[0,1]", "F4") + "}", "x", {"volume"}},
      {"offsets turned round", "{" + tensor("t", "[2]", "[8,0]") + "}", kEight, {"8,0"}},
      {"an end beyond the file",
       "{" + tensor("t", "[4]", "[0,16]") + "}",
       kEight,
       {"beyond the data section", "limit=8"}},
      {"an end of 2^64 - 1",
       "{" + tensor("t", "[2]", "[18446744073709551607,18446744073709551615]") + "}",
       kEight,
       {"beyond the data section"}},
      {"one offset", "{" + tensor("t", "[2]", "[8]") + "}", kEight, {"two data offsets"}},
      {"three offsets", "{" + tensor("t", "[2]", "[0,8,8]") + "}", kEight, {"two data offsets"}},
      {"an unknown type",
       "{" + tensor("t", "[2]", "[0,8]", "F31") + "}",
       kEight,
       {"unknown element type", "value=F31"}},
      {"a type that is a number",
       R"({"t":{"dtype":1,"shape":[2],"data_offsets":[0,8]}})",
       kEight,
       {"field=t.dtype"}},
      {"no type", R"({"t":{"shape":[2],"data_offsets":[0,8]}})", kEight, {"without dtype"}},
      {"no shape", R"({"t":{"dtype":"F32","data_offsets":[0,8]}})", kEight, {"without shape"}},
      {"no offsets", R"({"t":{"dtype":"F32","shape":[2]}})", kEight, {"without data_offsets"}},
      {"a null tensor", R"({"t":null})", kNone, {"null"}},
      {"a tensor that is true", R"({"t":true})", kNone, {"truth value"}},
      {"a hole",
       "{" + tensor("t", "[1]", "[0,4]") + "," + tensor("u", "[1]", "[8,12]") + "}",
       std::string(12, '\0'),
       {"hole", "field=u.data_offsets", "expected=4"}},
      {"a hole at the start", "{" + tensor("t", "[1]", "[4,8]") + "}", kEight, {"hole"}},
      {"an overlap",
       "{" + tensor("t", "[2]", "[0,8]") + "," + tensor("u", "[2]", "[4,12]") + "}",
       std::string(12, '\0'),
       {"overlaps", "field=u.data_offsets"}},
      {"the same bytes twice",
       "{" + kGood + "," + tensor("u", "[2]", "[0,8]") + "}",
       kEight,
       {"overlaps"}},
      {"bytes that belong to nothing",
       "{" + kGood + "}",
       kEight + "x",
       {"longer than its tensors", "value=9", "limit=8"}},
      {"data without tensors", "{}", kEight, {"longer than its tensors"}},
  };
  return rows;
}

std::string header_of(const char* element, int count) {
  std::string text = "{";
  for (int i = 0; i < count; ++i) {
    text += (i ? "," : "") + tensor(element + std::to_string(i), "[0]", "[0,0]");
  }
  return text + "}";
}

/// Counts and lengths that would take memory.
std::vector<BadHeader> large_headers() {
  std::string shape = "[1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  std::string names = "{";
  for (char c = 'a'; c < 'i'; ++c) {
    names += (c > 'a' ? "," : "") + tensor(std::string(1 << 22, c), "[0]", "[0,0]");
  }
  const std::string long_name((1 << 22) + 1, 'n');
  return {
      {"65 dims", "{" + tensor("t", shape + "]", "[0,4]") + "}", std::string(4, '\0'), {"64 dims"}},
      {"deep lists", R"({"t":)" + std::string(100000, '[') + "}", kNone, {}},
      {"deep objects", R"({"t":{"a":{"b":{"c":{"d":{}}}}}})", kNone, {}},
      {"too many tensors",
       header_of("", static_cast<int>(SafetensorsLimits::kTensors) + 1),
       kNone,
       {"too many tensors", "limit=131072"}},
      {"a long name", "{" + tensor(long_name, "[0]", "[0,0]") + "}", kNone, {"string is too long"}},
      {"long names", names, kNone, {"names are too long"}},
  };
}

struct BadLength {
  uint64_t length;
  std::vector<std::string> parts;
};

}  // namespace

std::vector<HostileFile> hostile_safetensors() {
  std::vector<HostileFile> files;
  const auto add = [&](const std::string& name, std::string bytes, std::vector<std::string> parts) {
    parts.push_back("model.safetensors");
    files.push_back({HostileFile::Kind::kSafetensors, name, std::move(bytes), "invalid_field",
                     std::move(parts)});
  };
  for (const auto& rows : {bad_headers(), large_headers()}) {
    for (const BadHeader& row : rows) {
      add(row.what, safetensors_file(row.header, row.data), row.parts);
    }
  }
  add("nothing", "", {"too short", "value=0"});
  add("seven bytes", "1234567", {"too short", "value=7"});
  for (const BadLength& row :
       std::vector<BadLength>{{0, {"value=0", "limit=2"}},
                              {1, {"value=1"}},
                              {3, {"value=3", "limit=2"}},
                              {~uint64_t{0}, {"value=18446744073709551615"}},
                              {uint64_t{1} << 63, {"value=9223372036854775808"}}}) {
    const std::string length(reinterpret_cast<const char*>(&row.length), 8);
    add("a header of " + std::to_string(row.length) + " bytes", length + "{}", row.parts);
  }
  return files;
}

}  // namespace plait

// Headers that lie: each one is refused with the file, the field and the value.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tests/checkpoint/hf_fixture.h"

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

const std::vector<BadHeader> kBadHeaders = {
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
    {"a duplicate key in metadata", R"({"__metadata__":{"a":"1","a":"2"}})", kNone, {"duplicate"}},
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

TEST_CASE("every defect of a header is refused as invalid_field") {
  const TempDirectory directory;
  for (const BadHeader& row : kBadHeaders) {
    INFO(row.what);
    const std::string path = directory.write("bad", safetensors_file(row.header, row.data));
    std::vector<std::string> parts = row.parts;
    parts.push_back(path);
    require_error([&] { SafetensorsFile file(posix_env().files, path); }, "invalid_field", parts);
  }
}

TEST_CASE("more than 64 dims and deep nesting are refused") {
  const TempDirectory directory;
  std::string shape = "[1";
  for (int i = 0; i < 64; ++i) shape += ",1";
  const std::string many = "{" + tensor("t", shape + "]", "[0,4]") + "}";
  std::string path = directory.write("a", safetensors_file(many, std::string(4, '\0')));
  require_error([&] { SafetensorsFile file(posix_env().files, path); }, "invalid_field",
                {"64 dims"});
  const std::string deep = R"({"t":)" + std::string(100000, '[') + "}";
  path = directory.write("b", safetensors_file(deep, ""));
  require_error([&] { SafetensorsFile file(posix_env().files, path); }, "invalid_field");
}

TEST_CASE("limits on counts and lengths hold memory down") {
  const TempDirectory directory;
  std::string many = "{";
  for (int64_t i = 0; i <= SafetensorsLimits::kTensors; ++i) {
    many += (i ? "," : "") + tensor(std::to_string(i), "[0]", "[0,0]");
  }
  std::string path = directory.write("a", safetensors_file(many + "}", ""));
  require_error([&] { SafetensorsFile file(posix_env().files, path); }, "invalid_field",
                {"too many tensors", "limit=131072"});
  const std::string name(std::string((1 << 22) + 1, 'n'));
  path = directory.write("b", safetensors_file("{" + tensor(name, "[0]", "[0,0]") + "}", ""));
  require_error([&] { SafetensorsFile file(posix_env().files, path); }, "invalid_field",
                {"string is too long"});
  std::string names = "{";
  for (char c = 'a'; c < 'i'; ++c) {
    names += (c > 'a' ? "," : "") + tensor(std::string(1 << 22, c), "[0]", "[0,0]");
  }
  path = directory.write("c", safetensors_file(names + "}", ""));
  require_error([&] { SafetensorsFile file(posix_env().files, path); }, "invalid_field",
                {"names are too long"});
}

TEST_CASE("a header length out of range is refused before anything is read") {
  const TempDirectory directory;
  const auto with_length = [&](uint64_t length, const std::string& rest) {
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    return directory.write("a", bytes + rest);
  };
  const auto open = [](const std::string& path) {
    return [path] { SafetensorsFile file(posix_env().files, path); };
  };
  require_error(open(directory.write("e", "")), "invalid_field", {"too short", "value=0"});
  require_error(open(directory.write("e", "1234567")), "invalid_field", {"too short", "value=7"});
  require_error(open(with_length(0, "{}")), "invalid_field", {"value=0", "limit=2"});
  require_error(open(with_length(1, "{}")), "invalid_field", {"value=1"});
  require_error(open(with_length(3, "{}")), "invalid_field", {"value=3", "limit=2"});
  require_error(open(with_length(~uint64_t{0}, "{}")), "invalid_field",
                {"value=18446744073709551615"});
  require_error(open(with_length(uint64_t{1} << 63, "{}")), "invalid_field",
                {"value=9223372036854775808"});
  const std::string sparse = with_length(100'000'001, "{}");
  std::filesystem::resize_file(sparse, 200'000'000);
  require_error(open(sparse), "invalid_field", {"value=100000001", "limit=100000000"});
  SafetensorsFile good(posix_env().files, with_length(2, "{}"));
  CHECK(good.entries().empty());
}

TEST_CASE("every truncation of a file is refused") {
  const TempDirectory directory;
  const std::string bytes =
      safetensors_file({random_tensor("a", "F32", {3}), random_tensor("b", "BF16", {2, 2})}, 3);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const std::string path = directory.write("t", bytes.substr(0, size));
    require_error([&] { SafetensorsFile file(posix_env().files, path); }, "invalid_field");
  }
}

TEST_CASE("what is no regular file is refused; truncation under the reader is an error") {
  const TempDirectory directory;
  std::filesystem::create_directory(directory.path("d"));
  require_error([&] { SafetensorsFile file(posix_env().files, directory.path("d")); },
                "invalid_file", {directory.path("d")});
  require_error([&] { SafetensorsFile file(posix_env().files, directory.path("x")); }, "no_file",
                {directory.path("x")});
  const std::string path =
      directory.write("t", safetensors_file({random_tensor("a", "F32", {64})}));
  const SafetensorsFile file(posix_env().files, path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 8);
  std::vector<float> values(64);
  require_error([&] { file.read(*file.find("a"), 0, 64, values.data()); }, "corrupt", {path});
}

}  // namespace
}  // namespace plait

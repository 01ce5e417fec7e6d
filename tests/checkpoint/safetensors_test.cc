#include "checkpoint/safetensors.h"

#include <bit>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>
#include <utility>
#include <vector>

#include "checkpoint/safetensors_writer.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

std::vector<float> read_all(const SafetensorsFile& file, const std::string& name, int64_t count) {
  std::vector<float> values(static_cast<size_t>(count));
  const SafetensorsEntry* entry = file.find(name);
  REQUIRE(entry != nullptr);
  file.read(*entry, 0, count, values.data());
  return values;
}

std::string write_file(const TempDirectory& directory, const std::vector<SafetensorsSpec>& specs,
                       const std::vector<float>& values, DType dtype) {
  const std::string path = directory.path("written.safetensors");
  const auto file = posix_env().files.create(path, false);
  SafetensorsWriter writer(*file, specs, dtype, nullptr);
  for (const SafetensorsSpec& spec : specs) writer.write(spec.name, values.data());
  writer.finish();
  return path;
}

TEST_CASE("a file lists its tensors by name with shapes and places") {
  const TempDirectory directory;
  const std::string header = R"({ "__metadata__" : {"format":"pt","author":"\u00e9"}, )"
                             R"("zeta":{"dtype":"F32","shape":[2,1],"data_offsets":[6,14]},)"
                             R"("alpha":{"data_offsets":[0,6],"shape":[3],"dtype":"F16"},)"
                             R"("none":{"dtype":"F32","shape":[0,4],"data_offsets":[14,14]},)"
                             R"("five":{"dtype":"U8","shape":[1,1,1,1,2],"data_offsets":[14,16]},)"
                             R"("scalar":{"dtype":"I64","shape":[],"data_offsets":[16,24]}}   )";
  const std::string path = directory.write("a", safetensors_file(header, std::string(24, '\1')));
  const SafetensorsFile file(posix_env().files, path);
  REQUIRE(file.entries().size() == 5);
  CHECK(file.entries()[0].name == "alpha");
  CHECK(file.entries()[4].name == "zeta");
  const SafetensorsEntry* zeta = file.find("zeta");
  REQUIRE(zeta != nullptr);
  CHECK(zeta->has_shape({2, 1}));
  CHECK(zeta->bytes == 8);
  CHECK(zeta->offset == static_cast<int64_t>(8 + header.size() + 6));
  CHECK(zeta->shape_text() == "[2,1]");
  CHECK(std::string(file.find("scalar")->type_name()) == "I64");
  CHECK(file.find("five")->dims == 5);
  CHECK(file.find("zet") == nullptr);
  CHECK(file.find("zetas") == nullptr);
}

TEST_CASE("an empty table and a null metadata are files") {
  const TempDirectory directory;
  for (const char* header : {"{}", R"({"__metadata__":null})", R"({"__metadata__":{}}  )"}) {
    const SafetensorsFile file(posix_env().files,
                               directory.write("a", safetensors_file(header, "")));
    CHECK(file.entries().empty());
  }
}

TEST_CASE("every pattern of F16 and BF16 is widened exactly, from any alignment") {
  const TempDirectory directory;
  std::vector<uint16_t> patterns(65536);
  for (size_t i = 0; i < patterns.size(); ++i) patterns[i] = static_cast<uint16_t>(i);
  std::set<int64_t> offsets;
  for (const auto& [dtype, spaces] :
       {std::pair{"F16", 0}, std::pair{"F16", 1}, std::pair{"BF16", 0}, std::pair{"BF16", 1}}) {
    const RawTensor odd{"a", "U8", {3}, "xyz"};
    const RawTensor all{"b", dtype, {65536}, bytes_of(patterns)};
    const SafetensorsFile file(posix_env().files,
                               directory.write(dtype, safetensors_file({odd, all}, spaces)));
    offsets.insert(file.find("b")->offset % 2);
    const std::vector<float> values = read_all(file, "b", 65536);
    for (int64_t i = 0; i < 65536; ++i) {
      const bool is_half = std::string(dtype) == "F16";
      const uint32_t exponent = is_half ? static_cast<uint32_t>(i) >> 10 & 31 : 0;
      const uint32_t bits = std::bit_cast<uint32_t>(values[static_cast<size_t>(i)]);
      if (!is_half) {
        REQUIRE(bits == static_cast<uint32_t>(i) << 16);
      } else if (exponent == 31) {  // infinity, NaN with its payload
        const uint32_t sign = static_cast<uint32_t>(i) >> 15, payload = i & 0x3FF;
        REQUIRE(bits == (sign << 31 | 0x7F800000u | payload << 13));
      } else {
        REQUIRE(bits == std::bit_cast<uint32_t>(element(all, i)));
      }
    }
  }
  CHECK(offsets.size() == 2);
}

TEST_CASE("every pattern of F16 and BF16 survives narrowing; a NaN stays one") {
  const TempDirectory directory;
  for (const DType dtype : {DType::kFloat16, DType::kBFloat16}) {
    const bool is_half = dtype == DType::kFloat16;
    std::vector<uint16_t> patterns(65536);
    std::vector<float> values(65536);
    for (size_t i = 0; i < 65536; ++i) {
      patterns[i] = static_cast<uint16_t>(i);
      values[i] = is_half ? to_float(Float16{patterns[i]}) : to_float(BFloat16{patterns[i]});
    }
    const std::string path = write_file(directory, {{"all", {65536}}}, values, dtype);
    const RawTensor got = read_safetensors(path).at("all");
    CHECK(got.dtype == (is_half ? "F16" : "BF16"));
    const uint16_t infinity = is_half ? 0x7C00 : 0x7F80, quiet = is_half ? 0x200 : 0x40;
    for (size_t i = 0; i < 65536; ++i) {
      uint16_t bits = 0;
      std::memcpy(&bits, got.bytes.data() + 2 * i, 2);
      const bool is_nan = (patterns[i] & 0x7FFF) > infinity;
      REQUIRE(bits == (is_nan ? patterns[i] | quiet : patterns[i]));
    }
  }
}

TEST_CASE("narrowing rounds to nearest, ties to even") {
  const TempDirectory directory;
  struct Row {
    float value;
    uint16_t half, brain;
  };
  const Row rows[] = {
      {1.0f + 0x1p-11f, 0x3C00, 0x3F80},  // a tie of F16: down to even
      {1.0f + 0x3p-11f, 0x3C02, 0x3F80},  // up to even
      {1.0f + 0x1p-11f + 0x1p-20f, 0x3C01, 0x3F80},
      {1.0f + 0x1p-8f, 0x3C04, 0x3F80},  // a tie of BF16
      {1.0f + 0x3p-8f, 0x3C0C, 0x3F82},
      {65519.0f, 0x7BFF, 0x4780},  // the last below F16's infinity
      {0x1p-25f, 0x0000, 0x3300},  // half of F16's least: to even
      {0x1.8p-24f, 0x0002, 0x33C0},
      {-0.0f, 0x8000, 0x8000},
      {-std::numeric_limits<float>::infinity(), 0xFC00, 0xFF80},
  };
  std::vector<float> values;
  std::vector<uint16_t> halves, brains;
  for (const Row& row : rows) {
    values.push_back(row.value);
    halves.push_back(row.half);
    brains.push_back(row.brain);
  }
  const Shape shape{static_cast<int64_t>(values.size())};
  std::string path = write_file(directory, {{"t", shape}}, values, DType::kFloat16);
  CHECK(read_safetensors(path).at("t").bytes == bytes_of(halves));
  path = write_file(directory, {{"t", shape}}, values, DType::kBFloat16);
  CHECK(read_safetensors(path).at("t").bytes == bytes_of(brains));
}

TEST_CASE("a finite value that would become infinite is refused with tensor and index") {
  const TempDirectory directory;
  std::vector<float> values(1 << 21, 1.0f);
  values[(1 << 20) + 5] = 65520.0f;
  require_error(
      [&] {
        write_file(directory, {{"big", {1 << 21}}}, values, DType::kFloat16);
      },
      "dtype_overflow", {"tensor=big", "index=1048581", "value=65520", "dtype=float16"});
  values[(1 << 20) + 5] = -std::numeric_limits<float>::max();
  require_error(
      [&] {
        write_file(directory, {{"big", {1 << 21}}}, values, DType::kBFloat16);
      },
      "dtype_overflow", {"tensor=big", "index=1048581", "dtype=bfloat16"});
}

TEST_CASE("F64 is rounded to the nearest float; beyond its range is refused") {
  const TempDirectory directory;
  const std::vector<double> values = {1.0 + 0x1p-24, 1.0 + 0x1.8p-23, 0x1p-149, -0x1p-160,
                                      std::numeric_limits<double>::infinity()};
  const RawTensor good{"d", "F64", {5}, bytes_of(values)};
  const SafetensorsFile file(posix_env().files, directory.write("d", safetensors_file({good})));
  const std::vector<float> got = read_all(file, "d", 5);
  CHECK(got[0] == 1.0f);
  CHECK(got[1] == 1.0f + 0x1p-22f);
  CHECK(got[2] == 0x1p-149f);
  CHECK(std::bit_cast<uint32_t>(got[3]) == 0x80000000u);
  CHECK(std::isinf(got[4]));
  const RawTensor bad{"d", "F64", {3}, bytes_of(std::vector<double>{0, 1, -1e39})};
  const SafetensorsFile large(posix_env().files, directory.write("e", safetensors_file({bad})));
  require_error([&] { read_all(large, "d", 3); }, "dtype_overflow",
                {"tensor=d", "index=2", "value=-1e+39"});
}

TEST_CASE("a rectangle equals the slice of the whole, straight and transposed") {
  const TempDirectory directory;
  struct Size {
    int64_t rows, columns;
  };
  // Small; many rows a chunk; rows of a chunk and more; holes that are read over and skipped.
  for (const Size size : {Size{7, 5}, Size{3000, 700}, Size{3, 600000}, Size{40, 50000}}) {
    for (const char* dtype : {"F32", "BF16"}) {
      if (dtype[0] == 'F' && size.rows == 3000) continue;
      const RawTensor tensor = random_tensor("t", dtype, {size.rows, size.columns});
      const RawTensor odd{"a", "BOOL", {1}, "x"};
      const SafetensorsFile file(posix_env().files,
                                 directory.write("t", safetensors_file({odd, tensor})));
      const FileRectangle rectangles[] = {
          {0, size.rows, 0, size.columns},
          {1, size.rows - 1, 2, size.columns - 3},
          {1, size.rows - 2, size.columns / 2, 2},
          {size.rows - 1, 1, 1, size.columns / 3},
          {0, 0, 0, 4},
          {0, 3, 1, 0},
      };
      for (const FileRectangle& part : rectangles) {
        for (const bool transpose : {false, true}) {
          std::vector<float> got(static_cast<size_t>(part.rows * part.columns) + 1, -77.0f);
          file.read_rectangle(*file.find("t"), part, transpose, got.data());
          CHECK(got.back() == -77.0f);
          int64_t wrong = 0;
          for (int64_t r = 0; r < part.rows; ++r) {
            for (int64_t c = 0; c < part.columns; ++c) {
              const int64_t place = transpose ? c * part.rows + r : r * part.columns + c;
              const float expected =
                  element(tensor, (part.first_row + r) * size.columns + part.first_column + c);
              wrong += std::bit_cast<uint32_t>(got[static_cast<size_t>(place)]) !=
                       std::bit_cast<uint32_t>(expected);
            }
          }
          CHECK(wrong == 0);
        }
      }
    }
  }
}

TEST_CASE("a written file has these very bytes") {
  const TempDirectory directory;
  const std::string path =
      write_file(directory, {{"b", {2}}, {"a", {1, 2}}}, {1.0f, -2.0f}, DType::kBFloat16);
  std::string header = R"({"__metadata__":{"format":"pt"},)"
                       R"("a":{"dtype":"BF16","shape":[1,2],"data_offsets":[0,4]},)"
                       R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[4,8]}})";
  header.resize((header.size() + 7) / 8 * 8, ' ');
  const std::string data("\x80\x3f\x00\xc0\x80\x3f\x00\xc0", 8);
  CHECK(read_text(path) == safetensors_file(header, data));
  SafetensorsSize size(DType::kBFloat16);
  size.add({"a", {1, 2}});
  size.add({"b", {2}});
  CHECK(size.file_bytes() == static_cast<int64_t>(read_text(path).size()));
  CHECK(size.data_bytes() == 8);
}

}  // namespace
}  // namespace plait

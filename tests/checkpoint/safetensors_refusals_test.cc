// Files that are cut short, are no files, or say that their header has no end.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <vector>

#include "checkpoint/safetensors.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

TEST_CASE("a header length beyond its limit is refused before anything is read") {
  const TempDirectory directory;
  const auto with_length = [&](uint64_t length, const std::string& rest) {
    std::string bytes(reinterpret_cast<const char*>(&length), 8);
    return directory.write("a", bytes + rest);
  };
  const std::string sparse = with_length(100'000'001, "{}");
  std::filesystem::resize_file(sparse, 200'000'000);
  require_error([&] { SafetensorsFile file(posix_env().files, sparse); }, "invalid_field",
                {"value=100000001", "limit=100000000"});
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

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/capi/host.h"

using host::Err;

namespace {

// All tensors of an open directory: names, shapes and values as bytes.
std::string contents(plait_checkpoint* checkpoint) {
  std::string all;
  Err err;
  for (int64_t i = 0; i < plait_checkpoint_entry_count(checkpoint); ++i) {
    auto info = host::sized<plait_entry_info>();
    REQUIRE(plait_checkpoint_entry_at(checkpoint, i, &info, err) == PLAIT_OK);
    const void* data = nullptr;
    int64_t bytes = 0;
    REQUIRE(plait_checkpoint_map(checkpoint, info.name, PLAIT_KIND_PARAM, &data, &bytes, err) ==
            PLAIT_OK);
    all += std::string(info.name) + " " + std::to_string(info.shape0) + " " +
           std::to_string(info.shape1) + " ";
    all.append(static_cast<const char*>(data), static_cast<size_t>(bytes));
  }
  return all;
}

}  // namespace

TEST_CASE("A Hugging Face directory is opened, listed and read", "[capi]") {
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  const host::Context context = host::make_context();
  host::Checkpoint checkpoint;
  Err err;
  REQUIRE(plait_checkpoint_open(context, folder.path("m").c_str(), checkpoint.out(), err) ==
          PLAIT_OK);
  host::Bytes report;
  REQUIRE(plait_checkpoint_report(checkpoint, report.out(), err) == PLAIT_OK);
  CHECK(report.text().find("\"format\":\"hugging_face\"") != std::string::npos);
  CHECK(report.text().find("model.hidden") != std::string::npos);
  const int64_t count = plait_checkpoint_entry_count(checkpoint);
  REQUIRE(count >= 16);
  CHECK(plait_checkpoint_entry_count(nullptr) == 0);
  std::string last;
  int64_t elements = 0;
  for (int64_t i = 0; i < count; ++i) {
    auto info = host::sized<plait_entry_info>();
    REQUIRE(plait_checkpoint_entry_at(checkpoint, i, &info, err) == PLAIT_OK);
    CHECK(info.valid == PLAIT_ENTRY_TENSOR);
    CHECK(info.kind == PLAIT_KIND_PARAM);
    CHECK(info.dtype == PLAIT_DTYPE_FLOAT32);
    CHECK(info.elements == info.shape0 * info.shape1);
    CHECK(last < info.name);
    last = info.name;
    elements += info.elements;
    const void* data = nullptr;
    const void* again = nullptr;
    int64_t bytes = 0;
    REQUIRE(plait_checkpoint_map(checkpoint, info.name, PLAIT_KIND_PARAM, &data, &bytes, err) ==
            PLAIT_OK);
    CHECK(bytes == info.elements * 4);
    REQUIRE(plait_checkpoint_map(checkpoint, info.name, PLAIT_KIND_PARAM, &again, nullptr, err) ==
            PLAIT_OK);
    CHECK(data == again);
  }
  CHECK(elements == 12 + 48 + 4 + 16 + 4 * 4 + 16 + 64 + 4 + 64 + 8 + 24 + 32);
  auto info = host::sized<plait_entry_info>();
  CHECK(plait_checkpoint_entry_at(checkpoint, count, &info, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(plait_checkpoint_map(checkpoint, "none", 1, nullptr, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
  CHECK(plait_checkpoint_map(checkpoint, last.c_str(), PLAIT_KIND_MASTER, nullptr, nullptr, err) ==
        PLAIT_INVALID_ARGUMENT);
}

TEST_CASE("An export loads again bit-equal, in each element type", "[capi]") {
  const host::Folder folder;
  host::write_tiny_gpt2(folder.path("m"));
  const host::Context context = host::make_context();
  host::Checkpoint source;
  Err err;
  REQUIRE(plait_checkpoint_open(context, folder.path("m").c_str(), source.out(), err) == PLAIT_OK);
  const std::string original = contents(source);
  for (const std::string dtype : {"float32", "bfloat16", "float16"}) {
    const host::Config options = host::make_config(context, "{\"export.dtype\":\"" + dtype + "\"}");
    host::Op op;
    REQUIRE(plait_checkpoint_export_hf(source, options, folder.path(dtype).c_str(), op.out(),
                                       err) == PLAIT_OK);
    REQUIRE(plait_op_wait(op, 60000, err) == PLAIT_OK);
    host::Checkpoint first, second;
    REQUIRE(plait_checkpoint_open(context, folder.path(dtype).c_str(), first.out(), err) ==
            PLAIT_OK);
    if (dtype == "float32") CHECK(contents(first) == original);
    REQUIRE(plait_checkpoint_export_hf(first, options, folder.path(dtype + "2").c_str(), op.out(),
                                       err) == PLAIT_OK);
    REQUIRE(plait_op_wait(op, 60000, err) == PLAIT_OK);
    REQUIRE(plait_checkpoint_open(context, folder.path(dtype + "2").c_str(), second.out(), err) ==
            PLAIT_OK);
    CHECK(contents(first) == contents(second));
  }
  host::Op op;
  REQUIRE(plait_checkpoint_export_hf(source, nullptr, folder.path("m").c_str(), op.out(), err) ==
          PLAIT_OK);
  CHECK(plait_op_wait(op, 60000, err) == PLAIT_ALREADY_EXISTS);
  REQUIRE(plait_checkpoint_verify(source, 0, op.out(), err) == PLAIT_OK);
  CHECK(plait_op_wait(op, 60000, err) == PLAIT_OK);
}

TEST_CASE("What is no checkpoint is refused with its own code", "[capi]") {
  const host::Folder folder;
  const host::Context context = host::make_context();
  host::Checkpoint checkpoint;
  Err err;
  CHECK(plait_checkpoint_open(context, folder.path("none").c_str(), checkpoint.out(), err) ==
        PLAIT_NOT_FOUND);
  std::filesystem::create_directory(folder.path("empty"));
  CHECK(plait_checkpoint_open(context, folder.path("empty").c_str(), checkpoint.out(), err) ==
        PLAIT_NOT_FOUND);
  CHECK(err.word() == "no_checkpoint");
  folder.write("file", "x");
  CHECK(plait_checkpoint_open(context, folder.path("file").c_str(), checkpoint.out(), err) ==
        PLAIT_NOT_FOUND);
  std::filesystem::create_directories(folder.path("root/step-00000001"));
  CHECK(plait_checkpoint_open(context, folder.path("root").c_str(), checkpoint.out(), err) ==
        PLAIT_NOT_FOUND);
  CHECK(err.word() == "no_checkpoint");
  host::write_tiny_gpt2(folder.path("m"));
  std::string file = host::read_file(folder.path("m/model.safetensors"));
  folder.write("m/model.safetensors", file.substr(0, file.size() - 4));
  CHECK(plait_checkpoint_open(context, folder.path("m").c_str(), checkpoint.out(), err) ==
        PLAIT_DATA_LOSS);
}

#include "bindings/cli/failure.h"

#include <catch2/catch.hpp>
#include <cerrno>
#include <nlohmann/json.hpp>

namespace plait::cli {
namespace {

TEST_CASE("a failure reads like one of the library's") {
  const Failure failure =
      usage_failure("two things differ").with("key", "a b").with("empty", "").with("count", 3);
  CHECK(failure.message() == "argument: two things differ; key=\"a b\" empty=\"\" count=3");
  const nlohmann::json error = nlohmann::json::parse(failure.json()).at("error");
  CHECK(error.at("name") == "INVALID_ARGUMENT");
  CHECK(error.at("code") == PLAIT_INVALID_ARGUMENT);
  CHECK(error.at("details").at("key") == "a b");
  CHECK(error.at("details").at("count") == 3);
}

TEST_CASE("an error of the library is taken over whole") {
  plait_context* context = nullptr;
  plait_error* error = nullptr;
  const int32_t code = plait_context_create(0, nullptr, &context, &error);
  REQUIRE(code == PLAIT_FAILED_PRECONDITION);
  const Failure failure(code, error);
  CHECK(failure.word() == "version_mismatch");
  CHECK(failure.message().rfind("version_mismatch: ", 0) == 0);
  CHECK(nlohmann::json::parse(failure.json()).at("error").at("disposition") ==
        PLAIT_DISPOSITION_UNCHANGED);
  CHECK(Failure(PLAIT_INTERNAL, nullptr).code() == PLAIT_INTERNAL);
}

TEST_CASE("exit codes") {
  const auto code = [](int32_t number, bool is_started) {
    return Failure(number, "word", "sentence").exit_code(is_started);
  };
  CHECK(code(PLAIT_INVALID_ARGUMENT, false) == 2);
  CHECK(code(PLAIT_INVALID_ARGUMENT, true) == 1);
  CHECK(code(PLAIT_NOT_FOUND, false) == 2);
  CHECK(code(PLAIT_UNIMPLEMENTED, false) == 1);
  CHECK(code(PLAIT_OUT_OF_RANGE, true) == 1);
  CHECK(code(PLAIT_CANCELLED, true) == 3);
  CHECK(code(PLAIT_PEER_LOST, true) == 4);
  CHECK(code(PLAIT_DATA_LOSS, false) == 5);
  CHECK(code(PLAIT_DATA_LOSS, true) == 5);
}

TEST_CASE("errors of the operating system have the library's words") {
  CHECK(file_failure(ENOENT, "open", "p").word() == "no_file");
  CHECK(file_failure(EACCES, "open", "p").word() == "permission");
  CHECK(file_failure(EROFS, "open", "p").word() == "read_only");
  CHECK(file_failure(ENOSPC, "write", "p").code() == PLAIT_RESOURCE_EXHAUSTED);
  CHECK(file_failure(EIO, "read", "p").word() == "io_error");
}

}  // namespace
}  // namespace plait::cli

#include <catch2/catch.hpp>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "capi/src/sized_struct.h"
#include "tests/capi/host.h"

using host::Err;

namespace {

std::string word_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const plait::Error& error) {
    return error.word();
  }
  return "";
}

}  // namespace

TEST_CASE("A struct without a usable struct_size is refused by name", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  for (const int64_t size :
       {int64_t{0}, int64_t{-1}, int64_t{8}, int64_t{sizeof(plait_key_info)} - 8,
        int64_t{sizeof(plait_key_info)} + 1, int64_t{1} << 40, INT64_MAX, INT64_MIN}) {
    plait_key_info info{};
    info.struct_size = size;
    Err err;
    CHECK(plait_config_key_at(config, 0, &info, err) == PLAIT_INVALID_ARGUMENT);
    CHECK(err.word() == "struct_size");
    CHECK(err.message().find("plait_key_info") != std::string::npos);
  }
}

TEST_CASE("A longer output has its tail zeroed, and valid is 0 on failure", "[capi]") {
  const host::Context context = host::make_context();
  const host::Config config = host::make_config(context);
  struct Longer {
    plait_key_info known;
    int64_t tail[3];
  } longer{};
  longer.known.struct_size = sizeof longer;
  longer.tail[0] = longer.tail[2] = 7;
  Err err;
  REQUIRE(plait_config_key_at(config, 0, &longer.known, err) == PLAIT_OK);
  CHECK(longer.tail[0] == 0);
  CHECK(longer.tail[2] == 0);
  CHECK(longer.known.struct_size == int64_t{sizeof longer});
  CHECK(longer.known.valid == PLAIT_VALID_ALL);
  CHECK(plait_config_key_at(config, -1, &longer.known, err) == PLAIT_INVALID_ARGUMENT);
  CHECK(longer.known.valid == 0);
}

TEST_CASE("An input may be longer only when the unknown tail is zero", "[capi]") {
  struct Longer {
    plait_host known;
    int64_t tail[2];
  } longer{};
  longer.known.struct_size = sizeof longer;
  host::Context context;
  Err err;
  CHECK(plait_context_create(PLAIT_API_VERSION, &longer.known, context.out(), err) == PLAIT_OK);
  longer.tail[1] = int64_t{1} << 56;
  CHECK(plait_context_create(PLAIT_API_VERSION, &longer.known, context.out(), err) ==
        PLAIT_UNIMPLEMENTED);
  CHECK(err.word() == "struct_tail");
  longer.tail[1] = 0;
  longer.known.reserved = &longer;
  CHECK(plait_context_create(PLAIT_API_VERSION, &longer.known, context.out(), err) ==
        PLAIT_INVALID_ARGUMENT);
}

// A struct that grew by one field since its first release.
struct Grown {
  int64_t struct_size, valid, old_field, new_field;
};
template <>
inline constexpr int64_t plait::kFirstSize<Grown> = 24;

TEST_CASE("A struct that grew serves hosts of both sizes", "[capi]") {
  Grown host_struct{24, 0, 5, 99};
  const Grown input = plait::read_struct(&host_struct, "grown");
  CHECK(input.old_field == 5);
  CHECK(input.new_field == 0);
  plait::StructOut<Grown> out(&host_struct, "grown");
  out.check();
  out.write({0, 1, 8, 9});
  CHECK(host_struct.struct_size == 24);
  CHECK(host_struct.valid == 1);
  CHECK(host_struct.old_field == 8);
  CHECK(host_struct.new_field == 99);  // beyond what the host said is his
  host_struct.struct_size = 32;
  out.check();
  out.write({0, 1, 8, 9});
  CHECK(host_struct.new_field == 9);
  host_struct.struct_size = 16;
  CHECK(word_of([&] { plait::read_struct(&host_struct, "grown"); }) == "struct_size");
  CHECK(word_of([&] { out.check(); }) == "struct_size");
  alignas(8) char shifted[sizeof(Grown) + 1] = {};
  const auto* odd = reinterpret_cast<const Grown*>(static_cast<const void*>(shifted + 1));
  CHECK(word_of([&] { plait::read_struct(odd, "grown"); }) == "argument");
}

TEST_CASE("The sizes of the first release are accepted for ever", "[capi]") {
  CHECK(plait::kFirstSize<plait_metrics> == 200);
  CHECK(plait::kFirstSize<plait_batch_spec> == 72);
  CHECK(plait::kFirstSize<plait_plan_info> == 128);
  CHECK(plait::kFirstSize<plait_rank_info> == 112);
  CHECK(plait::kFirstSize<plait_key_info> == 96);
  CHECK(plait::kFirstSize<plait_entry_info> == 128);
  CHECK(plait::kFirstSize<plait_dataset_info> == 56);
  CHECK(plait::kFirstSize<plait_progress> == 40);
  CHECK(plait::kFirstSize<plait_host> == 48);
  CHECK(plait::kFirstSize<plait_kv> == 40);
}

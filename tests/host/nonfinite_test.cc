// Faults N1 to N3: what is not finite in one micro-batch alone decides the whole step.
#include <catch2/catch.hpp>
#include <limits>
#include <string>
#include <vector>

#include "tests/host/rig.h"

using host::Err;
using host::Rig;

namespace {

constexpr int32_t kRare = 60;  // an id that the rows below do not contain

/// Four rows of 17 ids below 60; row `which` holds the rare id once, as an input.
std::vector<int32_t> rows_with_rare(int64_t which) {
  std::vector<int32_t> rows = host::make_rows(4, 17, 5, 60);
  if (which >= 0) rows[static_cast<size_t>(which * 17 + 4)] = kRare;
  return rows;
}

/// Makes the embedding row of the rare id not finite, in the precision's own copy.
void poison(Rig& rig, float value) {
  std::vector<float> values = rig.read("embedding.token.weight");
  values[static_cast<size_t>(kRare) * 32 + 7] = value;
  rig.write("embedding.token.weight", values);
}

double counter(Rig& rig, const char* name) {
  double value = -1;
  REQUIRE(plait_engine_counter(rig.engine, name, &value, nullptr) == PLAIT_OK);
  return value;
}

}  // namespace

TEST_CASE("N1: a NaN or infinity in any one micro-batch refuses the step", "[nonfinite]") {
  const std::string compute = GENERATE("fp32", "bf16");
  const float value =
      GENERATE(std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity());
  Rig rig("{\"precision.compute\":\"" + compute + "\"}");
  poison(rig, value);
  Err err;
  rig.set_tokens(rows_with_rare(-1));
  REQUIRE(rig.step(err) == PLAIT_OK);  // nobody looks at that row
  const std::string state = rig.state();
  for (int64_t which = 0; which < 4; ++which) {
    INFO(compute << " micro-batch " << which);
    rig.set_tokens(rows_with_rare(which));
    CHECK(rig.step(err) == PLAIT_OUT_OF_RANGE);
    CHECK(err.word() == "nonfinite_loss");
    CHECK(plait_error_disposition(err.get()) == PLAIT_DISPOSITION_UNCHANGED);
    CHECK(plait_error_rank(err.get()) == 0);
    for (const char* field : {"step=2", "rank=0", "tensor=", "first_sample=4", "samples=4"}) {
      CHECK(err.message().find(field) != std::string::npos);
    }
    CHECK(rig.state() == state);
    CHECK(counter(rig, "steps") == 1);
    CHECK(counter(rig, "samples") == 4);
  }
  rig.set_tokens(rows_with_rare(-1));
  REQUIRE(rig.step(err) == PLAIT_OK);
  CHECK(rig.metrics.step == 2);
  CHECK(rig.metrics.skipped_total == 0);
}

TEST_CASE("N1, N3: where steps are skipped, any one micro-batch skips the step", "[nonfinite]") {
  const std::string keys = GENERATE(R"({"train.on_nonfinite":"skip"})",
                                    R"({"train.on_nonfinite":"skip","precision.compute":"bf16"})",
                                    R"({"precision.compute":"fp16"})");
  Rig rig(keys);
  poison(rig, std::numeric_limits<float>::infinity());
  const std::string state = rig.state();
  Err err;
  for (int64_t which = 0; which < 4; ++which) {
    INFO(keys << " micro-batch " << which);
    rig.set_tokens(rows_with_rare(which));
    REQUIRE(rig.step(err) == PLAIT_OK);
    CHECK(rig.metrics.skipped == 1);
    CHECK(rig.metrics.skipped_total == which + 1);
    CHECK(rig.metrics.step == which + 1);
    CHECK(rig.metrics.samples_total == 4 * (which + 1));
    CHECK(rig.state() == state);
  }
  rig.set_tokens(rows_with_rare(-1));
  REQUIRE(rig.step(err) == PLAIT_OK);
  CHECK(rig.metrics.skipped == 0);
  CHECK(rig.metrics.skipped_total == 4);
}

TEST_CASE("N1: gradients that wait for their update are dropped with a refused step",
          "[nonfinite]") {
  Rig rig, fresh;
  poison(rig, std::numeric_limits<float>::quiet_NaN());
  poison(fresh, std::numeric_limits<float>::quiet_NaN());
  Err err;
  rig.set_tokens(rows_with_rare(-1));
  REQUIRE(plait_engine_forward_backward(rig.engine, rig.batch, 60000, nullptr, err) == PLAIT_OK);
  rig.set_tokens(rows_with_rare(2));
  REQUIRE(plait_engine_forward_backward(rig.engine, rig.batch, 60000, nullptr, err) == PLAIT_OK);
  CHECK(plait_engine_optimizer_step(rig.engine, 60000, nullptr, err) == PLAIT_OUT_OF_RANGE);
  CHECK(err.word() == "nonfinite_loss");
  rig.set_tokens(rows_with_rare(-1));
  fresh.set_tokens(rows_with_rare(-1));
  REQUIRE(rig.step(err) == PLAIT_OK);
  REQUIRE(fresh.step(err) == PLAIT_OK);
  CHECK(rig.metrics.loss == fresh.metrics.loss);
  CHECK(rig.metrics.grad_norm == fresh.metrics.grad_norm);
}

TEST_CASE("N2 of faults: scale, counters and state through overflows to the end", "[nonfinite]") {
  Rig rig(R"({"precision.compute":"fp16","precision.loss_scale_start":8,
    "precision.loss_scale_hysteresis":2})");
  poison(rig, std::numeric_limits<float>::infinity());
  rig.set_tokens(rows_with_rare(1));
  const std::string state = rig.state();
  Err err;
  for (const double scale : {8.0, 8.0, 4.0, 2.0}) {
    REQUIRE(rig.step(err) == PLAIT_OK);
    CHECK(rig.metrics.loss_scale == scale);
    CHECK(rig.metrics.skipped == 1);
  }
  for (int i = 0; i < 2; ++i) {
    CHECK(rig.step(err) == PLAIT_OUT_OF_RANGE);
    CHECK(err.word() == "scale_exhausted");
    CHECK(plait_error_disposition(err.get()) == PLAIT_DISPOSITION_UNCHANGED);
    CHECK(err.message().find("step=5") != std::string::npos);
  }
  CHECK(rig.state() == state);
  rig.set_tokens(rows_with_rare(-1));
  REQUIRE(rig.step(err) == PLAIT_OK);
  CHECK(rig.metrics.skipped == 0);
  CHECK(rig.metrics.loss_scale == 1.0);
}

TEST_CASE("N3 of faults: a loss spike is no error", "[nonfinite]") {
  Rig rig;
  std::vector<float> values = rig.read("head.weight");
  for (float& value : values) value *= 1e4f;
  rig.write("head.weight", values);
  CHECK(rig.good_step() > 100);
  CHECK(rig.metrics.skipped == 0);
}

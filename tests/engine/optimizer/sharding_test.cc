// The same training whatever the ZeRO stage and the layout: bits where they are promised, rounding
// elsewhere.
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>

#include "tests/engine/optimizer/toy_world.h"

using namespace plait;
using namespace plait::test;

namespace {

double relative_difference(const std::vector<std::vector<float>>& got,
                           const std::vector<std::vector<double>>& want) {
  double difference = 0, size = 0;
  for (size_t t = 0; t < want.size(); ++t) {
    for (size_t i = 0; i < want[t].size(); ++i) {
      difference += std::pow(got[t][i] - want[t][i], 2);
      size += std::pow(want[t][i], 2);
    }
  }
  return std::sqrt(difference / size);
}

std::vector<std::vector<float>> rounded(std::vector<std::vector<float>> values, DType dtype) {
  if (dtype == DType::kFloat32) return values;
  for (auto& tensor : values) {
    for (float& value : tensor) value = to_float(from_float<BFloat16>(value));
  }
  return values;
}

/// All four stages of a layout, and what must hold between them.
void check_stages(WorldCase world) {
  std::vector<Trained> ends;
  for (int64_t zero = 0; zero < 4; ++zero) {
    world.zero = zero;
    ends.push_back(train_world(world));
    CHECK(same_bits(ends.back().weights, rounded(ends.back().masters, world.toy.dtype)));
  }
  CHECK(same_end(ends[0], ends[1]));
  CHECK(same_end(ends[2], ends[3]));
  if (world.micro_batches == 1 || world.toy.data == 1) CHECK(same_end(ends[0], ends[2]));
  const auto plain =
      train_plainly(world.toy, world.steps, world.micro_batches, kGradientScale, kLearningRate);
  for (const Trained& end : ends) CHECK(relative_difference(end.masters, plain) < 1e-5);
}

}  // namespace

TEST_CASE("D9, D4: every ZeRO stage trains every layout alike", "[sharding]") {
  const auto data = GENERATE(range<int64_t>(1, 5));
  const auto tensor = GENERATE(range<int64_t>(1, 3));
  const auto pipeline = GENERATE(range<int64_t>(1, 3));
  WorldCase world;
  world.toy.data = data;
  world.toy.tensor = tensor;
  world.toy.pipeline = pipeline;
  const int64_t number = data + 4 * (tensor - 1) + 8 * (pipeline - 1);
  world.toy.is_tied = number % 3 != 0;
  world.toy.is_sequence_parallel = number % 2 == 0;
  world.toy.dtype = number % 5 < 2 ? DType::kBFloat16 : DType::kFloat32;
  world.is_overlapping = number % 4 != 1;
  world.micro_batches = number % 4 == 2 ? 1 : 3;
  world.steps = 3;
  CAPTURE(data, tensor, pipeline);
  check_stages(world);
}

TEST_CASE("one micro-batch: stages 2 and 3 have the bits of 0 and 1", "[sharding]") {
  WorldCase world;
  world.toy.data = 3;
  world.toy.tensor = 2;
  check_stages(world);
}

TEST_CASE("traps 7, 31: cutting the model over the pipeline changes no bit", "[sharding]") {
  WorldCase world;
  world.zero = GENERATE(0, 1, 2, 3);
  world.toy.data = 2;
  world.toy.tensor = GENERATE(1, 2);
  world.toy.is_sequence_parallel = true;
  world.micro_batches = 3;
  const Trained whole = train_world(world);
  for (const auto& [pipeline, chunks] : {std::pair{2, 1}, {2, 2}, {3, 1}}) {
    CAPTURE(world.zero, pipeline, chunks);
    world.toy.pipeline = pipeline;
    world.toy.chunks = chunks;
    CHECK(same_end(train_world(world), whole));
  }
}

TEST_CASE("P8, trap 28: a rank without parameters takes part", "[sharding]") {
  WorldCase world;
  world.zero = GENERATE(0, 1, 2, 3);
  world.toy.data = 2;
  world.toy.layers = 1;
  world.toy.is_tied = false;
  const Trained whole = train_world(world);
  world.toy.pipeline = 3;
  REQUIRE(toy_units(world.toy, 1, 0).empty());
  CHECK(same_end(train_world(world), whole));
}

TEST_CASE("overlapped reductions have the bits of those that are waited for", "[sharding]") {
  WorldCase world;
  world.zero = GENERATE(2, 3);
  world.toy.data = 3;
  world.micro_batches = 3;
  const Trained overlapped = train_world(world);
  world.is_overlapping = false;
  CHECK(same_end(train_world(world), overlapped));
}

TEST_CASE("D3, T6: the norm counts each logical element once", "[sharding]") {
  WorldCase world;
  world.zero = GENERATE(0, 1, 2, 3);
  world.toy.is_exact = true;
  world.micro_batches = 3;
  world.steps = 1;
  world.toy.is_sequence_parallel = GENERATE(false, true);
  world.toy.is_tied = GENERATE(false, true);
  for (const auto& [tensor, pipeline, data] :
       {std::array{1, 1, 1}, {1, 1, 4}, {2, 1, 3}, {2, 2, 1}, {2, 2, 2}, {1, 3, 2}}) {
    world.toy.tensor = tensor;
    world.toy.pipeline = pipeline;
    world.toy.data = data;
    double squares = 0;
    const auto tensors = static_cast<int64_t>(toy_tensors(world.toy).size());
    for (int64_t i = 0; i < tensors; ++i) {
      for (double g : summed_gradient(world.toy, i, 0, world.micro_batches)) squares += g * g;
    }
    CAPTURE(world.zero, tensor, pipeline, data);
    const Trained end = train_world(world);
    CHECK(std::fabs(end.sums[0].squares / squares - 1) < 1e-12);
    CHECK(end.sums[0].first_nonfinite == -1);
    CHECK(end.sums[0].loss == 1.5 * data + data * (data - 1) / 2);
    CHECK(end.sums[0].targets == 3 * data + data * (data - 1) / 2);
    const auto plain =
        train_plainly(world.toy, 1, world.micro_batches, kGradientScale, kLearningRate);
    CHECK(relative_difference(end.masters, plain) < 1e-6);
  }
}

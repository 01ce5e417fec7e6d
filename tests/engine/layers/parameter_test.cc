// Units: how parameters lie in flat buffers that somebody else owns.
#include "engine/layers/parameter.h"

#include <catch2/catch.hpp>
#include <vector>

using namespace plait;

namespace {

std::unique_ptr<Device> one_thread() {
  DeviceOptions options;
  options.threads = 1;
  return make_device(options);
}

}  // namespace

TEST_CASE("parameters lie one after the other at multiples of 64", "[parameter]") {
  Unit unit("layers.0");
  Parameter* matrix = unit.add({5, 7}, {whole_segment("a", {5, 7}, 0, {})});
  Parameter* vector = unit.add({65}, {whole_segment("b", {65}, 0, {})});
  unit.seal(DType::kBFloat16, 2);
  CHECK(matrix->offset == 0);
  CHECK(vector->offset == 64);
  CHECK(unit.elements() == 256);  // 64 + 128, then a multiple of 64 · 2
  CHECK(matrix->weight.dtype == DType::kBFloat16);
  CHECK(!matrix->weight.is_present());
  CHECK(matrix->range(matrix->segments[0]) == std::pair<int64_t, int64_t>(0, 35));
}

TEST_CASE("views follow the buffers that are bound", "[parameter]") {
  Unit unit("embedding.token");
  Parameter* table = unit.add({4, 3}, {});
  unit.add_second_gradient(table);
  unit.seal(DType::kFloat32, 1);
  std::vector<float> first(64), other(64), gradients(64), second(64);
  const auto flat = [](std::vector<float>& values) {
    return TensorView{values.data(), DType::kFloat32, {64}};
  };
  unit.bind_weights(flat(first));
  CHECK(table->weight.as<float>() == first.data());
  CHECK(table->weight.shape == Shape{4, 3});
  unit.bind_weights(flat(other));
  CHECK(table->weight.as<float>() == other.data());
  unit.bind_gradients(flat(gradients));
  unit.bind_second_gradients(flat(second));
  CHECK(table->gradient.as<float>() == gradients.data());
  CHECK(table->second_gradient.as<float>() == second.data());
}

TEST_CASE("a unit's memory is counted by what it is for", "[parameter]") {
  const std::unique_ptr<Device> device = one_thread();
  Unit unit("embedding.token");
  Parameter* table = unit.add({64, 2}, {});
  unit.add_second_gradient(table);
  unit.seal(DType::kBFloat16, 1);
  {
    const UnitMemory memory(unit, *device);
    CHECK(device->ledger().bytes(MemoryCategory::kWeights) == 128 * 2);
    CHECK(device->ledger().bytes(MemoryCategory::kGradients) == 2 * 128 * 4);
    CHECK(table->second_gradient.as<char>() != table->gradient.as<char>());
  }
  CHECK(device->ledger().total() == 0);
}

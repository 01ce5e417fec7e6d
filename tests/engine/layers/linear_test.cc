// A linear layer beside its op: both parts of backward at once, and weights that move.
#include "engine/layers/linear.h"

#include <catch2/catch.hpp>
#include <functional>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/kernels.h"

using namespace plait;

namespace {

constexpr int64_t kRows = 37, kOutputs = 24, kInputs = 41;

std::vector<float> values(int64_t count, const char* name) {
  std::vector<float> out(static_cast<size_t>(count));
  fill_normal(stream_key(name, 1), 1.0, 0, count, out.data());
  return out;
}

struct Rig {
  Rig() {
    DeviceOptions options;
    options.threads = 1;
    device = make_device(options);
    weight = unit.add({kOutputs, kInputs}, {});
    bias = unit.add({kOutputs}, {});
    unit.seal(DType::kFloat32, 1);
    memory = std::make_unique<UnitMemory>(unit, *device);
    linear = std::make_unique<Linear>(weight, bias);
  }

  /// Measures, then runs.
  void run(const std::function<void(const Pass&)>& body) {
    Workspace workspace;
    const Kernels kernels = cpu_kernels();
    OpContext context{*device, kernels, workspace};
    linear->prepare(context, kRows);
    for (int i = 0; i < 2; ++i) {
      linear->weights_changed(context);
      body({context, 1, kRows});
      if (i == 0) workspace.allocate(&device->ledger());
    }
  }

  std::unique_ptr<Device> device;
  Unit unit{"linear"};
  Parameter* weight;
  Parameter* bias;
  std::unique_ptr<UnitMemory> memory;
  std::unique_ptr<Linear> linear;
  std::vector<float> x = values(kRows * kInputs, "x"), grad_y = values(kRows * kOutputs, "grad");
  std::vector<float> y = std::vector<float>(kRows * kOutputs);
  std::vector<float> grad_x = std::vector<float>(kRows * kInputs);
  TensorView x_view() { return {x.data(), DType::kFloat32, {kRows, kInputs}}; }
  TensorView y_view() { return {y.data(), DType::kFloat32, {kRows, kOutputs}}; }
  TensorView grad_x_view() { return {grad_x.data(), DType::kFloat32, {kRows, kInputs}}; }
  TensorView grad_y_view() { return {grad_y.data(), DType::kFloat32, {kRows, kOutputs}}; }
};

std::vector<float> copy(const TensorView& view) {
  return {view.as<float>(), view.as<float>() + view.elements()};
}

}  // namespace

TEST_CASE("backward at once is both parts", "[linear]") {
  Rig rig;
  const std::vector<float> weights = values(kOutputs * kInputs, "w");
  std::copy(weights.begin(), weights.end(), rig.weight->weight.as<float>());
  rig.run([&](const Pass& pass) {
    LinearState state;
    rig.linear->forward(pass, rig.x_view(), rig.y_view(), state);
    rig.linear->backward_input(pass, rig.grad_y_view(), rig.grad_x_view(), state);
    rig.linear->backward_weight(pass, state);
  });
  const std::vector<float> grad_x = rig.grad_x, grad_weight = copy(rig.weight->gradient);
  const std::vector<float> grad_bias = copy(rig.bias->gradient);
  CHECK(grad_weight != std::vector<float>(grad_weight.size()));
  std::fill(rig.grad_x.begin(), rig.grad_x.end(), 0.0f);
  rig.run([&](const Pass& pass) {
    LinearState state;
    rig.linear->forward(pass, rig.x_view(), rig.y_view(), state);
    rig.linear->backward(pass, rig.grad_y_view(), rig.grad_x_view(), state);
  });
  CHECK(rig.grad_x == grad_x);
  CHECK(copy(rig.weight->gradient) == grad_weight);
  CHECK(copy(rig.bias->gradient) == grad_bias);
}

TEST_CASE("a linear follows its weight to other memory", "[linear]") {
  Rig rig;
  const std::vector<float> weights = values(kOutputs * kInputs, "w");
  std::copy(weights.begin(), weights.end(), rig.weight->weight.as<float>());
  const auto forward = [&](const Pass& pass) {
    LinearState state;
    rig.linear->forward(pass, rig.x_view(), rig.y_view(), state);
  };
  rig.run(forward);
  const std::vector<float> y = rig.y;
  std::vector<float> moved(static_cast<size_t>(rig.unit.elements()));
  std::copy(weights.begin(), weights.end(), moved.begin() + rig.weight->offset);
  std::fill_n(rig.weight->weight.as<float>(), kOutputs * kInputs, 1e9f);
  rig.unit.bind_weights({moved.data(), DType::kFloat32, {rig.unit.elements()}});
  rig.run(forward);
  CHECK(rig.y == y);
}

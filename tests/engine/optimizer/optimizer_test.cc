// Updates of flat units on one rank: published values, tensors apart from each other.
#include "engine/optimizer/optimizer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "engine/comm/fabric.h"
#include "kernels/base/error.h"
#include "kernels/cpu/cpu_kernels.h"

using namespace plait;

namespace {

/// One unit of vectors of `counts` elements, each its own logical tensor, values of 1.
class Bench {
 public:
  Bench(const std::vector<int64_t>& counts, DType dtype, double decay, bool has_vectors = false)
      : kernels_(cpu_kernels()), fabric_({}, posix_env().clock), unit_("unit") {
    DeviceOptions device;
    device.threads = 2;
    device_ = make_device(device);
    OptimizerOptions options;
    options.adamw.weight_decay = decay;
    for (int64_t count : counts) {
      const std::string name = "tensor " + std::to_string(options.tensors.size());
      unit_.add({count}, {whole_segment(name, {count}, 0, {})});
      options.decays.push_back(!has_vectors || options.tensors.empty());
      options.tensors.push_back(name);
    }
    unit_.seal(dtype, 1);
    for (uint32_t id = 0; id < 3; ++id) {
      groups_.push_back(std::make_unique<Communicator>(fabric_.endpoint(0), "group", id,
                                                       std::vector<int64_t>{0}, nullptr));
    }
    optimizer_ = std::make_unique<Optimizer>(
        options, StepGroups{groups_[0].get(), groups_[1].get(), groups_[2].get()},
        std::vector<std::vector<Unit*>>{{&unit_}}, *device_);
    context_ = std::make_unique<OpContext>(OpContext{*device_, kernels_, workspace_});
    optimizer_->close(*context_, {});  // measures its workspace
    workspace_.allocate(&device_->ledger());
    std::fill_n(optimizer_->master(0, 0).as<float>(), unit_.elements(), 1.0f);
    optimizer_->masters_changed(*context_);
  }

  void fill_gradients(float value) {
    for (int64_t i = 0; i < tensors(); ++i) {
      std::fill_n(gradient(i).as<float>(), gradient(i).elements(), value);
    }
  }
  void update(double lr) { optimizer_->apply(*context_, 1.0f, lr); }
  int64_t tensors() const { return static_cast<int64_t>(unit_.parameters().size()); }
  TensorView gradient(int64_t tensor) { return parameter(tensor).gradient; }
  float master(int64_t tensor, int64_t index) {
    return optimizer_->master(0, 0).as<float>()[parameter(tensor).offset + index];
  }
  Optimizer& optimizer() { return *optimizer_; }
  OpContext& context() { return *context_; }

 private:
  const Parameter& parameter(int64_t tensor) {
    return *unit_.parameters()[static_cast<size_t>(tensor)];
  }

  Kernels kernels_;
  std::unique_ptr<Device> device_;
  Fabric fabric_;
  std::vector<std::unique_ptr<Communicator>> groups_;
  Unit unit_;
  Workspace workspace_;
  std::unique_ptr<Optimizer> optimizer_;
  std::unique_ptr<OpContext> context_;
};

}  // namespace

TEST_CASE("three published updates with decoupled decay", "[optimizer]") {
  Bench bench({1}, DType::kFloat32, 0.1);
  const double want[] = {0.9890000002, 0.9780110004, 0.9670329896};
  for (double value : want) {
    bench.fill_gradients(0.5f);
    bench.update(0.01);
    CHECK(bench.master(0, 0) == Approx(value).epsilon(1e-7));
  }
}

TEST_CASE("N8: equal tensors of odd sizes move alike", "[optimizer]") {
  Bench bench({1048576, 1000003}, DType::kFloat32, 0.0);
  for (int k = 1; k <= 3; ++k) {
    bench.fill_gradients(1.0f);
    bench.update(0.01);
    for (int64_t tensor : {0, 1}) {
      for (int64_t i = 0; i < bench.gradient(tensor).elements(); ++i) {
        if (std::fabs(bench.master(tensor, i) - (1.0 - 0.01 * k)) > 1e-6) {
          FAIL("tensor " << tensor << " element " << i);
        }
      }
    }
  }
}

TEST_CASE("B2: ten small updates of a bf16 weight reach its master", "[optimizer]") {
  Bench bench({70}, DType::kBFloat16, 0.0);
  for (int k = 0; k < 10; ++k) {
    bench.fill_gradients(1.0f);
    bench.update(1e-3);
  }
  CHECK(bench.master(0, 0) == Approx(0.99).epsilon(1e-5));
  CHECK(bench.master(0, 69) == bench.master(0, 0));
}

TEST_CASE("N14: without gradients, decay shrinks by lr · decay and vectors keep their bits",
          "[optimizer]") {
  Bench bench({300, 40}, DType::kFloat32, 0.5, true);
  bench.fill_gradients(0.0f);
  bench.update(0.1);
  for (int64_t i = 0; i < 300; ++i) CHECK(bench.master(0, i) == Approx(0.95).epsilon(1e-7));
  for (int64_t i = 0; i < 40; ++i) CHECK(bench.master(1, i) == 1.0f);
}

TEST_CASE("squares are summed in fp64 and show what is not finite", "[optimizer]") {
  Bench bench({1000, 77, 5000}, DType::kFloat32, 0.0);
  bench.fill_gradients(0.5f);
  GlobalSums sums = bench.optimizer().close(bench.context(), {2.5, 7, 1});
  CHECK(sums.squares == 0.25 * 6077);
  CHECK(sums.first_nonfinite == -1);
  CHECK(sums.loss == 2.5);
  CHECK(sums.targets == 7);
  CHECK(sums.stop == 1);
  bench.gradient(1).as<float>()[76] = std::numeric_limits<float>::quiet_NaN();
  sums = bench.optimizer().close(bench.context(), {});
  CHECK(std::isnan(sums.squares));
  CHECK(sums.first_nonfinite == 1);
}

TEST_CASE("a reset forgets moments and counts", "[optimizer]") {
  Bench bench({10}, DType::kFloat32, 0.0);
  bench.fill_gradients(1.0f);
  bench.update(0.01);
  CHECK(bench.optimizer().updates(0) == 1);
  bench.optimizer().reset();
  CHECK(bench.optimizer().updates(0) == 0);
  CHECK(bench.optimizer().moment1(0, 0).as<float>()[3] == 0.0f);
}

TEST_CASE("updates count per tensor and can be restored", "[optimizer]") {
  Bench bench({10, 10}, DType::kFloat32, 0.0);
  bench.optimizer().set_updates(1,
                                1000000);  // its corrections are 1: the first moment's rest shows
  bench.fill_gradients(1.0f);
  bench.update(0.01);
  CHECK(bench.master(0, 0) == Approx(0.99).epsilon(1e-6));
  CHECK(bench.master(1, 0) == Approx(1 - 0.01 * 0.1 / std::sqrt(0.05)).epsilon(1e-6));
  CHECK(bench.optimizer().updates(0) == 1);
  CHECK(bench.optimizer().updates(1) == 1000001);
}

TEST_CASE("a tensor that the optimizer was not told of is refused", "[optimizer]") {
  OptimizerOptions options;
  options.tensors = {"known"};
  options.decays = {true};
  Fabric fabric({}, posix_env().clock);
  Communicator group(fabric.endpoint(0), "group", 0, {0}, nullptr);
  Unit unit("unit");
  unit.add({4}, {whole_segment("unknown", {4}, 0, {})});
  unit.seal(DType::kFloat32, 1);
  DeviceOptions device_options;
  device_options.threads = 1;
  const std::unique_ptr<Device> device = make_device(device_options);
  try {
    Optimizer optimizer(options, {&group, &group, &group}, {{&unit}}, *device);
    FAIL("it was taken");
  } catch (const Error& error) {
    CHECK(error.word() == "invariant");
    CHECK(error.message().find("tensor=unknown") != std::string::npos);
  }
}

// Updates of flat units: published values, tensors apart from each other, any cut the same.
#include "engine/optimizer/optimizer.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_kernels.h"

using namespace plait;

namespace {

/// One unit of `counts` spans, each its own logical tensor, values of 1.
class Bench {
 public:
  Bench(const std::vector<int64_t>& counts, DType dtype, double decay, bool has_vectors = false)
      : kernels_(cpu_kernels()) {
    DeviceOptions options;
    options.threads = 2;
    device_ = make_device(options);
    OptimizerUnit unit;
    int64_t elements = 0;
    std::vector<bool> decays;
    for (int64_t count : counts) {
      unit.spans.push_back({static_cast<int64_t>(unit.spans.size()), elements, count});
      elements += (count + 63) / 64 * 64;
      decays.push_back(!has_vectors || decays.empty());
    }
    weights_ = device_->allocate(elements * dtype_size(dtype), MemoryCategory::kWeights);
    gradients_ = device_->allocate(elements * 4, MemoryCategory::kGradients);
    unit.weights = weights_.view(dtype, {elements});
    unit.gradients = gradients_.view(DType::kFloat32, {elements});
    spans_ = unit.spans;
    AdamWOptions adamw;
    adamw.weight_decay = decay;
    optimizer_ =
        std::make_unique<Optimizer>(adamw, std::vector<OptimizerUnit>{unit}, decays, *device_);
    context_ = std::make_unique<OpContext>(OpContext{*device_, kernels_, workspace_});
    optimizer_->sum_squares(*context_);  // measures its workspace
    workspace_.allocate(&device_->ledger());
    for (int64_t i = 0; i < elements; ++i) optimizer_->master(0).as<float>()[i] = 1.0f;
    optimizer_->round_weights(*context_);
  }

  void fill_gradients(float value) {
    for (const OptimizerSpan& span : spans_) {
      for (int64_t i = 0; i < span.count; ++i) gradients()[span.first + i] = value;
    }
  }
  float* gradients() { return gradients_.view(DType::kFloat32, {1}).as<float>(); }
  float master(int64_t index) { return optimizer_->master(0).as<float>()[index]; }
  const std::vector<OptimizerSpan>& spans() const { return spans_; }
  Optimizer& optimizer() { return *optimizer_; }
  OpContext& context() { return *context_; }

 private:
  Kernels kernels_;
  std::unique_ptr<Device> device_;
  Buffer weights_, gradients_;
  std::vector<OptimizerSpan> spans_;
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
    bench.optimizer().update(bench.context(), 1.0f, 0.01);
    CHECK(bench.master(0) == Approx(value).epsilon(1e-7));
  }
}

TEST_CASE("N8: equal tensors of odd sizes move alike", "[optimizer]") {
  Bench bench({1048576, 1000003}, DType::kFloat32, 0.0);
  for (int k = 1; k <= 3; ++k) {
    bench.fill_gradients(1.0f);
    bench.optimizer().update(bench.context(), 1.0f, 0.01);
    for (const OptimizerSpan& span : bench.spans()) {
      for (int64_t i = 0; i < span.count; ++i) {
        if (std::fabs(bench.master(span.first + i) - (1.0 - 0.01 * k)) > 1e-6) {
          FAIL("tensor " << span.tensor << " element " << i);
        }
      }
    }
  }
}

TEST_CASE("B2: ten small updates of a bf16 weight reach its master", "[optimizer]") {
  Bench bench({70}, DType::kBFloat16, 0.0);
  for (int k = 0; k < 10; ++k) {
    bench.fill_gradients(1.0f);
    bench.optimizer().update(bench.context(), 1.0f, 1e-3);
  }
  CHECK(bench.master(0) == Approx(0.99).epsilon(1e-5));
  CHECK(bench.master(69) == bench.master(0));
}

TEST_CASE("N14: without gradients, decay shrinks by lr · decay and vectors keep their bits",
          "[optimizer]") {
  Bench bench({300, 40}, DType::kFloat32, 0.5, true);
  bench.fill_gradients(0.0f);
  bench.optimizer().update(bench.context(), 1.0f, 0.1);
  for (int64_t i = 0; i < 300; ++i) CHECK(bench.master(i) == Approx(0.95).epsilon(1e-7));
  for (int64_t i = 0; i < 40; ++i) CHECK(bench.master(bench.spans()[1].first + i) == 1.0f);
}

TEST_CASE("squares are summed in fp64 and show what is not finite", "[optimizer]") {
  Bench bench({1000, 77, 5000}, DType::kFloat32, 0.0);
  bench.fill_gradients(0.5f);
  CHECK(bench.optimizer().sum_squares(bench.context()) == 0.25 * 6077);
  CHECK(bench.optimizer().first_nonfinite() == -1);
  bench.gradients()[bench.spans()[1].first + 76] = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(bench.optimizer().sum_squares(bench.context())));
  CHECK(bench.optimizer().first_nonfinite() == 1);
}

TEST_CASE("a reset forgets moments and counts", "[optimizer]") {
  Bench bench({10}, DType::kFloat32, 0.0);
  bench.fill_gradients(1.0f);
  bench.optimizer().update(bench.context(), 1.0f, 0.01);
  CHECK(bench.optimizer().updates(0) == 1);
  bench.optimizer().reset();
  CHECK(bench.optimizer().updates(0) == 0);
  CHECK(bench.optimizer().moment1(0).as<float>()[3] == 0.0f);
}

// AdamW over 50 million parameters, and spans.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "kernels/ops/adamw.h"
#include "kernels/ops/span.h"
#include "kernels/reference/reference_kernels.h"
#include "tests/bench/op_bench.h"

namespace plait::bench {
namespace {

constexpr int64_t kParameters = 50'000'000;
constexpr int64_t kSlice = 65536;  // at each end of the parameters: compared with the reference
constexpr int64_t kSpan = 16 << 20;

/// First and last parameters with their state, as they were before the update.
struct Slice {
  int64_t first = 0;
  std::vector<float> state[4];  // master, moment 1, moment 2, gradient
};

AdamW arguments(const Views& v, int64_t first, int64_t count) {
  const auto part = [&](size_t i) {
    return TensorView{v[i].as<char>() + first * dtype_size(v[i].dtype), v[i].dtype, {count}};
  };
  AdamW a;
  a.master = part(0);
  a.moment1 = part(1);
  a.moment2 = part(2);
  a.gradient = part(3);
  a.weight = v.size() > 4 ? part(4) : a.master;
  a.gradient_scale = 0.5f;
  a.lr = 1e-3f;
  a.decay = 0.1f;
  a.correction1 = 0.1f;
  a.correction2 = 0.05f;
  return a;
}

std::string check_slice(OpBench& bench, Slice slice, const Views& v) {
  std::vector<float> weight(static_cast<size_t>(kSlice));
  Views own;
  for (std::vector<float>& values : slice.state) {
    own.push_back({values.data(), DType::kFloat32, {kSlice}});
  }
  if (v.size() > 4) own.push_back({weight.data(), v[4].dtype, {kSlice}});
  bench.run_once(reference_kernels(),
                 [&](OpContext& context) { adamw(context, arguments(own, 0, kSlice)); });
  for (size_t t = 0; t < own.size(); ++t) {
    const double relative = own[t].dtype == DType::kFloat32 ? 1e-5 : 8e-3;
    for (int64_t i = 0; i < kSlice; ++i) {
      const double got = element(v[t], slice.first + i), want = element(own[t], i);
      if (std::abs(got - want) <= relative * (std::abs(want) + 1e-4)) continue;
      return "tensor " + std::to_string(t) + " element " + std::to_string(slice.first + i) +
             " is " + std::to_string(got) + ", the reference has " + std::to_string(want);
    }
  }
  return "";
}

void run_adamw(OpBench& bench, DType weight) {
  OpCase c;
  c.shape = "flat";
  c.op = "adamw";
  c.what = "50 M parameters, clip, cast";
  c.pass = "update";
  c.dtype = weight;
  for (const AdamWKernel* kernel : bench.kernels().adamw) {
    if (!kernel->supports(weight, bench.device().isa())) continue;
    c.kernel = kernel->name();
    break;
  }
  const Shape all{kParameters};
  c.tensors = {{DType::kFloat32, all, 0.02f, 0, false, 0},
               {DType::kFloat32, all, 0.01f, 0, false, 0},
               {DType::kFloat32, all, 0, 1e-4f, false, 0},
               {DType::kFloat32, all, 0.02f, 0, false, 0}};
  if (weight != DType::kFloat32) c.tensors.push_back({weight, all, 0, 0, false, 0});
  c.copies = 1;
  Slice slices[2];
  c.prepare = [&](OpContext& context, const Views& v) {
    if (context.is_measuring()) return;
    for (Slice& slice : slices) {
      slice.first = &slice == slices ? 0 : kParameters - kSlice;
      for (size_t t = 0; t < 4; ++t) {
        const float* from = v[t].as<float>() + slice.first;
        slice.state[t].assign(from, from + kSlice);
      }
    }
  };
  c.call = [](OpContext& context, const Views& v) { adamw(context, arguments(v, 0, kParameters)); };
  c.check = [&](const Views& v) {
    const std::string problem = check_slice(bench, slices[0], v);
    return problem.empty() ? check_slice(bench, slices[1], v) : problem;
  };
  bench.run(c);
}

OpCase span_case(const OpBench& bench, const char* op) {
  OpCase c;
  c.shape = "flat";
  c.op = op;
  c.what = "16 M elements";
  c.pass = "span";
  c.kernel = bench.kernels().span.front()->name();
  return c;
}

void run_spans(OpBench& bench) {
  const Shape all{kSpan};
  const TensorSpec wide{DType::kFloat32, all, 1.0f, 0, false, 0};
  const auto convert = [](OpContext& context, const Views& v) {
    convert_span(context, v[0], v[1]);
  };

  OpCase narrowing = span_case(bench, "convert to bf16");
  narrowing.tensors = {wide, {DType::kBFloat16, all, 0, 0, true, 1e-6f}};
  narrowing.call = convert;
  bench.run(narrowing);

  OpCase widening = span_case(bench, "convert to fp32");
  widening.tensors = {{DType::kBFloat16, all, 1.0f, 0, false, 0},
                      {DType::kFloat32, all, 0, 0, true, 1e-6f}};
  widening.call = convert;
  bench.run(widening);

  OpCase adding = span_case(bench, "add");
  adding.tensors = {wide, {DType::kFloat32, all, 1.0f, 0, true, 1e-6f}};
  adding.call = [](OpContext& context, const Views& v) { add_span(context, v[0], v[1]); };
  bench.run(adding);

  OpCase squares = span_case(bench, "sum of squares");
  squares.tensors = {wide, {DType::kFloat32, {1}, 0, 0, true, 1e-6f}};
  squares.call = [](OpContext& context, const Views& v) {
    const double sum = sum_squares(context, v[0]);
    if (!context.is_measuring()) v[1].as<float>()[0] = static_cast<float>(sum);
  };
  bench.run(squares);
}

}  // namespace

void run_flat_cases(OpBench& bench) {
  run_adamw(bench, DType::kBFloat16);
  run_adamw(bench, DType::kFloat32);
  run_spans(bench);
}

}  // namespace plait::bench

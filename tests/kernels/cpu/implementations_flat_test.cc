// Cross entropy, AdamW and the ops on flat spans.
#include <cmath>

#include "implementations.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/normal.h"
#include "kernels/ops/span.h"

using namespace plait;

namespace {

/// Runs `call` without a measuring pass, for calls that change what they read.
void run_once(OpRunner& runner, FunctionRef<void(OpContext&)> call) {
  Workspace workspace;
  workspace.allocate(nullptr);
  OpContext context{runner.device(), runner.kernels(), workspace};
  call(context);
}

std::vector<HostTensor> run_cross_entropy(OpRunner& runner, const HostTensor& logits,
                                          const std::vector<int64_t>& sizes, DType dtype) {
  const int64_t rows = sizes[0], first_id = 3;
  std::vector<int32_t> targets = random_ids(rows, sizes[1] + 2 * first_id, 2);
  targets[0] = -1;
  const HostTensor maximum(DType::kFloat32, {rows}), sum(DType::kFloat32, {rows}),
      target_logit(DType::kFloat32, {rows}), grad(dtype, logits.view().shape);
  runner.run([&](OpContext& context) {
    cross_entropy_statistics(context, {logits.view(), sizes[1], first_id, targets.data(),
                                       maximum.view(), sum.view(), target_logit.view()});
    cross_entropy_gradient(context, {logits.view(), sizes[1], first_id, targets.data(),
                                     maximum.view(), sum.view(), 512.0f, grad.view()});
  });
  if (dtype == DType::kFloat32) {
    const HostTensor in_place = logits.copy();
    run_once(runner, [&](OpContext& context) {
      cross_entropy_gradient(context, {in_place.view(), sizes[1], first_id, targets.data(),
                                       maximum.view(), sum.view(), 512.0f, in_place.view()});
    });
    if (!in_place.same_bits(grad)) FAIL_CHECK("in place gives other bits");
  }
  for (int64_t i = 0; i < grad.elements(); ++i) {
    const bool is_counted = i >= sizes[2] && i % sizes[2] < sizes[1];
    if (!is_counted && grad.at(i) != 0.0) FAIL_CHECK("element " << i << " has a gradient");
  }
  if (sizes[1] == 0) {
    for (int64_t row = 0; row < rows; ++row) {
      CHECK(maximum.at(row) == -INFINITY);
      maximum.view().as<float>()[row] = 0.0f;
    }
  }
  return {maximum, sum, target_logit, grad};
}

struct AdamWState {
  HostTensor master, moment1, moment2, gradient, weight;
};

AdamWState run_adamw(OpRunner& runner, int64_t count, DType dtype, int64_t chunk) {
  AdamWState s{random_tensor(DType::kFloat32, {count}, 1, 1.0, chunk % 2 == 1),
               random_tensor(DType::kFloat32, {count}, 2, 0.1),
               random_tensor(DType::kFloat32, {count}, 3, 0.1),
               random_tensor(DType::kFloat32, {count}, 4, 1.0, chunk % 2 == 1),
               HostTensor(dtype, {count}, chunk % 2 == 1)};
  for (int64_t i = 0; i < count; ++i) s.moment2.set(i, s.moment2.at(i) * s.moment2.at(i));
  s.moment1.set(0, 0.0);
  s.moment2.set(0, 0.0);
  s.gradient.set(0, 0.0);
  AdamW a;
  a.gradient_scale = 0.3f;
  a.lr = 3e-3f;
  a.decay = 0.1f;
  a.correction1 = 0.271f;
  a.correction2 = 0.142625f;
  for (int64_t first = 0; first < count; first += chunk) {
    const int64_t part = std::min(chunk, count - first);
    a.master = s.master.view().slice_rows(first, part);
    a.moment1 = s.moment1.view().slice_rows(first, part);
    a.moment2 = s.moment2.view().slice_rows(first, part);
    a.gradient = s.gradient.view().slice_rows(first, part);
    a.weight = s.weight.view().slice_rows(first, part);
    run_once(runner, [&](OpContext& context) { adamw(context, a); });
  }
  return s;
}

/// All patterns of a dtype's upper 16 bits, so that every kind of number and every NaN is there.
HostTensor all_patterns(DType dtype) {
  HostTensor tensor(dtype, {65536});
  for (uint32_t i = 0; i < 65536; ++i) {
    if (dtype == DType::kFloat32) {
      tensor.view().as<uint32_t>()[i] = i << 16 | (i * 40503u & 0xFFFFu);
    } else {
      tensor.view().as<uint16_t>()[i] = static_cast<uint16_t>(i);
    }
  }
  return tensor;
}

}  // namespace

TEST_CASE("every cross entropy equals the reference", "[cross_entropy]") {
  for (const std::vector<int64_t>& sizes : shapes("cross_entropy")) {
    for (const DType dtype : kDTypes) {
      HostTensor logits = random_tensor(DType::kFloat32, {sizes[0], sizes[2]}, 1, 6.0);
      for (int64_t row = 0; row < sizes[0]; ++row) {
        for (int64_t i = sizes[1]; i < sizes[2]; ++i) logits.set(row * sizes[2] + i, std::nan(""));
      }
      const double least = dtype == DType::kFloat16 ? 0x1p-24 : 1e-30;
      check_all(
          std::string("cross entropy ") + logits.view().shape.text() + " " + dtype_name(dtype),
          &Kernels::cross_entropy,
          [&](const CrossEntropyKernel& kernel, IsaLevel level) {
            return kernel.supports(dtype, level) && kernel.supports(DType::kFloat32, level);
          },
          [&](OpRunner& runner) { return run_cross_entropy(runner, logits, sizes, dtype); },
          {{"maximum", 0.0, 0.0},
           {"sum", 1e-30, 5e-6},
           {"target_logit", 0.0, 0.0},
           {"grad", least + 512 * 1e-7, 1e-5 + rounding(dtype)}});
    }
  }
}

TEST_CASE("every AdamW equals the reference bit for bit, however cut", "[adamw]") {
  for (const std::vector<int64_t>& sizes : shapes("span")) {
    const int64_t count = sizes[0];
    for (const DType dtype : kDTypes) {
      const AdamWState want = run_adamw(reference_runner(), count, dtype, count);
      for (const AdamWKernel* kernel : cpu_kernels().adamw) {
        for (const IsaLevel level : levels()) {
          if (!kernel->supports(dtype, level)) continue;
          for (const int threads : {1, 2, 3}) {
            Kernels only;
            only.adamw = {kernel};
            OpRunner runner(only, level, threads);
            for (const int64_t chunk : {count, count / 3 + 1, std::max<int64_t>(count / 40, 5)}) {
              const AdamWState got = run_adamw(runner, count, dtype, chunk);
              INFO(count << " in " << chunk << " by " << kernel->name() << " at " << isa_name(level)
                         << " weight " << dtype_name(dtype));
              CHECK(got.master.same_bits(want.master));
              CHECK(got.moment1.same_bits(want.moment1));
              CHECK(got.moment2.same_bits(want.moment2));
              CHECK(got.weight.same_bits(want.weight));
              CHECK((got.master.is_guarded() && got.weight.is_guarded()));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("every conversion rounds like the reference", "[span]") {
  for (const DType from : kDTypes) {
    const HostTensor source = all_patterns(from);
    for (const DType to : kDTypes) {
      for (const SpanKernel* kernel : cpu_kernels().span) {
        for (const IsaLevel level : levels()) {
          if (!kernel->supports(from, level) || !kernel->supports(to, level)) continue;
          Kernels only;
          only.span = {kernel};
          OpRunner runner(only, level, 2);
          for (const int64_t skipped : {0, 1, 65521}) {
            const HostTensor target(to, {65536 - skipped}, skipped == 1);
            run_once(runner, [&](OpContext& context) {
              convert_span(context, source.view().slice_rows(skipped, 65536 - skipped),
                           target.view());
            });
            const HostTensor want = source.cast(to);
            for (int64_t i = 0; i < target.elements(); ++i) {
              const double a = target.at(i), b = want.at(i + skipped);
              const bool is_same =
                  a == b ? std::signbit(a) == std::signbit(b) : std::isnan(a) && std::isnan(b);
              if (is_same) continue;
              FAIL_CHECK(kernel->name() << " at " << isa_name(level) << " " << dtype_name(from)
                                        << " to " << dtype_name(to) << " element " << i + skipped
                                        << " is " << a << ", not " << b);
              break;
            }
            CHECK(target.is_guarded());
          }
        }
      }
    }
  }
}

TEST_CASE("every sum over spans equals the reference bit for bit", "[span]") {
  for (const std::vector<int64_t>& sizes : shapes("span")) {
    const HostTensor a = random_tensor(DType::kFloat32, {sizes[0]}, 1, 1.0, true);
    for (const DType dtype : kDTypes) {
      const HostTensor from = a.cast(dtype);
      const HostTensor to = random_tensor(dtype, {sizes[0]}, 2, 1.0, true);
      check_all(
          std::string("add_span of ") + dtype_name(dtype), &Kernels::span,
          [&](const SpanKernel& kernel, IsaLevel level) { return kernel.supports(dtype, level); },
          [&](OpRunner& runner) {
            const HostTensor sum = to.copy();
            run_once(runner,
                     [&](OpContext& context) { add_span(context, from.view(), sum.view()); });
            return std::vector<HostTensor>{sum};
          },
          {{"sum"}});
    }
    const auto run = [&](OpRunner& runner, double* squares) {
      runner.run([&](OpContext& context) { *squares = sum_squares(context, a.view()); });
    };
    double want_squares = 0.0;
    run(reference_runner(), &want_squares);
    for (const SpanKernel* kernel : cpu_kernels().span) {
      for (const IsaLevel level : levels()) {
        if (!kernel->supports(DType::kFloat32, level)) continue;
        for (const int threads : {1, 2, 3}) {
          Kernels only;
          only.span = {kernel};
          OpRunner runner(only, level, threads);
          INFO(sizes[0] << " by " << kernel->name() << " at " << isa_name(level));
          double squares = 0.0;
          run(runner, &squares);
          CHECK(squares == want_squares);
        }
      }
    }
  }
}

TEST_CASE("every implementation draws the same normals", "[kernels][normal]") {
  struct Box {
    int64_t rows, columns, first, stride;
  };
  constexpr int64_t kFar = (int64_t{1} << 34) - 21;  // the block's number passes 2³²
  for (const Box& box : {Box{1, 1, 0, 1}, Box{1, 7, 2, 7}, Box{3, 37, 5, 41}, Box{2, 64, kFar, 64},
                         Box{5, 16, 48, 32}, Box{300, 1000, 3, 1501}}) {
    const NormalStream stream{stream_key("test/normal", 9), 0.02, box.first, box.stride};
    check_all(
        "draw_normal of " + std::to_string(box.rows) + " x " + std::to_string(box.columns),
        &Kernels::normal,
        [](const NormalKernel& kernel, IsaLevel level) { return kernel.supports(level); },
        [&](OpRunner& runner) {
          const HostTensor out(DType::kFloat32, {box.rows, box.columns}, box.first % 2 == 1);
          runner.run([&](OpContext& context) { draw_normal(context, stream, out.view()); });
          return std::vector<HostTensor>{out};
        },
        {{"normals"}});
  }
}

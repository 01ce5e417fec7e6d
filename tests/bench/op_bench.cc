#include "tests/bench/op_bench.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "kernels/base/random.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/reference/reference_kernels.h"
#include "tests/bench/measure.h"
#include "tests/bench/op_watch.h"

namespace plait::bench {
namespace {

constexpr int64_t kArenaBytes = int64_t{1} << 30;
constexpr int64_t kCopiesBytes = int64_t{512} << 20;  // more than caches hold
constexpr int64_t kNormals = 1 << 20;

int64_t aligned(int64_t bytes) { return (bytes + 4095) / 4096 * 4096; }

int64_t case_bytes(const OpCase& op_case) {
  int64_t total = 0;
  for (const TensorSpec& spec : op_case.tensors) {
    total += aligned(spec.shape.elements() * dtype_size(spec.dtype));
  }
  return total;
}

template <class T>
void store(T* out, float value) {
  *out = from_float<T>(value);
}

}  // namespace

double element(const TensorView& view, int64_t i) {
  switch (view.dtype) {
    case DType::kFloat32:
      return view.as<float>()[i];
    case DType::kBFloat16:
      return to_float(view.as<BFloat16>()[i]);
    case DType::kFloat16:
      return to_float(view.as<Float16>()[i]);
    default:
      throw std::runtime_error("not a floating tensor");
  }
}

OpBench::OpBench(bool is_quick)
    : is_quick_(is_quick), kernels_(watched(cpu_kernels())), reference_(reference_kernels()) {
  DeviceOptions options;
  device_ = make_device(options);
  arena_ = device_->allocate(kArenaBytes, MemoryCategory::kWorkspace);
  normals_.resize(kNormals);
  fill_normal(stream_key("bench/values", 1), 1.0, 0, kNormals, normals_.data());
}

Views OpBench::views(const OpCase& op_case, int64_t copy) const {
  int64_t offset = copy * case_bytes(op_case);
  Views out;
  for (const TensorSpec& spec : op_case.tensors) {
    out.push_back({arena_.data() + offset, spec.dtype, spec.shape});
    offset += aligned(out.back().bytes());
  }
  return out;
}

void OpBench::fill(const TensorView& view, const TensorSpec& spec, int64_t salt) {
  constexpr int64_t kGrain = 1 << 16;
  device_->pool().run_range(view.elements(), kGrain, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) {
      const float normal =
          normals_[static_cast<size_t>((i + i / kNormals * 7919 + salt * 104729) % kNormals)];
      const float value = spec.scale == 0 ? spec.fill : spec.scale * normal;
      if (spec.dtype == DType::kFloat32) view.as<float>()[i] = value;
      if (spec.dtype == DType::kBFloat16) store(view.as<BFloat16>() + i, value);
      if (spec.dtype == DType::kFloat16) store(view.as<Float16>() + i, value);
    }
  });
}

void OpBench::run_once(const Kernels& kernels, FunctionRef<void(OpContext&)> call) {
  Workspace workspace;
  OpContext context{*device_, kernels, workspace};
  call(context);
  workspace.allocate(&device_->ledger());
  call(context);
}

std::string OpBench::compare(const OpCase& op_case, const Views& got, const Views& want) const {
  for (size_t t = 0; t < got.size(); ++t) {
    const TensorSpec& spec = op_case.tensors[t];
    if (!spec.is_output) continue;
    for (int64_t i = 0; i < got[t].elements(); ++i) {
      const double a = element(got[t], i), b = element(want[t], i);
      if (std::abs(a - b) <= spec.tolerance * (1.0 + std::abs(b))) continue;
      return "tensor " + std::to_string(t) + " element " + std::to_string(i) + " is " +
             json_number(a) + ", the reference has " + json_number(b);
    }
  }
  return "";
}

OpWork OpBench::call_once(const OpCase& op_case) {
  const Views first = views(op_case, 0);
  forget_ops();
  watch_ops(true);
  run_once(kernels_, [&](OpContext& context) { op_case.call(context, first); });
  watch_ops(false);
  const std::vector<OpTotal> totals = op_totals();
  if (totals.size() != 1 || totals[0].calls != 1) {
    throw std::runtime_error(op_case.op + " is not one call of one op");
  }
  return totals[0].work;
}

std::string OpBench::check(const OpCase& op_case, int64_t copies) {
  const Views first = views(op_case, 0);
  if (op_case.check) return op_case.check(first);
  const Views last = views(op_case, copies - 1);
  run_once(reference_, [&](OpContext& context) { op_case.call(context, last); });
  return compare(op_case, first, last);
}

void OpBench::run(const OpCase& op_case) {
  const int64_t bytes = case_bytes(op_case);
  const int64_t fitting = kArenaBytes / bytes;
  int64_t copies =
      op_case.copies != 0 ? op_case.copies : std::max<int64_t>(2, kCopiesBytes / bytes);
  copies = std::min(copies, fitting);
  if (copies < (op_case.check ? 1 : 2)) throw std::runtime_error(op_case.op + " is too large");
  const Views first = views(op_case, 0);
  for (size_t t = 0; t < first.size(); ++t) {
    fill(first[t], op_case.tensors[t], static_cast<int64_t>(t));
  }
  if (op_case.prepare) {
    run_once(kernels_, [&](OpContext& context) { op_case.prepare(context, first); });
  }
  device_->pool().run(copies - 1, [&](int64_t copy, int) {
    std::memcpy(arena_.data() + (copy + 1) * bytes, arena_.data(), static_cast<size_t>(bytes));
  });
  const OpWork work = call_once(op_case);
  const std::string problem = check(op_case, copies);
  if (!problem.empty()) ++wrong_;

  Workspace workspace;
  OpContext context{*device_, kernels_, workspace};
  op_case.call(context, first);
  workspace.allocate(&device_->ledger());
  std::vector<Views> all;
  for (int64_t copy = 0; copy < copies; ++copy) all.push_back(views(op_case, copy));
  Repetition repetition{0.25, 5, 200, 1.0};
  if (is_quick_) repetition = {0.1, 3, 100, 0.4};
  const Samples samples = measure(
      repetition, [&](int64_t i) { op_case.call(context, all[static_cast<size_t>(i % copies)]); });
  print_line(JsonObject()
                 .field("shape", op_case.shape)
                 .field("op", op_case.op)
                 .field("what", op_case.what)
                 .field("pass", op_case.pass)
                 .field("dtype", op_case.dtype == DType::kFloat32 ? "fp32" : "bf16")
                 .field("bound", bound_name(work.bound))
                 .field("flops", work.flops)
                 .field("bytes", work.bytes)
                 .field("kernel", op_case.kernel)
                 .field("seconds", samples.median())
                 .field("spread", samples.spread())
                 .field("runs", samples.seconds.size())
                 .field("wrong", problem));
}

}  // namespace plait::bench

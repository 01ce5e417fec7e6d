#include "engine/trainer/measure_compute.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string_view>
#include <utility>

#include "engine/planner/work.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/span.h"

namespace plait {
namespace {

enum class ProductPass { kForward, kInput, kWeight };

/// A linear as the engine calls it.
struct ProbeShape {
  LinearShape linear;
  bool has_bias = false;
  DType output = DType::kFloat32;

  bool operator==(const ProbeShape& other) const {
    return linear.n == other.linear.n && linear.k == other.linear.k &&
           linear.max_rows == other.linear.max_rows && has_bias == other.has_bias &&
           output == other.output;
  }
  ProductPoint point(ProductPass pass) const {
    ProductPoint point{linear.max_rows, linear.n, linear.k, 1, linear.dtype, 0};
    if (pass == ProductPass::kInput) std::swap(point.n, point.k);
    if (pass == ProductPass::kWeight) {
      point = {linear.n, linear.k, linear.max_rows, 1, linear.dtype, 0};
    }
    return point;
  }
  /// Of weights in both forms, operands and gradients.
  int64_t bytes() const {
    const int64_t weights = linear.n * linear.k, rows = linear.max_rows;
    return 12 * weights + 8 * rows * (linear.n + linear.k) + 8 * linear.n;
  }
};

/// Memory that holds small numbers of any dtype.
TensorView probe_memory(Device& device, std::vector<Buffer>* kept, DType dtype,
                        const Shape& shape) {
  kept->push_back(
      device.allocate(shape.elements() * dtype_size(dtype), MemoryCategory::kWorkspace));
  std::memset(kept->back().data(), 0x3c, static_cast<size_t>(kept->back().bytes()));
  return kept->back().view(dtype, shape);
}

/// A linear with operands of its own, so that the parts of a chain take one another's caches away.
class ProbeLinear {
 public:
  ProbeLinear(OpContext& context, const ProbeShape& shape) : shape_(shape) {
    const LinearShape& s = shape.linear;
    Device& device = context.device;
    const auto take = [&](DType dtype, const Shape& dims) {
      return probe_memory(device, &buffers_, dtype, dims);
    };
    linear_.shape = s;
    linear_.weight = take(s.dtype, {s.n, s.k});
    linear_.plan = make_linear_plan(context, s);
    if (linear_.plan->packed_bytes() > 0) {
      buffers_.push_back(device.allocate(linear_.plan->packed_bytes(), MemoryCategory::kWorkspace));
      linear_.packed = buffers_.back().data();
    }
    x_ = take(s.dtype, {s.max_rows, s.k});
    y_ = take(shape.output, {s.max_rows, s.n});
    grad_x_ = take(s.dtype, {s.max_rows, s.k});
    grad_y_ = take(s.dtype, {s.max_rows, s.n});
    grad_weight_ = take(DType::kFloat32, {s.n, s.k});
    if (!shape.has_bias) return;
    bias_ = take(s.dtype, {s.n});
    grad_bias_ = take(DType::kFloat32, {s.n});
  }
  const ProbeShape& shape() const { return shape_; }
  void pack(OpContext& context) { linear_pack(context, linear_); }
  void run(OpContext& context, ProductPass pass) {
    switch (pass) {
      case ProductPass::kForward:
        return linear_forward(context, linear_, {x_, bias_, y_});
      case ProductPass::kInput:
        return linear_backward_input(context, linear_, {grad_y_, grad_x_});
      case ProductPass::kWeight:
        return linear_backward_weight(
            context, linear_, {grad_y_, x_, grad_weight_, grad_bias_, GradientMode::kAccumulate});
    }
  }

 private:
  ProbeShape shape_;
  std::vector<Buffer> buffers_;
  LinearWeight linear_;
  TensorView x_, bias_, y_, grad_x_, grad_y_, grad_weight_, grad_bias_;
};

constexpr double kAttentionPasses = 3.5;  // backward takes two and a half times forward

/// The causal half.
double forward_flops(const AttentionShape& shape) {
  return 2 * static_cast<double>(shape.batch * shape.heads * shape.head_size) *
         static_cast<double>(shape.sequence) * static_cast<double>(shape.sequence);
}

struct ProbeAttention {
  AttentionShape shape;
  std::vector<Buffer> buffers;
  AttentionForward forward;
  AttentionBackward backward;

  ProbeAttention(Device& device, const AttentionShape& s, DType dtype) : shape(s) {
    const auto take = [&](DType type, const Shape& dims) {
      return probe_memory(device, &buffers, type, dims);
    };
    const int64_t rows = s.batch * s.sequence;
    const Shape fused = {rows, (s.heads + 2 * s.key_value_heads) * s.head_size};
    const Shape output = {rows, s.heads * s.head_size};
    forward.shape = s;
    forward.qkv = take(dtype, fused);
    forward.y = take(dtype, output);
    forward.log_sum = take(DType::kFloat32, {s.batch, s.heads, s.sequence});
    backward.shape = s;
    backward.qkv = forward.qkv;
    backward.y = forward.y;
    backward.log_sum = forward.log_sum;
    backward.grad_y = take(dtype, output);
    backward.grad_qkv = take(dtype, fused);
  }
  double flops() const { return forward_flops(shape); }
};

struct ProbeProduct {
  ProbeShape shape;
  ProductPass pass = ProductPass::kForward;
};

/// The linear whose pass is this product.
ProbeProduct probe_product(const Work& work, ProductPass pass, DType dtype, bool is_gpt2) {
  ProbeProduct product;
  LinearShape& linear = product.shape.linear;
  switch (pass) {
    case ProductPass::kForward:
      linear = {work.n, work.k, dtype, work.m};
      break;
    case ProductPass::kInput:
      linear = {work.k, work.n, dtype, work.m};
      break;
    case ProductPass::kWeight:
      linear = {work.m, work.n, dtype, work.k};
      break;
  }
  const bool is_head = std::string_view(work.name) == "head";
  product.shape.has_bias = is_gpt2 && !is_head;
  product.shape.output = is_head ? DType::kFloat32 : dtype;
  product.pass = pass;
  return product;
}

/// Products of a layer and the head in the engine's order, each once.
std::vector<ProbeProduct> list_products(const Job& job, const ComputeCase& at) {
  Job one = job;
  one.model.layers = 1;
  LayoutConfig layout;
  layout.tensor = at.tensor;
  layout.micro_batch = at.micro_batch;
  const StageWork work = stage_work(one, layout, 0);
  const bool is_gpt2 = job.model.family == FamilyChoice::kGpt2;
  std::vector<ProbeProduct> products;
  size_t head = 0;
  const auto add = [&](const WorkList& list, ProductPass pass) {
    for (const Work& item : list) {
      if (item.kind != WorkKind::kProduct) continue;
      // A chunk of the head runs its three passes in turn.
      const bool is_head = std::string_view(item.name) == "head";
      const ProductPass own = is_head ? static_cast<ProductPass>(head++ % 3) : pass;
      const ProbeProduct product = probe_product(item, own, job.precision.compute, is_gpt2);
      const bool is_known = std::any_of(products.begin(), products.end(), [&](const auto& other) {
        return other.shape == product.shape && other.pass == product.pass;
      });
      if (!is_known) products.push_back(product);
    }
  };
  add(work.forward, ProductPass::kForward);
  add(work.backward_input, ProductPass::kInput);
  add(work.backward_weight, ProductPass::kWeight);
  return products;
}

/// All three passes of linears of common sizes.
std::vector<ProbeProduct> common_products(DType dtype) {
  constexpr int64_t kRows = 256;
  std::vector<ProbeProduct> products;
  constexpr std::pair<int64_t, int64_t> kWidths[] = {{256, 128}, {512, 512}, {256, 2048}};
  for (const auto& [n, k] : kWidths) {
    for (const ProductPass pass :
         {ProductPass::kForward, ProductPass::kInput, ProductPass::kWeight}) {
      products.push_back({{{n, k, dtype, kRows}, false, dtype}, pass});
    }
  }
  return products;
}

AttentionShape attention_shape(const Job& job, const ComputeCase& at) {
  const int64_t lanes = std::max<int64_t>(job.precision.canonical_tensor / at.tensor, 1);
  const int64_t parts = at.tensor * lanes;
  return {at.micro_batch,          job.train.sequence_length,
          job.model.heads / parts, std::max<int64_t>(job.model.key_value_heads / parts, 1),
          job.model.head_size,     0};
}

/// What runs one after the other and is timed part by part.
class ProbeChain {
 public:
  ProbeChain(MeasureRank& rank, const Kernels& kernels, const std::vector<ProbeProduct>& products,
             const AttentionShape* attention, DType dtype)
      : rank_(rank), context_{rank.device(), kernels, workspace_, rank.is_aborted(), nullptr} {
    for (const ProbeProduct& product : products) {
      ProbeLinear* linear = find(product.shape);
      parts_.push_back([this, linear, pass = product.pass] { linear->run(context_, pass); });
    }
    if (attention != nullptr) {
      attention_ = std::make_unique<ProbeAttention>(rank.device(), *attention, dtype);
      parts_.push_back([this] { attention_forward(context_, attention_->forward); });
      parts_.push_back([this] { attention_backward(context_, attention_->backward); });
    }
    // Once without computing, to learn how much scratch memory they take.
    for (const auto& part : parts_) part();
    workspace_.allocate(&rank.device().ledger());
    for (const auto& linear : linears_) linear->pack(context_);
  }
  std::vector<double> time(const MeasureEffort& effort) {
    return rank_.time_parts(effort, parts_.size(), [this](size_t part) { parts_[part](); });
  }
  double attention_flops() const { return attention_->flops(); }

 private:
  ProbeLinear* find(const ProbeShape& shape) {
    for (const auto& linear : linears_) {
      if (linear->shape() == shape) return linear.get();
    }
    linears_.push_back(std::make_unique<ProbeLinear>(context_, shape));
    return linears_.back().get();
  }

  MeasureRank& rank_;
  Workspace workspace_;
  OpContext context_;
  std::vector<std::unique_ptr<ProbeLinear>> linears_;
  std::unique_ptr<ProbeAttention> attention_;
  std::vector<std::function<void()>> parts_;
};

/// FLOPs and seconds of attention, over all cases.
struct AttentionSums {
  double flops = 0, forward_seconds = 0, backward_seconds = 0;
};

double chain_seconds(const std::vector<ProbeProduct>& products, double rate) {
  double flops = 0;
  for (const ProbeProduct& product : products) {
    flops += product_flops(product.shape.point(product.pass));
  }
  return flops / rate;
}

int64_t chain_bytes(const std::vector<ProbeProduct>& products) {
  int64_t bytes = 0;
  for (const ProbeProduct& product : products) {
    if (product.pass == ProductPass::kForward) bytes += product.shape.bytes();
  }
  return bytes;
}

void add_points(const std::vector<ProbeProduct>& products, const std::vector<double>& seconds,
                std::vector<ProductPoint>* points) {
  for (size_t i = 0; i < products.size(); ++i) {
    points->push_back(products[i].shape.point(products[i].pass));
    points->back().seconds = seconds[i];
  }
}

/// One case, unless it takes too much memory or time.
void measure_case(MeasureRank& rank, const Kernels& kernels, const ComputeProbe& probe,
                  const ComputeCase& at, double rate, std::vector<ProductPoint>* points,
                  AttentionSums* sums) {
  const std::vector<ProbeProduct> products = list_products(*probe.job, at);
  if (chain_bytes(products) > probe.most_bytes) return;
  const AttentionShape attention = attention_shape(*probe.job, at);
  const double seconds_of_attention = kAttentionPasses * forward_flops(attention) / rate;
  if (chain_seconds(products, rate) + seconds_of_attention > probe.effort.longest) return;
  ProbeChain chain(rank, kernels, products, &attention, probe.dtype);
  const std::vector<double> seconds = chain.time(probe.effort);
  if (seconds.empty()) return;
  add_points(products, seconds, points);
  sums->flops += chain.attention_flops();
  sums->forward_seconds += seconds[products.size()];
  sums->backward_seconds += seconds[products.size() + 1];
}

void measure_streams(MeasureRank& rank, const Kernels& kernels, const ComputeProbe& probe,
                     ComputeCosts* costs) {
  constexpr int64_t kSpan = int64_t{8} << 20;
  const int64_t elements = std::min(kSpan, probe.most_bytes / 8);
  std::vector<Buffer> buffers;
  const TensorView from = probe_memory(rank.device(), &buffers, DType::kFloat32, {elements});
  const TensorView to = probe_memory(rank.device(), &buffers, DType::kFloat32, {elements});
  Workspace workspace;
  OpContext context{rank.device(), kernels, workspace, rank.is_aborted(), nullptr};
  convert_span(context, from, to);
  add_span(context, from, to);
  workspace.allocate(&rank.device().ledger());
  const auto bytes = static_cast<double>(elements * 4);
  costs->copy_bytes_per_second =
      2 * bytes / rank.time(probe.effort, [&] { convert_span(context, from, to); });
  costs->add_bytes_per_second =
      3 * bytes / rank.time(probe.effort, [&] { add_span(context, from, to); });
}

}  // namespace

std::vector<ComputeCase> compute_cases(const Job& job, const LayoutConfig& layout, int64_t world) {
  const ModelConfig& model = job.model;
  const auto divides = [&](int64_t t) {
    const bool has_lanes =
        job.precision.canonical_tensor % t == 0 || t % job.precision.canonical_tensor == 0;
    return model.heads % t == 0 && model.feed_forward % t == 0 && has_lanes &&
           (model.key_value_heads % t == 0 || t % model.key_value_heads == 0);
  };
  std::vector<int64_t> degrees, batches;
  const auto add = [](std::vector<int64_t>* to, int64_t value) {
    if (std::find(to->begin(), to->end(), value) == to->end()) to->push_back(value);
  };
  if (divides(layout.tensor)) degrees.push_back(layout.tensor);
  for (int64_t t = 1; t <= world; ++t) {
    if (world % t == 0 && divides(t)) add(&degrees, t);
  }
  batches.push_back(layout.micro_batch);
  for (const int64_t b : {1, 2, 4}) {
    if (b <= job.train.global_batch) add(&batches, b);
  }
  std::vector<ComputeCase> cases;
  for (const int64_t b : batches) {
    for (const int64_t t : degrees) cases.push_back({t, b});
  }
  return cases;
}

ComputeCosts measure_compute(MeasureRank& rank, const ComputeProbe& probe) {
  const Kernels kernels = cpu_kernels();
  ComputeCosts costs;
  measure_streams(rank, kernels, probe, &costs);
  std::vector<ProductPoint> points;
  const std::vector<ProbeProduct> common = common_products(probe.dtype);
  ProbeChain chain(rank, kernels, common, nullptr, probe.dtype);
  MeasureEffort patient = probe.effort;
  patient.longest = std::numeric_limits<double>::infinity();
  add_points(common, chain.time(patient), &points);
  const double rate = fit_products(points).rate;
  AttentionSums attention;
  double begin = rank.now();
  for (const ComputeCase& at : probe.cases) {
    double passed = rank.now() - begin;
    rank.agree({&passed, 1});
    if (passed > probe.most_seconds) break;
    measure_case(rank, kernels, probe, at, rate, &points, &attention);
  }
  costs.points = merge_points(points);
  costs.products = fit_products(costs.points);
  if (attention.flops > 0) {
    costs.attention_forward_rate = attention.flops / attention.forward_seconds;
    costs.attention_backward_rate = 2.5 * attention.flops / attention.backward_seconds;
  }
  return costs;
}

}  // namespace plait

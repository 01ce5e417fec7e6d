#include "tests/bench/op_watch.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <deque>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>

#include "kernels/ops/activation.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/attention.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/linear.h"
#include "kernels/ops/residual_norm.h"
#include "kernels/ops/rotary.h"
#include "kernels/ops/span.h"
#include "tests/bench/measure.h"

namespace plait::bench {
namespace {

std::atomic<int64_t> pack_count{0};
std::atomic<int64_t> pack_bytes{0};

/// Totals of a watch. Room is fixed: a step allocates nothing.
struct Watch {
  std::atomic<bool> is_on{false};
  std::thread::id thread;  // of the calls
  std::array<OpTotal, 64> totals;
  size_t count = 0;

  OpTotal& find(const char* op, const char* pass, int64_t n, int64_t k) {
    if (count == 0) thread = std::this_thread::get_id();
    if (thread != std::this_thread::get_id()) {
      throw std::runtime_error("ops of two threads cannot be timed by one clock");
    }
    for (size_t i = 0; i < count; ++i) {
      OpTotal& total = totals[i];
      if (total.n == n && total.k == k && std::string_view(total.op) == op &&
          std::string_view(total.pass) == pass) {
        return total;
      }
    }
    if (count == totals.size()) throw std::runtime_error("no room for so many kinds of ops");
    totals[count] = {op, pass, n, k, {}, 0, 0};
    return totals[count++];
  }
};

Watch watch;

/// One call, from its construction to the end of the scope.
class Call {
 public:
  Call(const char* op, const char* pass, const OpWork& work, int64_t n = 0, int64_t k = 0) {
    if (!watch.is_on.load(std::memory_order_relaxed)) return;
    total_ = &watch.find(op, pass, n, k);
    total_->work.bound = work.bound;
    total_->work.flops += work.flops;
    total_->work.bytes += work.bytes;
    ++total_->calls;
    begin_ = now();
  }
  ~Call() {
    if (total_ != nullptr) total_->seconds += now() - begin_;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  OpTotal* total_ = nullptr;
  double begin_ = 0;
};

/// Of those that are there.
double bytes_of(std::initializer_list<const TensorView*> views) {
  int64_t total = 0;
  for (const TensorView* view : views) {
    if (view->is_present()) total += view->bytes();
  }
  return static_cast<double>(total);
}

OpWork moved(Bound bound, std::initializer_list<const TensorView*> views) {
  return {bound, 0, bytes_of(views)};
}

OpWork product(const LinearShape& shape, const TensorView& rows) {
  return {shape.dtype == DType::kFloat32 ? Bound::kFp32Product : Bound::kBf16Product,
          2.0 * static_cast<double>(rows.rows()) * static_cast<double>(shape.n) *
              static_cast<double>(shape.k),
          0};
}

class WatchedPlan final : public LinearPlan {
 public:
  WatchedPlan(const LinearShape& shape, std::unique_ptr<LinearPlan> plan)
      : shape_(shape), plan_(std::move(plan)) {}
  const char* name() const override { return plan_->name(); }
  int64_t packed_bytes() const override { return plan_->packed_bytes(); }
  int64_t workspace_bytes(int64_t rows, int threads) const override {
    return plan_->workspace_bytes(rows, threads);
  }
  void pack(OpContext& context, TensorView weight, void* packed) const override {
    pack_count.fetch_add(1, std::memory_order_relaxed);
    pack_bytes.fetch_add(plan_->packed_bytes(), std::memory_order_relaxed);
    OpWork work = moved(Bound::kTriad, {&weight});
    work.bytes += static_cast<double>(plan_->packed_bytes());
    const Call call("linear", "pack", work, shape_.n, shape_.k);
    plan_->pack(context, weight, packed);
  }
  void forward(OpContext& context, TensorView weight, const void* packed, const LinearForward& a,
               void* workspace) const override {
    const Call call("linear", "forward", product(shape_, a.x), shape_.n, shape_.k);
    plan_->forward(context, weight, packed, a, workspace);
  }
  void backward_input(OpContext& context, TensorView weight, const void* packed,
                      const LinearBackwardInput& a, void* workspace) const override {
    const Call call("linear", "backward input", product(shape_, a.grad_y), shape_.n, shape_.k);
    plan_->backward_input(context, weight, packed, a, workspace);
  }
  void backward_weight(OpContext& context, const LinearBackwardWeight& a,
                       void* workspace) const override {
    const Call call("linear", "backward weight", product(shape_, a.grad_y), shape_.n, shape_.k);
    plan_->backward_weight(context, a, workspace);
  }

 private:
  LinearShape shape_;
  std::unique_ptr<LinearPlan> plan_;
};

/// What every watched implementation passes on. `Kernel` has `supports` of these arguments.
template <class Kernel, class... Supports>
class WatchedKernel : public Kernel {
 public:
  explicit WatchedKernel(const Kernel& kernel) : kernel_(kernel) {}
  const char* name() const override { return kernel_.name(); }
  bool supports(Supports... call) const override { return kernel_.supports(call...); }

 protected:
  const Kernel& kernel_;
};

class WatchedLinear final : public WatchedKernel<LinearKernel, const LinearShape&, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  std::unique_ptr<LinearPlan> plan(const LinearShape& shape, IsaLevel isa) const override {
    return std::make_unique<WatchedPlan>(shape, kernel_.plan(shape, isa));
  }
};

class WatchedNorm final : public WatchedKernel<ResidualNormKernel, DType, DType, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  int64_t workspace_bytes(int64_t rows, int64_t hidden) const override {
    return kernel_.workspace_bytes(rows, hidden);
  }
  void forward(OpContext& context, const ResidualNormForward& a) const override {
    const Call call("residual_norm", "forward",
                    moved(Bound::kTriad, {&a.x, &a.delta, &a.sum, &a.y, &a.statistics}));
    kernel_.forward(context, a);
  }
  void backward(OpContext& context, const ResidualNormBackward& a, void* workspace) const override {
    const Call call("residual_norm", "backward",
                    moved(Bound::kTriad, {&a.grad_y, &a.grad_sum, &a.sum, &a.grad_x, &a.grad_delta,
                                          &a.statistics}));
    kernel_.backward(context, a, workspace);
  }
};

class WatchedActivation final : public WatchedKernel<ActivationKernel, DType, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  void forward(OpContext& context, const ActivationForward& a) const override {
    const Call call("activation", "forward", moved(Bound::kTriad, {&a.u, &a.y}));
    kernel_.forward(context, a);
  }
  void backward(OpContext& context, const ActivationBackward& a) const override {
    const Call call("activation", "backward", moved(Bound::kTriad, {&a.u, &a.grad_y, &a.grad_u}));
    kernel_.backward(context, a);
  }
};

class WatchedRotary final : public WatchedKernel<RotaryKernel, DType, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  void run(OpContext& context, const Rotary& a) const override {
    const int64_t columns = (a.heads + a.key_value_heads) * a.head_size;
    const int64_t bytes = 2 * a.qkv.rows() * columns * dtype_size(a.qkv.dtype);
    const Call call("rotary", a.is_inverse ? "backward" : "forward",
                    {Bound::kTriadPastCache, 0, static_cast<double>(bytes)});  // in place
    kernel_.run(context, a);
  }
};

class WatchedAttention final
    : public WatchedKernel<AttentionKernel, const AttentionShape&, DType, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  int64_t workspace_bytes(const AttentionShape& shape, DType dtype, int threads) const override {
    return kernel_.workspace_bytes(shape, dtype, threads);
  }
  void forward(OpContext& context, const AttentionForward& a, void* workspace) const override {
    const Call call("attention", "forward", triangle(a.shape, 1));
    kernel_.forward(context, a, workspace);
  }
  void backward(OpContext& context, const AttentionBackward& a, void* workspace) const override {
    const Call call("attention", "backward", triangle(a.shape, 2));
    kernel_.backward(context, a, workspace);
  }

 private:
  static OpWork triangle(const AttentionShape& s, double times) {
    const double length = static_cast<double>(s.sequence);
    return {Bound::kFma,
            times * 2.0 * length * length * static_cast<double>(s.head_size * s.heads * s.batch),
            0};
  }
};

class WatchedEmbedding final : public WatchedKernel<EmbeddingKernel, DType, DType, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  int64_t workspace_bytes(int64_t rows, int64_t table_rows) const override {
    return kernel_.workspace_bytes(rows, table_rows);
  }
  void forward(OpContext& context, const EmbeddingForward& a) const override {
    OpWork work = moved(Bound::kTriad, {&a.y});
    const DType dtype = a.token_rows.is_present() ? a.token_rows.dtype : a.token_weight.dtype;
    int64_t rows = a.y.rows();
    if (a.position_weight.is_present()) rows += positions(a.position_weight, a.y, a.sequence);
    work.bytes += static_cast<double>(rows * a.y.columns() * dtype_size(dtype));
    const Call call("embedding", "forward", work);
    kernel_.forward(context, a);
  }
  void backward(OpContext& context, const EmbeddingBackward& a, void* workspace) const override {
    OpWork work = moved(Bound::kTriadPastCache, {&a.grad_y});  // in place
    work.bytes += gradient(a.grad_token, a.mode, a.grad_y.rows());
    if (a.grad_position.is_present()) {
      work.bytes +=
          gradient(a.grad_position, a.mode, positions(a.grad_position, a.grad_y, a.sequence));
    }
    const Call call("embedding", "backward", work);
    kernel_.backward(context, a, workspace);
  }

 private:
  static int64_t positions(const TensorView& table, const TensorView& rows, int64_t sequence) {
    return std::min({table.rows(), rows.rows(), sequence});
  }
  /// No id counts as named twice: rows that are added to are read and written, a table that is
  /// replaced is written whole.
  static double gradient(const TensorView& table, GradientMode mode, int64_t rows) {
    if (!table.is_present()) return 0;
    if (mode == GradientMode::kOverwrite) return bytes_of({&table});
    return static_cast<double>(2 * rows * table.columns() * dtype_size(table.dtype));
  }
};

class WatchedCrossEntropy final : public WatchedKernel<CrossEntropyKernel, DType, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  void statistics(OpContext& context, const CrossEntropyStatistics& a) const override {
    const Call call("cross_entropy", "statistics", moved(Bound::kTriadPastCache, {&a.logits}));
    kernel_.statistics(context, a);
  }
  void gradient(OpContext& context, const CrossEntropyGradient& a) const override {
    const Call call("cross_entropy", "gradient", moved(Bound::kTriad, {&a.logits, &a.grad}));
    kernel_.gradient(context, a);
  }
};

class WatchedAdamW final : public WatchedKernel<AdamWKernel, DType, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  void run(OpContext& context, const AdamW& a) const override {
    OpWork work = moved(Bound::kTriadPastCache, {&a.master, &a.master, &a.moment1, &a.moment1,
                                                 &a.moment2, &a.moment2, &a.gradient});
    if (a.weight.data != a.master.data) work.bytes += bytes_of({&a.weight});
    const Call call("adamw", "update", work);
    kernel_.run(context, a);
  }
};

class WatchedSpan final : public WatchedKernel<SpanKernel, DType, IsaLevel> {
 public:
  using WatchedKernel::WatchedKernel;
  void convert(OpContext& context, TensorView from, TensorView to) const override {
    const Call call("span", "convert", moved(Bound::kTriad, {&from, &to}));
    kernel_.convert(context, from, to);
  }
  void add(OpContext& context, TensorView from, TensorView to) const override {
    const Call call("span", "add", moved(Bound::kTriadPastCache, {&from, &to, &to}));
    kernel_.add(context, from, to);
  }
  double sum_squares(OpContext& context, TensorView span, double* block_sums) const override {
    const Call call("span", "sum of squares", moved(Bound::kTriadPastCache, {&span}));
    return kernel_.sum_squares(context, span, block_sums);
  }
};

/// The implementations of a list, each behind one `Watched`.
template <class Watched, class Kernel>
std::vector<const Kernel*> behind(const std::vector<const Kernel*>& list) {
  static std::mutex mutex;
  static std::deque<Watched> kept;
  const std::lock_guard lock(mutex);
  std::vector<const Kernel*> out;
  for (const Kernel* kernel : list) out.push_back(&kept.emplace_back(*kernel));
  return out;
}

}  // namespace

const char* bound_name(Bound bound) {
  switch (bound) {
    case Bound::kFp32Product:
      return "fp32 product";
    case Bound::kBf16Product:
      return "bf16 product";
    case Bound::kFma:
      return "fma";
    case Bound::kTriad:
      return "triad";
    case Bound::kTriadPastCache:
      return "triad past cache";
  }
  return "";
}

Kernels watched(const Kernels& kernels) {
  Kernels out = kernels;
  out.linear = behind<WatchedLinear>(kernels.linear);
  out.residual_norm = behind<WatchedNorm>(kernels.residual_norm);
  out.activation = behind<WatchedActivation>(kernels.activation);
  out.rotary = behind<WatchedRotary>(kernels.rotary);
  out.attention = behind<WatchedAttention>(kernels.attention);
  out.embedding = behind<WatchedEmbedding>(kernels.embedding);
  out.cross_entropy = behind<WatchedCrossEntropy>(kernels.cross_entropy);
  out.adamw = behind<WatchedAdamW>(kernels.adamw);
  out.span = behind<WatchedSpan>(kernels.span);
  return out;
}

void watch_ops(bool is_on) { watch.is_on.store(is_on); }
void forget_ops() { watch.count = 0; }

std::vector<OpTotal> op_totals() {
  return {watch.totals.begin(), watch.totals.begin() + static_cast<int64_t>(watch.count)};
}

int64_t packs() { return pack_count.load(); }
int64_t packed_bytes() { return pack_bytes.load(); }

}  // namespace plait::bench

// Matrix products by oneDNN, which takes dense operands of fixed sizes: rows are cut into pieces of
// a few sizes whose primitives are made with the plan. The cuts follow the shape alone.
//
// oneDNN computes in the threads of our pool, one piece each, with OpenMP held to one thread.
// Packed form: the weight for the forward pass, then for the gradient of the input, each in the
// layout that oneDNN asked for.
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <vector>

#include "kernels/base/error.h"
#include "kernels/cpu/linear.h"
#include "kernels/cpu/linear_code.h"
#include "kernels/cpu/linear_onednn_products.h"
#include "kernels/cpu/linear_tiles.h"

namespace plait {
namespace {

constexpr int64_t kAlignment = 64;

/// Holds OpenMP to one thread in the calling thread, for as long as it lives.
class SingleThread {
 public:
  SingleThread() : before_(omp_get_max_threads()) { omp_set_num_threads(1); }
  ~SingleThread() { omp_set_num_threads(before_); }
  SingleThread(const SingleThread&) = delete;
  SingleThread& operator=(const SingleThread&) = delete;

 private:
  const int before_;
};

/// Runs `make`; what oneDNN reports becomes an Error.
template <class Make>
auto guarded(const Make& make) {
  const SingleThread single;
  try {
    return make();
  } catch (const dnnl::error& error) {
    if (error.status == dnnl_out_of_memory) {
      throw Error("no_memory", "oneDNN found no memory for a matrix product");
    }
    throw Error("invariant", "oneDNN refused a matrix product").with("reason", error.message);
  }
}

class OneDnnPlan final : public LinearPlan {
 public:
  OneDnnPlan(const LinearShape& shape, IsaLevel isa)
      : shape_(shape),
        code_(linear_code(isa)),
        forward_(shape, RowProducts::Pass::kForward),
        backward_input_(shape, RowProducts::Pass::kBackwardInput),
        backward_weight_(shape),
        zeros_(static_cast<size_t>(shape.n), 0.0f) {}

  const char* name() const override { return "onednn"; }

  int64_t packed_bytes() const override {
    return forward_.packed_bytes() + backward_input_.packed_bytes();
  }

  void pack(OpContext& context, TensorView weight, void* packed) const override {
    run(context, 2, [&](dnnl::stream& stream, int64_t chunk, int) {
      char* own = static_cast<char*>(packed) + (chunk == 0 ? 0 : forward_.packed_bytes());
      (chunk == 0 ? forward_ : backward_input_).pack(stream, weight.data, own);
    });
  }

  int64_t workspace_bytes(int64_t /*rows*/, int threads) const override {
    return thread_bytes() * threads;
  }

  void forward(OpContext& context, TensorView /*weight*/, const void* packed,
               const LinearForward& a, void* workspace) const override {
    const void* bias = a.bias.is_present() ? a.bias.data : zeros_.data();
    const Pieces pieces = RowProducts::pieces(a.x.rows());
    run(context, pieces.count(), [&](dnnl::stream& stream, int64_t chunk, int worker) {
      forward_.run(stream, pieces.at(chunk),
                   {a.x.data, packed, bias, a.y.data, scratch(workspace, worker)}, a.y.dtype);
    });
  }

  void backward_input(OpContext& context, TensorView /*weight*/, const void* packed,
                      const LinearBackwardInput& a, void* workspace) const override {
    const void* own = static_cast<const char*>(packed) + forward_.packed_bytes();
    const Pieces pieces = RowProducts::pieces(a.grad_y.rows());
    run(context, pieces.count(), [&](dnnl::stream& stream, int64_t chunk, int worker) {
      backward_input_.run(stream, pieces.at(chunk),
                          {a.grad_y.data, own, nullptr, a.grad_x.data, scratch(workspace, worker)},
                          a.grad_x.dtype);
    });
  }

  void backward_weight(OpContext& context, const LinearBackwardWeight& a,
                       void* workspace) const override {
    run(context, backward_weight_.tiles(), [&](dnnl::stream& stream, int64_t tile, int worker) {
      char* own = scratch(workspace, worker);
      char* copy = own + thread_bytes() - backward_weight_.copy_bytes();
      backward_weight_.run(stream, a, tile, copy, own);
      if (a.grad_bias.is_present()) sum_bias(a, tile);
    });
  }

 private:
  int64_t thread_bytes() const {
    const int64_t most = std::max({forward_.scratch_bytes(), backward_input_.scratch_bytes(),
                                   backward_weight_.scratch_bytes()});
    return round_up(most, kAlignment) + backward_weight_.copy_bytes();
  }

  char* scratch(void* workspace, int worker) const {
    return static_cast<char*>(workspace) + worker * thread_bytes();
  }

  void sum_bias(const LinearBackwardWeight& a, int64_t tile) const {
    const int64_t first = tile * WeightProducts::kTileRows;
    const int64_t width = std::min(WeightProducts::kTileRows, shape_.n - first);
    float* bias = a.grad_bias.as<float>() + first;
    if (a.mode == GradientMode::kOverwrite) std::fill_n(bias, width, 0.0f);
    const MatrixRows grad_y{a.grad_y.data, shape_.dtype, shape_.n, shape_.n};
    code_.add_rows(grad_y.at(0, first), a.grad_y.rows(), width, bias);
  }

  /// body(stream, chunk, worker) in the threads of the pool.
  template <class Body>
  void run(OpContext& context, int64_t chunks, const Body& body) const {
    std::atomic<int> failure{dnnl_success};
    context.pool().run(chunks, [&](int64_t chunk, int worker) {
      const SingleThread single;
      try {
        dnnl::stream stream(onednn_engine());
        body(stream, chunk, worker);
        stream.wait();
      } catch (const dnnl::error& error) {
        failure = error.status;
      } catch (const std::bad_alloc&) {
        failure = dnnl_out_of_memory;
      }
    });
    if (failure == dnnl_success) return;
    throw Error(failure == dnnl_out_of_memory ? "no_memory" : "invariant",
                "oneDNN failed in a matrix product")
        .with("status", int64_t{failure.load()});
  }

  const LinearShape shape_;
  const LinearCode& code_;
  const RowProducts forward_;
  const RowProducts backward_input_;
  const WeightProducts backward_weight_;
  const std::vector<float> zeros_;  // the bias of a call without one, in any dtype
};

/// oneDNN looks at the machine itself, so it serves only engines that use all that the machine has.
class OneDnnKernel : public LinearKernel {
 public:
  const char* name() const override { return "onednn"; }
  bool supports(const LinearShape& shape, IsaLevel isa) const override {
    if (isa != detected_isa().level) return false;
    if (shape.dtype == DType::kFloat32) return isa >= IsaLevel::kAvx2;
    return shape.dtype == DType::kBFloat16 && isa >= IsaLevel::kAvx512;
  }
  std::unique_ptr<LinearPlan> plan(const LinearShape& shape, IsaLevel isa) const override {
    return guarded([&] { return std::make_unique<OneDnnPlan>(shape, isa); });
  }
};

class OneDnnTilesKernel final : public OneDnnKernel {
 public:
  bool supports(const LinearShape& shape, IsaLevel isa) const override {
    return isa == IsaLevel::kAmx && shape.dtype == DType::kBFloat16 &&
           OneDnnKernel::supports(shape, isa);
  }
  /// Vector code where oneDNN has no form of one of the pieces: the plan's name tells.
  std::unique_ptr<LinearPlan> plan(const LinearShape& shape, IsaLevel isa) const override {
    try {
      const SingleThread single;
      return std::make_unique<OneDnnPlan>(shape, isa);
    } catch (const dnnl::error& error) {
      if (error.status != dnnl_unimplemented) return OneDnnKernel::plan(shape, isa);
    }
    return fma_linear_kernel().plan(shape, isa);
  }
};

}  // namespace

const LinearKernel& onednn_linear_kernel() {
  static const OneDnnKernel kernel;
  return kernel;
}

const LinearKernel& onednn_tiles_linear_kernel() {
  static const OneDnnTilesKernel kernel;
  return kernel;
}

}  // namespace plait

// What the tests of ops share: host tensors with guard bytes, a runner that makes both passes of a
// call, seeded random values, numeric gradients, and comparisons that name the first difference.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/function_ref.h"
#include "kernels/ops/context.h"
#include "kernels/ops/kernels.h"

namespace plait {

/// An owned tensor, full of NaN at first, between guard bytes.
class HostTensor {
 public:
  HostTensor() = default;
  /// At a 64-byte boundary, or (`is_misaligned`) one element past it.
  HostTensor(DType dtype, const Shape& shape, bool is_misaligned = false);
  HostTensor(DType dtype, const Shape& shape, const std::vector<double>& values);

  TensorView view() const { return {data_, dtype_, shape_}; }
  int64_t elements() const { return shape_.elements(); }
  double at(int64_t i) const;
  void set(int64_t i, double value);
  void fill(double value);
  std::vector<double> values() const;
  /// The same values under another dtype.
  HostTensor cast(DType dtype) const { return HostTensor(dtype, shape_, values()); }
  /// A copy with memory of its own.
  HostTensor copy() const;
  bool same_bits(const HostTensor& other) const;
  /// No byte next to the tensor was written.
  bool is_guarded() const;

 private:
  std::shared_ptr<std::vector<char>> bytes_;
  char* data_ = nullptr;
  DType dtype_ = DType::kFloat32;
  Shape shape_;
};

/// Normal values times `scale`, the same for the same seed.
HostTensor random_tensor(DType dtype, const Shape& shape, uint64_t seed, double scale = 1.0,
                         bool is_misaligned = false);
/// `count` ids in [0, end).
std::vector<int32_t> random_ids(int64_t count, int64_t end, uint64_t seed);

/// One device and one list of implementations.
class OpRunner {
 public:
  explicit OpRunner(Kernels kernels, IsaLevel isa = IsaLevel::kBaseline, int threads = 1);
  /// Runs `call` in a measuring pass, then for real in a workspace that is full of NaN and just as
  /// large as was measured.
  void run(FunctionRef<void(OpContext&)> call);
  Device& device() { return *device_; }
  const Kernels& kernels() const { return kernels_; }

 private:
  Kernels kernels_;
  std::unique_ptr<Device> device_;
};

/// The reference implementations on one thread.
OpRunner& reference_runner();

using Model = std::function<std::vector<double>(const std::vector<double>&)>;

/// Gradient at `x` of Σ seed · model(x), by central differences in fp64.
std::vector<double> numeric_gradient(const Model& model, std::vector<double> x,
                                     const std::vector<double>& seed, double step = 1e-5);

std::vector<double> join(const std::vector<const HostTensor*>& tensors);

/// "" when every element is within absolute + relative · |want| or the same infinity, else the
/// first that is not. NaN is never near anything.
std::string difference(const std::vector<double>& got, const std::vector<double>& want,
                       double absolute, double relative = 0.0);

/// Relative spacing of a dtype's numbers: 2⁻²³, 2⁻⁷, 2⁻¹⁰.
double spacing(DType dtype);

}  // namespace plait

// Timing of single ops: tensors that lie in several copies, so that what an op reads has left the
// caches, a check of the result before the clock starts, and a JSON line for each case.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "kernels/base/function_ref.h"
#include "kernels/device/device.h"
#include "kernels/ops/context.h"
#include "kernels/ops/kernels.h"
#include "tests/bench/op_watch.h"

namespace plait::bench {

/// One tensor of a case.
struct TensorSpec {
  DType dtype = DType::kFloat32;
  Shape shape;
  float scale = 0;         ///< of normal values; 0: constant `fill`
  float fill = 0;          ///< where scale is 0
  bool is_output = false;  ///< compared with the reference
  float tolerance = 0;     ///< of an output: absolute, and relative to the wanted value
};

using Views = std::vector<TensorView>;
using OpCall = std::function<void(OpContext&, const Views&)>;

struct OpCase {
  std::string shape;  ///< "b4", "c", "d" or "flat"
  std::string op;
  std::string what;  ///< sizes
  std::string pass;
  DType dtype = DType::kFloat32;
  std::string kernel;  ///< name of the implementation
  std::vector<TensorSpec> tensors;
  /// Run once on the first copy, before it is copied: inputs that take more than normal values.
  OpCall prepare;
  OpCall call;  ///< of one op
  /// "" or what is wrong with the views after one call. Absent: outputs are compared with those of
  /// the reference implementation on the same inputs.
  std::function<std::string(const Views&)> check;
  int64_t copies = 0;  ///< 0: as many as fit
};

class OpBench {
 public:
  explicit OpBench(bool is_quick);
  /// Checks, times and prints.
  void run(const OpCase& op_case);
  Device& device() { return *device_; }
  const Kernels& kernels() const { return kernels_; }
  OpContext context(Workspace& workspace) { return {*device_, kernels_, workspace}; }
  int wrong() const { return wrong_; }
  /// The `call` with measured workspace, by `kernels`.
  void run_once(const Kernels& kernels, FunctionRef<void(OpContext&)> call);

 private:
  Views views(const OpCase& op_case, int64_t copy) const;
  void fill(const TensorView& view, const TensorSpec& spec, int64_t salt);
  std::string compare(const OpCase& op_case, const Views& got, const Views& want) const;
  std::string check(const OpCase& op_case, int64_t copies);
  /// Calls the op once; what it asks for.
  OpWork call_once(const OpCase& op_case);

  bool is_quick_;
  int wrong_ = 0;
  std::unique_ptr<Device> device_;
  Kernels kernels_;
  Kernels reference_;
  Buffer arena_;
  std::vector<float> normals_;
};

/// Value of element i as double.
double element(const TensorView& view, int64_t i);

void run_linear_cases(OpBench& bench);
void run_attention_cases(OpBench& bench);
void run_row_cases(OpBench& bench);
void run_flat_cases(OpBench& bench);

}  // namespace plait::bench

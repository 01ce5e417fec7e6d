// Runs every implementation of an op in the CPU backend's lists, at every instruction-set level of
// this machine and on one, two and three threads, against the reference.
#pragma once

#include <catch2/catch.hpp>
#include <functional>
#include <string>
#include <vector>

#include "kernels/cpu/cpu_kernels.h"
#include "tests/kernels/ops/op_fixture.h"

namespace plait {

/// The lines of the shapes file that start with `op`.
std::vector<std::vector<int64_t>> shapes(const std::string& op);

/// All levels up to what this machine offers.
std::vector<IsaLevel> levels();

/// How close a result is to the reference's.
struct Bound {
  const char* name;
  double absolute = 0.0;
  double relative = 0.0;
};

/// Makes the call and returns its results; called anew for each runner.
using Call = std::function<std::vector<HostTensor>(OpRunner&)>;

/// Fails, naming `where`, unless results are within their bounds of `want` and no guard byte fell.
void check_results(const std::string& where, const std::vector<HostTensor>& got,
                   const std::vector<HostTensor>& want, const std::vector<Bound>& bounds);

/// As above for all implementations of one list for which supports(kernel, level) holds. Results
/// of other numbers of threads are equal bit for bit.
template <class Kernel, class Supports>
void check_all(const std::string& what, std::vector<const Kernel*> Kernels::*list,
               Supports supports, const Call& call, const std::vector<Bound>& bounds) {
  const std::vector<HostTensor> want = call(reference_runner());
  const Kernels all = cpu_kernels();
  for (const Kernel* kernel : all.*list) {
    for (const IsaLevel level : levels()) {
      if (!supports(*kernel, level)) continue;
      std::vector<HostTensor> first;
      for (const int threads : {1, 2, 3}) {
        Kernels only;
        only.*list = {kernel};
        OpRunner runner(only, level, threads);
        const std::vector<HostTensor> got = call(runner);
        const std::string where = what + " by " + kernel->name() + " at " + isa_name(level) +
                                  " on " + std::to_string(threads) + " threads";
        if (first.empty()) check_results(where, got, want, bounds);
        if (first.empty()) first = got;
        for (size_t i = 0; i < got.size(); ++i) {
          if (!got[i].same_bits(first[i]))
            FAIL_CHECK(where << ": other bits in " << bounds[i].name);
        }
      }
    }
  }
}

/// The dtype pairs (compute, residual) that models may use.
std::vector<std::pair<DType, DType>> dtype_pairs();

inline const DType kDTypes[] = {DType::kFloat32, DType::kBFloat16, DType::kFloat16};

/// Largest |value|.
double largest(const HostTensor& tensor);
/// Largest norm of a row of a [rows, columns] tensor, or (`is_down`) of a column.
double largest_norm(const HostTensor& tensor, bool is_down = false);

/// Relative bound for the last rounding to `dtype`: a neighbour is allowed.
double rounding(DType dtype);

}  // namespace plait

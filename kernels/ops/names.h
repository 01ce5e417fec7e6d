// Which implementation serves each op: the lines of the report "kernels".
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "kernels/ops/attention.h"
#include "kernels/ops/context.h"
#include "kernels/ops/linear.h"

namespace plait {

/// What an engine asks of its kernels.
struct KernelNeeds {
  DType compute = DType::kFloat32;
  DType residual = DType::kFloat32;
  /// Every weight matrix with the name that its line carries; equal names with equal
  /// implementations make one line.
  std::vector<std::pair<std::string, LinearShape>> linears;
  AttentionShape attention;
};

/// (op, implementation) in a fixed order; linears as "linear/<name>". "none" where no
/// implementation supports the need.
std::vector<std::pair<std::string, std::string>> chosen_kernels(const OpContext& context,
                                                                const KernelNeeds& needs);

}  // namespace plait

#include "kernels/ops/names.h"

#include <algorithm>

#include "kernels/ops/activation.h"
#include "kernels/ops/adamw.h"
#include "kernels/ops/cross_entropy.h"
#include "kernels/ops/embedding.h"
#include "kernels/ops/kernels.h"
#include "kernels/ops/normal.h"
#include "kernels/ops/residual_norm.h"
#include "kernels/ops/rotary.h"
#include "kernels/ops/span.h"

namespace plait {
namespace {

template <class Kernel, class Supports>
std::string first_name(const std::vector<const Kernel*>& list, Supports supports) {
  for (const Kernel* kernel : list) {
    if (supports(*kernel)) return kernel->name();
  }
  return "none";
}

}  // namespace

std::vector<std::pair<std::string, std::string>> chosen_kernels(const OpContext& context,
                                                                const KernelNeeds& needs) {
  const Kernels& kernels = context.kernels;
  const IsaLevel isa = context.device.isa();
  const auto pair = [&](const auto& kernel) {
    return kernel.supports(needs.compute, needs.residual, isa);
  };
  const auto single = [&](const auto& kernel) { return kernel.supports(needs.compute, isa); };
  std::vector<std::pair<std::string, std::string>> lines;
  lines.emplace_back("embedding", first_name(kernels.embedding, pair));
  lines.emplace_back("residual_norm", first_name(kernels.residual_norm, pair));
  for (const auto& [name, shape] : needs.linears) {
    std::pair<std::string, std::string> line{
        "linear/" + name, first_name(kernels.linear, [&, &wanted = shape](const auto& kernel) {
          return kernel.supports(wanted, isa);
        })};
    if (std::find(lines.begin(), lines.end(), line) == lines.end()) lines.push_back(line);
  }
  lines.emplace_back("rotary", first_name(kernels.rotary, single));
  lines.emplace_back("attention", first_name(kernels.attention, [&](const auto& kernel) {
                       return kernel.supports(needs.attention, needs.compute, isa);
                     }));
  lines.emplace_back("activation", first_name(kernels.activation, single));
  lines.emplace_back("cross_entropy", first_name(kernels.cross_entropy, single));
  lines.emplace_back("adamw", first_name(kernels.adamw, single));
  lines.emplace_back("span", first_name(kernels.span, single));
  lines.emplace_back("normal", first_name(kernels.normal, [&](const auto& kernel) {
                       return kernel.supports(isa);
                     }));
  return lines;
}

}  // namespace plait

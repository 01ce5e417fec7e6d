// How far a prediction is to be believed.
#include <algorithm>
#include <string>
#include <utility>

#include "engine/planner/search.h"
#include "kernels/base/dtype.h"

namespace plait {
namespace {

constexpr double kUncalibratedBand = 0.4;
constexpr double kLeastBand = 0.05;  // what constants fitted to ten rows gave on other rows
constexpr int64_t kNarrowHead = 64;
constexpr int64_t kWholeProducts = 8;  // what widths of 16-bit products should be multiples of
constexpr double kShortStep = 0.5;     // seconds
constexpr double kBeyondRange = 0.02;  // for each range of the calibration that a job leaves

/// Local widths of the products of a layer by what they are made of.
std::vector<std::pair<const char*, int64_t>> product_widths(const ModelConfig& model,
                                                            int64_t tensor) {
  const int64_t queries = model.heads * model.head_size;
  const int64_t keys = 2 * model.key_value_heads * model.head_size;
  return {{"model.head_size", model.head_size},
          {"queries, keys and values", (queries + keys) / tensor},
          {"queries", queries / tensor},
          {"model.feed_forward", model.feed_forward / tensor}};
}

}  // namespace

std::vector<std::string> layout_warnings(const Job& job, const Estimate& estimate) {
  std::vector<std::string> warnings;
  const int64_t t = estimate.layout.tensor, node = job.hardware.node_devices;
  if (t > node) {
    warnings.push_back("layout.tensor " + std::to_string(t) + " is more than the " +
                       std::to_string(node) +
                       " devices of a node: the sums inside each layer cross the fabric");
  }
  if (!job.hardware.points.empty()) return warnings;  // measured shapes need no curve
  const bool is_narrow_type = dtype_size(job.precision.compute) == 2;
  for (const auto& [name, width] : product_widths(job.model, t)) {
    if (!is_narrow_type || width % kWholeProducts == 0) continue;
    warnings.push_back("products of width " + std::to_string(width) + " (" + name +
                       " of a rank), no multiple of " + std::to_string(kWholeProducts) +
                       ", run below every curve");
  }
  if (job.model.head_size < kNarrowHead) {
    warnings.push_back("heads of size " + std::to_string(job.model.head_size) + ", below " +
                       std::to_string(kNarrowHead) + ", run below every curve");
  }
  if (estimate.step_seconds < kShortStep) {
    warnings.push_back(
        "a step below 0.5 s: gaps between operations weigh more than the model knows; measure the "
        "products");
  }
  return warnings;
}

Band band_of(const Job& job) {
  const auto& calibration = job.hardware.calibration;
  if (!calibration || calibration->profile != job.profile.name) {
    std::string reason = calibration ? "calibrated with profile " + calibration->profile +
                                           ", not with " + job.profile.name
                                     : "no calibration of this hardware";
    return {kUncalibratedBand, false, {std::move(reason)}};
  }
  Band band{std::max(calibration->p90_leave_one_out, kLeastBand), true, {}};
  const auto widen = [&](std::string reason) {
    band.relative += kBeyondRange;
    band.reasons.push_back(std::move(reason));
  };
  if (job.world > calibration->largest_world) {
    widen("a world of " + std::to_string(job.world) + " is larger than the calibration's " +
          std::to_string(calibration->largest_world));
  }
  if (dtype_size(job.precision.compute) != dtype_size(calibration->dtype)) {
    widen(std::string("computes in ") + dtype_name(job.precision.compute) + ", calibrated in " +
          dtype_name(calibration->dtype));
  }
  return band;
}

}  // namespace plait

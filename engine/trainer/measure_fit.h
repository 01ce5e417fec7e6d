// From timings to the constants of a description.
#pragma once

#include <span>
#include <vector>

#include "engine/planner/hardware.h"

namespace plait {

/// Seconds that a message, or a product, of some size took.
struct TimedSize {
  double size = 0;
  double seconds = 0;
};

struct LineFit {
  double alpha_seconds = 0;
  double rate = 0;      ///< size per second
  double residual = 0;  ///< largest relative error over all sizes
};

/// seconds = alpha + share · size / rate, alpha ≥ 0: least squares of the relative errors over the
/// sizes from `least` on, or over all where fewer than two are as large. `timed` is not empty,
/// `share` and all sizes and seconds are above 0.
LineFit fit_line(std::span<const TimedSize> timed, double share, double least);

/// Rate of large products and the steps of the inner dim that a product costs besides: with a tile
/// of one element, seconds = 2mn·batch · (k + k_overhead) / rate.
struct ProductFit {
  double rate = 0;  ///< FLOP per second of one device
  double k_overhead = 0;
  double best_rate = 0;  ///< of a single point
};
ProductFit fit_products(std::span<const ProductPoint> points);

/// FLOPs of a product.
double product_flops(const ProductPoint& point);

/// Points with the same sizes become one with their mean time: the planner does not tell passes
/// apart. In the order of their first appearance.
std::vector<ProductPoint> merge_points(std::span<const ProductPoint> points);

double median(std::vector<double> values);

}  // namespace plait

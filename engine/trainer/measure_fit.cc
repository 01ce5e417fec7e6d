#include "engine/trainer/measure_fit.h"

#include <algorithm>
#include <cmath>

namespace plait {
namespace {

/// Of the relative errors (alpha + slope · x − t)/t.
struct Line {
  double alpha = 0, slope = 0;
};

Line least_relative_squares(std::span<const TimedSize> timed, double share) {
  double uu = 0, uv = 0, vv = 0, u_sum = 0, v_sum = 0;
  for (const TimedSize& point : timed) {
    const double u = 1 / point.seconds, v = share * point.size / point.seconds;
    uu += u * u, uv += u * v, vv += v * v;
    u_sum += u, v_sum += v;
  }
  const double determinant = uu * vv - uv * uv;
  if (determinant > 1e-12 * uu * vv) {
    const Line line = {(u_sum * vv - v_sum * uv) / determinant,
                       (v_sum * uu - u_sum * uv) / determinant};
    if (line.alpha >= 0 && line.slope > 0) return line;
  }
  return {0, v_sum / vv};
}

}  // namespace

LineFit fit_line(std::span<const TimedSize> timed, double share, double least) {
  std::vector<TimedSize> large;
  for (const TimedSize& point : timed) {
    if (point.size >= least) large.push_back(point);
  }
  const Line line = large.size() < 2 ? least_relative_squares(timed, share)
                                     : least_relative_squares(large, share);
  LineFit fit{line.alpha, 1 / line.slope, 0};
  for (const TimedSize& point : timed) {
    const double seconds = line.alpha + line.slope * share * point.size;
    fit.residual = std::max(fit.residual, std::abs(seconds / point.seconds - 1));
  }
  return fit;
}

double product_flops(const ProductPoint& point) {
  return 2 * static_cast<double>(point.m) * static_cast<double>(point.n) *
         static_cast<double>(point.k) * static_cast<double>(point.batch);
}

ProductFit fit_products(std::span<const ProductPoint> points) {
  ProductFit fit;
  std::vector<TimedSize> timed;
  for (const ProductPoint& point : points) {
    const double inner = static_cast<double>(point.k);
    timed.push_back({inner, point.seconds * inner / product_flops(point)});
    fit.best_rate = std::max(fit.best_rate, product_flops(point) / point.seconds);
  }
  const LineFit line = fit_line(timed, 1, 0);
  fit.rate = std::min(line.rate, fit.best_rate);
  fit.k_overhead = line.alpha_seconds * fit.rate;
  return fit;
}

std::vector<ProductPoint> merge_points(std::span<const ProductPoint> points) {
  struct Sum {
    ProductPoint point;
    double count = 0;
  };
  std::vector<Sum> sums;
  for (const ProductPoint& point : points) {
    const auto found = std::find_if(sums.begin(), sums.end(), [&](const Sum& sum) {
      const ProductPoint& p = sum.point;
      return p.m == point.m && p.n == point.n && p.k == point.k && p.batch == point.batch &&
             p.dtype == point.dtype;
    });
    if (found == sums.end()) {
      sums.push_back({point, 1});
      continue;
    }
    found->point.seconds += point.seconds;
    found->count += 1;
  }
  std::vector<ProductPoint> merged;
  for (const Sum& sum : sums) {
    merged.push_back(sum.point);
    merged.back().seconds /= sum.count;
  }
  return merged;
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<int64_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  if (values.size() % 2 == 1) return *middle;
  return (*middle + *std::max_element(values.begin(), middle)) / 2;
}

}  // namespace plait

// The only rank arithmetic: rank = τ + t·(δ + d·π), so tensor groups are consecutive ranks, data
// groups have stride t, pipeline groups stride t·d (PTD-P, 2104.04473, section 3).
#pragma once

#include <cstdint>
#include <vector>

namespace plait {

enum class Axis { kTensor, kPipeline, kData };
inline constexpr int kAxes = 3;

/// "tensor", "pipeline", "data".
const char* axis_name(Axis axis);

/// A rank's place on the three axes.
struct Coordinates {
  int64_t tensor = 0;    ///< τ
  int64_t pipeline = 0;  ///< π
  int64_t data = 0;      ///< δ
  bool operator==(const Coordinates&) const = default;
};

class Mesh {
 public:
  /// Degrees ≥ 1; their product is the world.
  Mesh(int64_t tensor, int64_t pipeline, int64_t data)
      : tensor_(tensor), pipeline_(pipeline), data_(data) {}

  int64_t world() const { return tensor_ * pipeline_ * data_; }
  int64_t size(Axis axis) const;
  Coordinates coordinates(int64_t rank) const;
  int64_t rank(const Coordinates& at) const;
  /// The ranks that differ from `rank` on `axis` alone, itself included, by ascending coordinate.
  std::vector<int64_t> group(Axis axis, int64_t rank) const;

 private:
  int64_t tensor_, pipeline_, data_;
};

/// Coordinate of `at` on one axis.
int64_t coordinate(const Coordinates& at, Axis axis);

}  // namespace plait

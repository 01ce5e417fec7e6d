// A model of odd sizes, cut over tensor and pipeline coordinates as the engine cuts one, whose
// gradients are functions of a few integers: what every optimizer test shards.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/mesh.h"
#include "engine/layers/unit_hooks.h"

namespace plait::test {

struct ToyOptions {
  int64_t tensor = 1, pipeline = 1, data = 1, chunks = 1;
  DType dtype = DType::kFloat32;
  bool is_tied = true;
  bool is_sequence_parallel = false;  ///< norms, row biases and positions are tensor-partial
  bool is_exact = false;              ///< gradients are multiples of 1/64: every sum is exact
  int64_t hidden = 48, vocabulary = 65, layers = 3;
};

struct ToyTensor {
  std::string name;
  Shape shape;
  bool is_partial = false;  ///< over all tensor coordinates

  bool decays() const { return shape.dims() >= 2; }
};

/// In canonical order.
std::vector<ToyTensor> toy_tensors(const ToyOptions& options);

/// The sealed units of virtual stage `stage` on tensor coordinate `tensor`.
std::vector<std::unique_ptr<Unit>> toy_units(const ToyOptions& options, int64_t stage,
                                             int64_t tensor);

/// visit(element of the unit, logical element) for all of a segment.
template <class Visit>
void for_each_element(const Parameter& parameter, const Segment& segment, Visit visit) {
  const int64_t columns = segment.box.dims == 2 ? segment.box.size[1] : 1;
  const int64_t all_columns = segment.shape.dims() == 2 ? segment.shape[1] : 1;
  const int64_t first_column = segment.box.dims == 2 ? segment.box.first[1] : 0;
  const int64_t local = parameter.offset + parameter.range(segment).first;
  for (int64_t row = 0; row < segment.box.size[0]; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      visit(local + row * columns + column,
            (segment.box.first[0] + row) * all_columns + first_column + column);
    }
  }
}

/// Where a gradient comes from.
struct GradientKey {
  int64_t step = 0, micro = 0, data = 0;
  int64_t use = 0;   ///< 1: the head of a tied embedding
  int64_t term = 0;  ///< of a tensor-partial one: its holder
};

/// In [−1, 1].
float initial_value(int64_t tensor, int64_t element);
float gradient_value(bool is_exact, int64_t tensor, int64_t element, const GradientKey& key);

/// Σ over micro-batches, data coordinates, uses and terms, in fp64: [elements].
std::vector<double> summed_gradient(const ToyOptions& options, int64_t tensor, int64_t step,
                                    int64_t micro_batches);

/// All tensors trained by textbook AdamW in fp64: values by tensor.
std::vector<std::vector<double>> train_plainly(const ToyOptions& options, int64_t steps,
                                               int64_t micro_batches, double gradient_scale,
                                               double lr);

}  // namespace plait::test

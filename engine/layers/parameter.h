// Parameters of one rank: local matrices and vectors, each a list of segments of logical tensors,
// laid flat in units. Only segments know logical names; only layers know fused local forms.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "kernels/base/box.h"
#include "kernels/device/device.h"

namespace plait {

/// How the elements of a segment start.
struct InitialValue {
  enum class Kind { kConstant, kNormal };
  Kind kind = Kind::kConstant;
  double value = 0;  ///< the constant, or the standard deviation
};

/// A contiguous run of a parameter's rows that is a box of one logical tensor.
struct Segment {
  std::string name;       ///< logical
  Shape shape;            ///< of the whole logical tensor
  Box box;                ///< what of it lies here
  int64_t first_row = 0;  ///< in the local parameter
  InitialValue initial;
  /// Tensor coordinates [first_holder, first_holder + holders) hold this same box. Norms,
  /// checkpoints and reads count it on the first of them.
  int64_t first_holder = 0;
  int64_t holders = 1;
  bool is_partial = false;  ///< its gradient is one of `holders` terms of a sum
};

/// One local tensor. Its memory is a part of what its unit is bound to.
struct Parameter {
  Shape shape;  ///< local; rows that no segment covers are padding and stay zero
  std::vector<Segment> segments;
  int64_t offset = 0;          ///< first element in the unit's flat buffers, a multiple of 64
  TensorView weight;           ///< compute dtype
  TensorView gradient;         ///< float32 accumulator
  TensorView second_gradient;  ///< float32 accumulator of a second use (a tied head), or absent

  /// Local elements of a segment as a flat range of the parameter: {first, count}.
  std::pair<int64_t, int64_t> range(const Segment& segment) const;
};

/// Parameters that are gathered, reduced and updated together: an embedding, a layer, a norm, a
/// head. A unit owns no memory: whoever shards it binds flat buffers, which the views of its
/// parameters then name.
class Unit {
 public:
  explicit Unit(std::string name) : name_(std::move(name)) {}

  /// In canonical order. The address stays.
  Parameter* add(const Shape& shape, std::vector<Segment> segments);
  /// Asks for a second accumulator of one parameter, the unit's only one (a tied head).
  void add_second_gradient(Parameter* parameter) { second_ = parameter; }
  /// Ends declaration. The end is padded to 64 · shards elements. Weights have their dtype and
  /// shape from here on, memory once bound.
  void seal(DType dtype, int64_t shards);

  /// Flat buffers of `elements()`; the views of all parameters follow. May be called again.
  void bind_weights(TensorView flat);           ///< the dtype of `seal`
  void bind_gradients(TensorView flat);         ///< float32
  void bind_second_gradients(TensorView flat);  ///< float32

  const std::string& name() const { return name_; }
  DType dtype() const { return dtype_; }
  int64_t elements() const { return elements_; }  ///< padded
  bool has_second_gradient() const { return second_ != nullptr; }
  const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }
  TensorView weights() const { return weights_; }
  TensorView gradients() const { return gradients_; }
  TensorView second_gradients() const { return second_gradients_; }

 private:
  std::string name_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  Parameter* second_ = nullptr;
  DType dtype_ = DType::kFloat32;
  int64_t elements_ = 0;
  TensorView weights_, gradients_, second_gradients_;
};

/// Weights and gradients of one unit, whole and always there.
class UnitMemory {
 public:
  /// Allocates and binds. `unit` is sealed and outlives this.
  UnitMemory(Unit& unit, Device& device);

 private:
  Buffer weights_, gradients_, second_gradients_;
};

/// A segment that covers rows [0, rows) of a parameter and the whole logical tensor `shape`.
Segment whole_segment(std::string name, const Shape& shape, int64_t first_row,
                      InitialValue initial);

}  // namespace plait

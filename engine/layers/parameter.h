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
};

/// One local tensor. Its memory belongs to its unit.
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
/// head.
class Unit {
 public:
  explicit Unit(std::string name) : name_(std::move(name)) {}

  /// In canonical order. The address stays.
  Parameter* add(const Shape& shape, std::vector<Segment> segments);
  /// Asks for a second accumulator of one parameter of this unit.
  void add_second_gradient(Parameter* parameter) { second_ = parameter; }
  /// Ends declaration: allocates weights and gradients and sets the views. `shards`: the end is
  /// padded to 64 · shards elements.
  void allocate(Device& device, DType dtype, int64_t shards);

  const std::string& name() const { return name_; }
  int64_t elements() const { return elements_; }  ///< padded
  const std::vector<std::unique_ptr<Parameter>>& parameters() const { return parameters_; }
  TensorView weights() const { return weights_.view(dtype_, {elements_}); }
  TensorView gradients() const { return gradients_.view(DType::kFloat32, {elements_}); }

 private:
  std::string name_;
  std::vector<std::unique_ptr<Parameter>> parameters_;
  Parameter* second_ = nullptr;
  DType dtype_ = DType::kFloat32;
  int64_t elements_ = 0;
  Buffer weights_, gradients_, second_gradients_;
};

/// A segment that covers rows [0, rows) of a parameter and the whole logical tensor `shape`.
Segment whole_segment(std::string name, const Shape& shape, int64_t first_row,
                      InitialValue initial);

}  // namespace plait

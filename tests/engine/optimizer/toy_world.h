// A world of optimizers, one thread for each rank of one process, over the toy model.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/fabric.h"
#include "engine/comm/mesh.h"
#include "engine/optimizer/optimizer.h"
#include "kernels/ops/kernels.h"
#include "tests/engine/optimizer/toy_model.h"

namespace plait::test {

struct WorldCase {
  ToyOptions toy;
  int64_t zero = 0;
  bool is_overlapping = true;
  int64_t micro_batches = 1;
  int64_t steps = 2;
};

inline constexpr float kGradientScale = 0.25f;
inline constexpr double kLearningRate = 0.01;

/// One rank. Made and used on its thread.
class ToyRank {
 public:
  ToyRank(const WorldCase& world, Fabric& fabric, int64_t rank);

  const WorldCase& world() const { return world_; }
  const Coordinates& at() const { return at_; }
  int64_t rank() const { return rank_; }
  Communicator& group(Axis axis) { return *groups_[static_cast<size_t>(axis)]; }
  Optimizer& optimizer() { return *optimizer_; }
  OpContext& context() { return context_; }
  Device& device() { return *device_; }
  int64_t chunk_count() const { return static_cast<int64_t>(units_.size()); }
  const std::vector<std::unique_ptr<Unit>>& units(int64_t chunk) const {
    return units_[static_cast<size_t>(chunk)];
  }
  /// Whether this unit is the tied copy that has the head's gradients.
  bool is_head_copy(const Unit& unit) const;
  /// Canonical index.
  int64_t tensor_index(const std::string& name) const;

  struct When {
    int64_t step = 0, micro = 0;
    GradientMode mode() const {
      return micro == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate;
    }
  };
  /// Gradients that layers write instead of gradient_value's.
  using Gradient = std::function<float(int64_t tensor, int64_t element, const GradientKey& key)>;
  void set_gradient(Gradient gradient) { gradient_ = std::move(gradient); }

  /// A measuring pass of a whole step, then the workspace.
  void measure();
  /// Masters ← initial values.
  void load();
  /// Forward and backward of one micro-batch with the hooks, then what the schedule says.
  void accumulate(int64_t step, int64_t micro);
  /// What a layer does with its gradients of one use; an overwriting pass leaves nothing of what
  /// its parameters held.
  void write(Unit& unit, GradientUse use, const When& when, GradientMode mode);
  /// begin_step, all micro-batches, close.
  GlobalSums gather_gradients(int64_t step);
  void apply();  ///< with its gathers
  /// Both, `steps` times; what `close` returned.
  std::vector<GlobalSums> train();
  /// Whole compute weights of every unit, as the next pass would see them.
  std::vector<std::vector<float>> whole_weights();

 private:
  void run_unit(int64_t chunk, Unit& unit, const When& when);

  WorldCase world_;
  Gradient gradient_;
  int64_t rank_;
  Coordinates at_;
  std::vector<ToyTensor> tensors_;
  std::unique_ptr<Device> device_;
  Kernels kernels_;
  Workspace workspace_;
  OpContext context_;
  std::array<std::unique_ptr<Communicator>, kAxes> groups_;
  std::vector<std::vector<std::unique_ptr<Unit>>> units_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Runs `body` for every rank on a thread of its own. An error in one aborts all and is thrown.
void run_world(const WorldCase& world, const std::function<void(ToyRank&)>& body);

/// What a trained world ends with.
struct Trained {
  std::vector<GlobalSums> sums;             ///< of the steps
  std::vector<std::vector<float>> masters;  ///< logical tensors in canonical order
  std::vector<std::vector<float>> moment1, moment2, weights;  ///< likewise
};

/// Trains from initial values. Throws `invariant` when two holders of an element disagree in a bit
/// (slices, replicas, whole weights of all δ, both tied copies), when an element has none, when
/// ranks got different sums, or when padding is not zero.
Trained train_world(const WorldCase& world);

/// The bits of all values, and of all that two worlds ended with.
bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b);
bool same_end(const Trained& a, const Trained& b);
bool same_sums(const std::vector<GlobalSums>& a, const std::vector<GlobalSums>& b);

}  // namespace plait::test

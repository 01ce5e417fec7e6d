// What a rank sends in a step and keeps in memory, by the formulas of PTD-P (2104.04473), sequence
// parallelism (2205.05198) and ZeRO (1910.02054), from sizes alone.
//
// Letters: b rows of a micro-batch, s sequence, h hidden, m micro-batches; t, p, d the axes; z
// bytes of the compute dtype, r of the residual stream; V_p the padded vocabulary.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/mesh.h"
#include "tests/equivalence/matrix.h"

namespace plait::test {

struct FormulaModel {
  bool is_llama = false, is_tied = true;
  int64_t layers = 4, hidden = 96, heads = 4, key_value_heads = 4, feed_forward = 384;
  int64_t vocabulary = 301, sequence = 32, batch = 16;
  int64_t compute_bytes = 4, residual_bytes = 4;

  int64_t head_size() const { return hidden / heads; }
  int64_t tensors() const;  ///< logical ones
  Keys keys() const;
};

/// One rank of a layout.
class RankFormulas {
 public:
  RankFormulas(const FormulaModel& model, const Layout& layout, int64_t rank);

  /// Bytes sent in a step.
  int64_t sent(Axis axis, CollectiveKind kind) const;

  int64_t weight_bytes() const;  ///< without packed forms
  int64_t gradient_bytes() const;
  int64_t optimizer_bytes() const;
  int64_t activation_bytes() const;
  int64_t communication_bytes() const;
  /// Logits of a micro-batch, or what the sums that close a step take, whichever is larger.
  int64_t scratch_bytes() const;

  struct Linear {
    int64_t outputs = 0, inputs = 0;
  };
  /// The local matrices of products.
  std::vector<Linear> linears() const;

 private:
  struct Segment {
    int64_t elements = 0;
    bool is_partial = false;  ///< its gradient is one of several terms over the tensor axis
  };
  using Parameter = std::vector<Segment>;
  struct Unit {
    std::vector<Parameter> parameters;
    int64_t uses = 1;     ///< accumulators
    int64_t gathers = 0;  ///< by a micro-batch where weights are not kept
  };
  struct Chunk {
    int64_t stage = 0, layers = 0, alive = 0;
    bool is_first = false, is_last = false;
  };

  Unit layer_unit() const;
  void add_units(const Chunk& chunk);
  int64_t padded(const Unit& unit) const;
  int64_t partial_elements(const Unit& unit) const;
  int64_t elements() const;
  int64_t elements_of_uses() const;
  int64_t layer_gathers(int64_t layers) const;
  int64_t alive(int64_t stage) const;
  int64_t layers_here() const;
  bool is_first() const { return at_.pipeline == 0; }
  bool is_last() const { return at_.pipeline + 1 == layout_.pipeline; }
  bool is_split() const { return layout_.schedule == "zero_bubble"; }
  bool is_replaying() const { return layout_.recompute == "full" && !is_split(); }

  int64_t sent_tensor(CollectiveKind kind) const;
  int64_t sent_data(CollectiveKind kind) const;
  int64_t sent_pipeline(CollectiveKind kind) const;
  int64_t sums(int64_t members) const;
  int64_t boundary_elements() const;
  int64_t boundaries(bool is_receiving) const;
  int64_t chunk_activations(const Chunk& chunk) const;

  FormulaModel model_;
  Layout layout_;
  Coordinates at_;
  int64_t micro_batches_, rows_, stream_;  // m, b·s, and of it what passes here, times h
  std::vector<Chunk> chunks_;
  std::vector<Unit> units_;
  Unit token_;
};

}  // namespace plait::test

// Layouts of the equivalence matrix, and the training runs that are compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/support/tiny_model.h"

namespace plait::test {

/// One point: how a model is trained, not which.
struct Layout {
  int64_t tensor = 1, pipeline = 1, data = 1, interleave = 1;
  std::string schedule;  ///< empty: the default of `interleave`
  int64_t zero = 0;
  bool is_sequence_parallel = false;
  std::string recompute = "none";
  int64_t recompute_layers = 1;
  int64_t micro_batch = 1;
  bool is_scattering = true, is_overlapping = true;

  int64_t world() const { return tensor * pipeline * data; }
  std::string text() const;  ///< "t2 p2 d1 v1 z0 …"
  Keys keys() const;
  bool operator==(const Layout&) const = default;
};

/// Sizes that a layout must divide.
struct ModelSizes {
  int64_t heads, key_value_heads, feed_forward, layers, sequence, batch;
  /// Parts of canonical sums, 0: sums are ordered.
  int64_t canonical_tensor = 0, canonical_data = 0;

  bool is_canonical() const { return canonical_tensor > 0; }
};

/// Whether the engine must take the layout; if not it must refuse it by name.
bool is_admitted(const Layout& layout, const ModelSizes& sizes);

/// Layouts whose numerics contract promises the same bits as `layout`: one for each class.
Layout bit_class(const Layout& layout, const ModelSizes& sizes);

/// Every combination of the axes up to `most_ranks` ranks.
std::vector<Layout> all_layouts(int64_t most_ranks);

/// A selection of `all` in which every pair of values of two axes that occurs in `all` occurs.
std::vector<Layout> pairwise(const std::vector<Layout>& all);

}  // namespace plait::test

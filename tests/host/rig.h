// An engine over the C ABI with whatever it hangs on, and what tests do with it again and again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/capi/host.h"

namespace host {

/// An untied GPT-2 of 2 layers × 32, vocabulary 61 (padded to 128), 16 positions, batch 4,
/// micro-batch 1, one thread; `keys` is a JSON object that is merged on top.
Config small_config(plait_context* context, const std::string& keys = "{}");

/// Rows of ids in [0, vocabulary), row-major, always the same for one seed.
std::vector<int32_t> make_rows(int64_t rows, int64_t columns, int64_t seed = 1,
                               int64_t vocabulary = 61);

struct Rig {
  /// Throws std::runtime_error with the library's message when something cannot be made.
  explicit Rig(const std::string& keys = "{}");

  /// Fills the batch with `rows` of 17 ids each.
  void set_tokens(const std::vector<int32_t>& rows, int64_t columns = 17);
  int32_t step(Err& err) { return plait_engine_step(engine, batch, 60000, &metrics, err); }
  /// One step on made rows that must succeed; returns its loss.
  double good_step(int64_t seed = 1);
  /// A tensor in float32.
  std::vector<float> read(const std::string& name, int32_t kind = PLAIT_KIND_PARAM);
  void write(const std::string& name, const std::vector<float>& values,
             int32_t kind = PLAIT_KIND_PARAM);
  /// Weights, masters and moments, one after the other, as bytes.
  std::string state();

  Context context;
  Config config;
  Group group;
  Engine engine;
  Batch batch;
  plait_metrics metrics = sized<plait_metrics>();
};

}  // namespace host

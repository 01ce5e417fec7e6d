// Rules of the parallel layout (PTD-P: rank order, layer split, schedules, ZeRO).
#include <bit>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "engine/config/checks.h"
#include "engine/config/rule.h"

namespace plait {
namespace {

void check_tensor(const Config& config) {
  require_multiple(config, "model.heads", "layout.tensor");
  require_multiple(config, "model.feed_forward", "layout.tensor");
  if (config.is_auto("layout.tensor")) return;
  const int64_t tensor = config.get_integer("layout.tensor");
  const int64_t groups = config.get_integer("model.key_value_heads");
  if (groups % tensor != 0 && tensor % groups != 0) {
    throw rule_error(
        config, "of model.key_value_heads and layout.tensor one must be a multiple of the other",
        {"model.key_value_heads", "layout.tensor"});
  }
  if (any_auto(config, {"layout.sequence_parallel", "layout.micro_batch"})) return;
  if (!config.get_boolean("layout.sequence_parallel")) return;
  const int64_t rows =
      config.get_integer("layout.micro_batch") * config.get_integer("train.sequence_length");
  if (rows % tensor != 0) {
    throw rule_error(config,
                     "with layout.sequence_parallel the tokens of a micro-batch must be a multiple "
                     "of layout.tensor",
                     {"layout.micro_batch", "train.sequence_length", "layout.tensor"})
        .with("tokens", rows);
  }
}

void check_world(const Config& config) {
  if (any_auto(config, {"layout.tensor", "layout.pipeline", "layout.data"})) return;
  const int64_t world = config.get_integer("layout.tensor") *
                        config.get_integer("layout.pipeline") * config.get_integer("layout.data");
  constexpr int64_t kMostRanks = std::numeric_limits<int32_t>::max();
  if (world <= kMostRanks) return;
  throw rule_error(config, "the layout has too many ranks",
                   {"layout.tensor", "layout.pipeline", "layout.data"})
      .with("ranks", world)
      .with("maximum", kMostRanks);
}

void check_stages(const Config& config) {
  if (any_auto(config, {"layout.pipeline", "layout.interleave", "layout.stage_layers"})) return;
  const int64_t layers = config.get_integer("model.layers");
  const int64_t stages =
      config.get_integer("layout.pipeline") * config.get_integer("layout.interleave");
  const std::vector<int64_t> counts = config.get_integers("layout.stage_layers");
  if (counts.empty()) {
    if (layers >= stages) return;
    throw rule_error(config, "there are fewer layers than virtual stages",
                     {"model.layers", "layout.pipeline", "layout.interleave"})
        .with("stages", stages);
  }
  if (static_cast<int64_t>(counts.size()) != stages) {
    throw rule_error(config, "layout.stage_layers needs one count for each virtual stage",
                     {"layout.stage_layers", "layout.pipeline", "layout.interleave"})
        .with("count", counts.size())
        .with("stages", stages);
  }
  int64_t sum = 0;
  for (const int64_t count : counts) sum += count;
  if (sum != layers) {
    throw rule_error(config, "layout.stage_layers does not add up to model.layers",
                     {"layout.stage_layers", "model.layers"})
        .with("sum", sum);
  }
}

void check_schedule(const Config& config) {
  const bool knows_interleave = !config.is_auto("layout.interleave");
  const bool is_chunked = knows_interleave && config.get_integer("layout.interleave") > 1;
  if (is_chunked && !config.is_auto("layout.pipeline") &&
      config.get_integer("layout.pipeline") == 1) {
    throw rule_error(config, "layout.interleave above 1 needs layout.pipeline above 1",
                     {"layout.interleave", "layout.pipeline"});
  }
  const std::string schedule = config.get("layout.schedule");
  if (schedule == "auto") return;
  if (knows_interleave && is_chunked != (schedule == "interleaved")) {
    throw rule_error(config,
                     is_chunked ? "layout.interleave above 1 needs the interleaved schedule"
                                : "the interleaved schedule needs layout.interleave above 1",
                     {"layout.schedule", "layout.interleave"});
  }
  const bool is_known_zero = !config.is_auto("layout.zero");
  if (schedule == "zero_bubble" && is_known_zero && config.get_integer("layout.zero") >= 2) {
    throw rule_error(config, "the zero_bubble schedule works with layout.zero below 2 only",
                     {"layout.schedule", "layout.zero"});
  }
}

/// Divisibility of one batch size; `what` names it in the error.
class BatchRule {
 public:
  explicit BatchRule(const Config& config) : config_(config) {
    replicas_ = config.get_integer("layout.data");
    micro_batch_ = config.get_integer("layout.micro_batch");
    if (config.get("precision.reduction") == "canonical") {
      parts_ = config.get_integer("precision.canonical_data");
    }
    const bool is_interleaved =
        config.get("layout.schedule") == "interleaved" && !config.is_auto("layout.pipeline");
    if (is_interleaved) pipeline_ = config.get_integer("layout.pipeline");
  }

  void require(std::string_view key, const char* what, int64_t samples) const {
    const int64_t share = replicas_ * micro_batch_;
    if (samples % share != 0) {
      throw rule_error(config_,
                       std::string(what) +
                           " is no multiple of layout.data times "
                           "layout.micro_batch",
                       {key, "layout.data", "layout.micro_batch"})
          .with("samples", samples)
          .with("divisor", share);
    }
    const int64_t parts = parts_ * micro_batch_;
    if (samples % parts != 0) {
      throw rule_error(config_,
                       std::string(what) +
                           " is no multiple of precision.canonical_data times "
                           "layout.micro_batch",
                       {key, "precision.canonical_data", "layout.micro_batch"})
          .with("samples", samples)
          .with("divisor", parts);
    }
    const int64_t micro_batches = samples / share;
    if (micro_batches % pipeline_ == 0) return;
    const int64_t below = micro_batches / pipeline_ * pipeline_;
    Error error =
        rule_error(config_,
                   "the interleaved schedule needs micro-batches in multiples of layout.pipeline",
                   {key, "layout.pipeline", "layout.schedule"})
            .with("micro_batches", micro_batches)
            .with("nearest_above", below + pipeline_);
    if (below > 0) error = with_field(std::move(error), "nearest_below", below);
    throw error;
  }

 private:
  const Config& config_;
  int64_t replicas_ = 1;
  int64_t parts_ = 1;  // of canonical sums
  int64_t micro_batch_ = 1;
  int64_t pipeline_ = 1;  // 1 where the schedule takes every number of micro-batches
};

void check_batch(const Config& config) {
  if (any_auto(config, {"layout.data", "layout.micro_batch"})) return;
  const TrainConfig train = make_train(config);
  const BatchRule rule(config);
  rule.require("train.global_batch", "train.global_batch", train.global_batch);
  if (!train.batch_ramp) return;
  rule.require("train.batch_ramp", "the first batch of train.batch_ramp", train.batch_ramp->first);
  const int64_t missing = train.global_batch - train.batch_ramp->first;
  if (train.batch_ramp->increment < missing) {
    rule.require("train.batch_ramp", "the increment of train.batch_ramp",
                 train.batch_ramp->increment);
  }
}

void require_power_of_two(const Config& config, const char* key) {
  if (std::has_single_bit(static_cast<uint64_t>(config.get_integer(key)))) return;
  throw rule_error(config, std::string(key) + " is a power of two", {key});
}

/// Canonical sums: the parts divide evenly, and nothing else takes part in their order.
void check_canonical(const Config& config) {
  if (config.get("precision.reduction") != "canonical") return;
  for (const char* key : {"precision.canonical_tensor", "precision.canonical_data"}) {
    require_power_of_two(config, key);
  }
  for (const char* size : {"model.heads", "model.key_value_heads", "model.feed_forward"}) {
    require_multiple(config, size, "precision.canonical_tensor");
  }
  require_multiple(config, "precision.canonical_tensor", "layout.tensor");
  require_multiple(config, "precision.canonical_data", "layout.data");
  if (config.get("layout.sequence_parallel") == "true") {
    throw rule_error(config, "canonical sums are not made over sequence-parallel rows",
                     {"precision.reduction", "layout.sequence_parallel"});
  }
  if (!config.is_auto("layout.zero") && config.get_integer("layout.zero") >= 2) {
    throw rule_error(config, "canonical sums need layout.zero below 2, which adds whole batches",
                     {"precision.reduction", "layout.zero"});
  }
  if (config.get("layout.schedule") == "zero_bubble") {
    throw rule_error(config, "canonical sums are not made by the zero_bubble schedule",
                     {"precision.reduction", "layout.schedule"});
  }
}

}  // namespace

void check_layout(const Config& config) {
  check_canonical(config);
  check_tensor(config);
  check_world(config);
  check_stages(config);
  check_schedule(config);
  check_batch(config);
}

}  // namespace plait

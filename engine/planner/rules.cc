#include "engine/planner/rules.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "engine/config/checks.h"
#include "engine/schedule/shape.h"

namespace plait {
namespace {

using Wide = __int128;

std::string key_text(const char* key, int64_t value) {
  return std::string(key) + " " + std::to_string(value);
}

/// "63.0 GiB", or smaller units where that would say little.
std::string memory_text(int64_t bytes) {
  constexpr double kStep = 1024;
  double value = static_cast<double>(bytes);
  const char* unit = "bytes";
  for (const char* larger : {"KiB", "MiB", "GiB"}) {
    if (value < kStep) break;
    value /= kStep;
    unit = larger;
  }
  char text[48];
  std::snprintf(text, sizeof(text), "%.*f %s", bytes < 1024 ? 0 : 1, value, unit);
  return text;
}

/// The rules of engine/config for layouts, and those between a layout, its world and schedules.
class RuleBook {
 public:
  RuleBook(const Job& job, const LayoutConfig& layout) : job_(job), layout_(layout) {}

  std::vector<Violation> violated() && {
    check_sizes();
    check_devices();
    check_heads();
    check_layers();
    check_samples(job_.train.global_batch, "train.global_batch");
    check_ramp();
    check_chunks();
    check_rows();
    check_order();
    check_canonical();
    return std::move(violations_);
  }

 private:
  /// Bytes and elements of a rank stay far from 64 bits.
  void check_sizes() {
    constexpr int64_t kMostBytes = int64_t{1} << 62;
    constexpr int64_t kMostCopies = 64;  // bytes of an element, all that is kept of it together
    const ModelConfig& model = job_.model;
    const int64_t sequence = job_.train.sequence_length;
    const Wide width = 8 * Wide(model.hidden) + 3 * Wide(model.feed_forward) +
                       Wide(model.heads) * (4 * Wide(model.head_size) + 5 * Wide(sequence));
    const Wide rows = Wide(job_.train.global_batch / layout_.data + 1) * sequence;
    const Wide vocabulary = Wide(model.vocab_size) + 128 * Wide(layout_.tensor);
    const Wide bytes = kMostCopies * (Wide(count_parameters(model)) +
                                      rows * (width * (model.layers + 1)) + rows * vocabulary);
    if (bytes <= kMostBytes) return;
    add("memory", "what a rank keeps is beyond what is counted",
        static_cast<int64_t>(std::min<Wide>(bytes, INT64_MAX)), kMostBytes);
  }

  void add(const char* word, std::string sentence, int64_t first, int64_t second) {
    violations_.push_back({word, std::move(sentence), first, second});
  }

  /// `whole` has to be a multiple of `part`.
  void require_multiple_of(const char* word, const char* whole_name, int64_t whole,
                           const std::string& part_text, int64_t part) {
    if (whole % part == 0) return;
    add(word, key_text(whole_name, whole) + " is no multiple of " + part_text, whole, part);
  }

  void check_devices() {
    const Wide ranks = Wide(layout_.tensor) * layout_.pipeline * layout_.data;
    if (ranks == job_.world) return;
    const auto product = static_cast<int64_t>(std::min<Wide>(ranks, INT64_MAX));
    add("devices",
        key_text("layout.tensor", layout_.tensor) + " times " +
            key_text("layout.pipeline", layout_.pipeline) + " times " +
            key_text("layout.data", layout_.data) + " are " + std::to_string(product) +
            " ranks, and the world has " + std::to_string(job_.world),
        product, job_.world);
  }

  void check_heads() {
    const ModelConfig& model = job_.model;
    const int64_t t = layout_.tensor, groups = model.key_value_heads;
    require_multiple_of("heads", "model.heads", model.heads, key_text("layout.tensor", t), t);
    const bool has_own_rule = groups != model.heads;  // else what was just required
    if (has_own_rule && groups % t != 0 && t % groups != 0) {
      add("kv_heads",
          "of " + key_text("model.key_value_heads", groups) + " and " +
              key_text("layout.tensor", t) + " one has to be a multiple of the other",
          groups, t);
    }
    require_multiple_of("feed_forward", "model.feed_forward", model.feed_forward,
                        key_text("layout.tensor", t), t);
  }

  void check_layers() {
    const int64_t stages = layout_.pipeline * layout_.interleave, layers = job_.model.layers;
    if (layout_.stage_layers.empty()) {
      if (layers >= stages) return;
      add("layers",
          key_text("model.layers", layers) + " are fewer than the " + std::to_string(stages) +
              " virtual stages of " + key_text("layout.pipeline", layout_.pipeline) + " times " +
              key_text("layout.interleave", layout_.interleave),
          layers, stages);
      return;
    }
    const auto counts = static_cast<int64_t>(layout_.stage_layers.size());
    if (counts != stages) {
      add("layers",
          "layout.stage_layers has " + std::to_string(counts) + " counts for " +
              std::to_string(stages) + " virtual stages",
          counts, stages);
      return;
    }
    int64_t sum = 0;
    for (const int64_t count : layout_.stage_layers) sum += count;
    if (sum == layers) return;
    add("layers",
        "layout.stage_layers add up to " + std::to_string(sum) + " and " +
            key_text("model.layers", layers) + " are to be placed",
        sum, layers);
  }

  std::string shares_text(const char* key, int64_t shares) const {
    return std::to_string(shares * layout_.micro_batch) + " (" + key_text(key, shares) + " times " +
           key_text("layout.micro_batch", layout_.micro_batch) + ")";
  }

  /// Of `samples` of a step: whole micro-batches on each coordinate, and whole groups of them.
  void check_samples(int64_t samples, const char* name) {
    const int64_t share = layout_.data * layout_.micro_batch;
    require_multiple_of("batch", name, samples, shares_text("layout.data", layout_.data), share);
    if (job_.precision.reduction == ReductionChoice::kCanonical) {
      const int64_t parts = job_.precision.canonical_data;
      require_multiple_of("canonical", name, samples,
                          shares_text("precision.canonical_data", parts),
                          parts * layout_.micro_batch);
    }
    if (samples % share != 0 || layout_.schedule != ScheduleChoice::kInterleaved) return;
    const int64_t micro = samples / share;
    if (micro % layout_.pipeline == 0) return;
    add("interleave",
        std::to_string(micro) + " micro-batches of " + key_text(name, samples) +
            " are no multiple of " + key_text("layout.pipeline", layout_.pipeline) +
            ", which the interleaved schedule needs",
        micro, layout_.pipeline);
  }

  void check_ramp() {
    const auto& ramp = job_.train.batch_ramp;
    if (!ramp) return;
    check_samples(ramp->first, "the first batch of train.batch_ramp");
    if (ramp->increment < job_.train.global_batch - ramp->first) {
      check_samples(ramp->increment, "the increment of train.batch_ramp");
    }
  }

  void check_chunks() {
    if (layout_.interleave == 1 || layout_.pipeline > 1) return;
    add("interleave",
        key_text("layout.interleave", layout_.interleave) + " needs more coordinates than " +
            key_text("layout.pipeline", layout_.pipeline),
        layout_.interleave, layout_.pipeline);
  }

  void check_rows() {
    if (!layout_.sequence_parallel) return;
    require_multiple_of("sequence", "with layout.sequence_parallel a micro-batch of tokens",
                        layout_.micro_batch * job_.train.sequence_length,
                        key_text("layout.tensor", layout_.tensor), layout_.tensor);
  }

  void check_order() {
    const bool is_interleaved = layout_.schedule == ScheduleChoice::kInterleaved;
    if (is_interleaved != (layout_.interleave > 1)) {
      const std::string chunks = key_text("layout.interleave", layout_.interleave);
      add("schedule",
          is_interleaved ? "the interleaved schedule needs 2 chunks or more, not " + chunks
                         : chunks + " needs the interleaved schedule; others take 1 chunk",
          layout_.interleave, is_interleaved ? 2 : 1);
    }
    if (layout_.schedule == ScheduleChoice::kZeroBubble && layout_.zero >= 2) {
      add("schedule",
          "the zero_bubble schedule works up to layout.zero 1, not with " +
              key_text("layout.zero", layout_.zero),
          layout_.zero, 1);
    }
    const int64_t share = layout_.data * layout_.micro_batch;
    const Wide pairs =
        Wide(job_.train.global_batch / share) * layout_.pipeline * layout_.interleave;
    if (job_.train.global_batch % share != 0 || pairs <= kMostPairs) return;
    const auto count = static_cast<int64_t>(std::min<Wide>(pairs, INT64_MAX));
    add("schedule",
        std::to_string(count) + " passes of micro-batches through stages are more than the " +
            std::to_string(kMostPairs) + " that a schedule may have",
        count, kMostPairs);
  }

  /// The order of canonical sums admits no other parts than its own.
  void check_canonical() {
    if (job_.precision.reduction != ReductionChoice::kCanonical) return;
    const int64_t lanes = job_.precision.canonical_tensor;
    const std::string parts = key_text("precision.canonical_tensor", lanes);
    const ModelConfig& model = job_.model;
    require_multiple_of("canonical", "model.heads", model.heads, parts, lanes);
    require_multiple_of("canonical", "model.key_value_heads", model.key_value_heads, parts, lanes);
    require_multiple_of("canonical", "model.feed_forward", model.feed_forward, parts, lanes);
    require_multiple_of("canonical", "precision.canonical_tensor", job_.precision.canonical_tensor,
                        key_text("layout.tensor", layout_.tensor), layout_.tensor);
    require_multiple_of("canonical", "precision.canonical_data", job_.precision.canonical_data,
                        key_text("layout.data", layout_.data), layout_.data);
    if (layout_.sequence_parallel) {
      add("canonical", "canonical sums are not made over sequence-parallel rows", 1, 0);
    }
    if (layout_.zero >= 2) {
      add("canonical",
          "canonical sums go up to layout.zero 1, not with " +
              key_text("layout.zero", layout_.zero),
          layout_.zero, 1);
    }
    if (layout_.schedule == ScheduleChoice::kZeroBubble) {
      add("canonical", "canonical sums are not made by the zero_bubble schedule", 1, 0);
    }
  }

  const Job& job_;
  const LayoutConfig& layout_;
  std::vector<Violation> violations_;
};

}  // namespace

std::vector<Violation> violated_rules(const Job& job, const LayoutConfig& layout) {
  return RuleBook(job, layout).violated();
}

bool splits_evenly(const Job& job, int64_t tensor) {
  const ModelConfig& model = job.model;
  return model.heads % tensor == 0 && model.feed_forward % tensor == 0 &&
         (model.key_value_heads % tensor == 0 || tensor % model.key_value_heads == 0) &&
         (job.precision.reduction != ReductionChoice::kCanonical ||
          job.precision.canonical_tensor % tensor == 0);
}

bool fits(const Job& job, const Estimate& estimate, std::vector<Violation>* violations) {
  const RankMemory& memory = estimate.memory[static_cast<size_t>(estimate.fullest)];
  const int64_t bytes = memory.total(), limit = job.hardware.memory_limit();
  if (bytes <= limit) return true;
  if (violations != nullptr) {
    violations->push_back({"memory",
                           "a rank at pipeline coordinate " + std::to_string(estimate.fullest) +
                               " needs " + memory_text(bytes) + ", above all for " +
                               largest_category(memory) + ", and a device has " +
                               memory_text(limit),
                           bytes, limit});
  }
  return false;
}

}  // namespace plait

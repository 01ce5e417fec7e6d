#include "engine/planner/enumerate.h"

#include <algorithm>
#include <bit>

#include "engine/planner/rules.h"

namespace plait {
namespace {

constexpr int64_t kMostTensorNodes = 4;     // that a tensor group is tried over
constexpr int64_t kMostDegree = 1048576;    // of the keys layout.tensor, .pipeline and .data
constexpr int64_t kMostOddMicroBatch = 16;  // of sizes that are no power of two

struct Degrees {
  int64_t tensor = 1, pipeline = 1, data = 1;
};

class Enumeration {
 public:
  Enumeration(const Job& job, const LayoutConfig& fixed,
              FunctionRef<void(const LayoutConfig&)> visit)
      : job_(job), fixed_(fixed), visit_(visit) {
    is_canonical_ = job.precision.reduction == ReductionChoice::kCanonical;
  }

  void run() const {
    for (const Degrees& degrees : all_degrees()) {
      LayoutConfig layout = fixed_;
      layout.auto_keys.clear();
      layout.tensor = degrees.tensor;
      layout.pipeline = degrees.pipeline;
      layout.data = degrees.data;
      for (const int64_t chunks : interleaves(degrees.pipeline)) {
        layout.interleave = chunks;
        for (const std::vector<int64_t>& counts : layer_counts(layout)) {
          layout.stage_layers = counts;
          for (const ScheduleChoice schedule : schedules(layout)) {
            layout.schedule = schedule;
            run_batches(layout);
          }
        }
      }
    }
  }

 private:
  void run_batches(LayoutConfig layout) const {
    for (const int64_t micro : micro_batch_sizes(layout.data)) {
      layout.micro_batch = micro;
      for (const RecomputeChoice recompute : recomputes(layout)) {
        layout.recompute = recompute;
        for (const bool is_sequence_parallel : sequence_choices(layout)) {
          layout.sequence_parallel = is_sequence_parallel;
          for (const int64_t zero : zero_stages(layout)) {
            layout.zero = zero;
            visit_(layout);
          }
        }
      }
    }
  }

  /// All factorisations of the world that keep the rules of the free degrees; where none does all
  /// factorisations; where there is none, what is left of the world by the pinned degrees.
  std::vector<Degrees> all_degrees() const {
    std::vector<Degrees> all, usual;
    const auto tried = [](bool free, int64_t left, int64_t pinned) {
      return free ? divisors(std::max<int64_t>(left, 1)) : std::vector<int64_t>{pinned};
    };
    const bool is_tensor_free = is_free(fixed_, "layout.tensor");
    const bool is_pipeline_free = is_free(fixed_, "layout.pipeline");
    const bool is_data_free = is_free(fixed_, "layout.data");
    for (const int64_t t : tried(is_tensor_free, job_.world, fixed_.tensor)) {
      for (const int64_t p : tried(is_pipeline_free, job_.world / t, fixed_.pipeline)) {
        const int64_t d = is_data_free ? std::max<int64_t>(job_.world / (t * p), 1) : fixed_.data;
        if (static_cast<__int128>(t) * p * d != job_.world) continue;
        if (std::max({t, p, d}) > kMostDegree) continue;
        all.push_back({t, p, d});
        const bool has_usual_tensor =
            !is_tensor_free ||
            (splits_evenly(job_, t) && t <= kMostTensorNodes * job_.hardware.node_devices);
        if (has_usual_tensor && (!is_pipeline_free || has_usual_stages(p))) {
          usual.push_back({t, p, d});
        }
      }
    }
    if (!usual.empty()) return usual;
    if (!all.empty()) return all;
    const int64_t t = fixed_.tensor, p = fixed_.pipeline;
    const int64_t left = std::clamp<int64_t>(job_.world / (t * p), 1, kMostDegree);
    return {{t, p, is_data_free ? left : fixed_.data}};
  }

  bool has_usual_stages(int64_t pipeline) const {
    if (pipeline > job_.model.layers) return false;
    const auto counts = static_cast<int64_t>(fixed_.stage_layers.size());
    if (counts > 0) return counts % pipeline == 0;
    return job_.tries_uneven || job_.model.layers % pipeline == 0;
  }

  std::vector<int64_t> interleaves(int64_t pipeline) const {
    if (!is_free(fixed_, "layout.interleave")) return {fixed_.interleave};
    const auto counts = static_cast<int64_t>(fixed_.stage_layers.size());
    if (counts > 0) return {std::max<int64_t>(counts / pipeline, 1)};
    const bool is_order_free = is_free(fixed_, "layout.schedule");
    const bool is_interleaved = fixed_.schedule == ScheduleChoice::kInterleaved;
    const bool takes_chunks = is_order_free || is_interleaved;
    if (pipeline == 1 || job_.model.layers % pipeline != 0 || !takes_chunks) return {1};
    std::vector<int64_t> chunks = divisors(job_.model.layers / pipeline);
    if (!is_order_free && chunks.size() > 1) chunks.erase(chunks.begin());
    return chunks;
  }

  /// The rule of equal runs (no counts), and where asked for one layer less at the last stage or at
  /// both ends, which embedding and head burden.
  std::vector<std::vector<int64_t>> layer_counts(const LayoutConfig& layout) const {
    if (!is_free(fixed_, "layout.stage_layers")) return {fixed_.stage_layers};
    std::vector<std::vector<int64_t>> all = {{}};
    const int64_t stages = layout.pipeline * layout.interleave;
    const int64_t fewer = job_.model.layers / stages - 1;
    if (!job_.tries_uneven || stages < 2 || fewer < 1) return all;
    for (const int64_t first : {int64_t{0}, int64_t{1}}) {
      const int64_t middle = stages - 1 - first, left = job_.model.layers - fewer * (1 + first);
      if (middle < 1) continue;
      std::vector<int64_t> counts(static_cast<size_t>(first), fewer);
      for (int64_t i = 0; i < middle; ++i) {
        counts.push_back((i + 1) * left / middle - i * left / middle);
      }
      counts.push_back(fewer);
      all.push_back(std::move(counts));
    }
    return all;
  }

  std::vector<ScheduleChoice> schedules(const LayoutConfig& layout) const {
    if (!is_free(fixed_, "layout.schedule")) return {fixed_.schedule};
    if (layout.interleave > 1) return {ScheduleChoice::kInterleaved};
    std::vector<ScheduleChoice> all = {ScheduleChoice::kOneForwardOneBackward};
    const bool is_zero_possible = is_free(fixed_, "layout.zero") || fixed_.zero < 2;
    // It keeps all state, so that nothing is run again.
    const bool keeps_state =
        is_free(fixed_, "layout.recompute") || fixed_.recompute == RecomputeChoice::kNone;
    if (layout.pipeline > 1 && is_zero_possible && keeps_state && !is_canonical_ &&
        job_.profile.has_zero_bubble) {
      all.push_back(ScheduleChoice::kZeroBubble);
    }
    if (job_.tries_gpipe) all.push_back(ScheduleChoice::kGpipe);
    return all;
  }

  std::vector<int64_t> micro_batch_sizes(int64_t data) const {
    if (!is_free(fixed_, "layout.micro_batch")) return {fixed_.micro_batch};
    if (job_.train.global_batch % data != 0) return {1};
    std::vector<int64_t> sizes = divisors(job_.train.global_batch / data);
    std::erase_if(sizes, [](int64_t size) {
      return size > kMostOddMicroBatch && !std::has_single_bit(static_cast<uint64_t>(size));
    });
    return sizes;
  }

  /// With a fused attention kernel nothing is left for `selective` to run again.
  std::vector<RecomputeChoice> recomputes(const LayoutConfig& layout) const {
    if (!is_free(fixed_, "layout.recompute")) return {fixed_.recompute};
    if (layout.schedule == ScheduleChoice::kZeroBubble) return {RecomputeChoice::kNone};
    if (job_.profile.has_fused_attention) return {RecomputeChoice::kNone, RecomputeChoice::kFull};
    return {RecomputeChoice::kNone, RecomputeChoice::kSelective, RecomputeChoice::kFull};
  }

  std::vector<bool> sequence_choices(const LayoutConfig& layout) const {
    if (!is_free(fixed_, "layout.sequence_parallel")) return {fixed_.sequence_parallel};
    const int64_t rows = layout.micro_batch * job_.train.sequence_length;
    const bool is_possible = job_.profile.has_sequence_parallel && !is_canonical_;
    if (layout.tensor == 1 || rows % layout.tensor != 0 || !is_possible) return {false};
    return {false, true};
  }

  std::vector<int64_t> zero_stages(const LayoutConfig& layout) const {
    if (!is_free(fixed_, "layout.zero")) return {fixed_.zero};
    if (layout.data == 1) return {0};
    if (job_.profile.most_zero == 0) return {0};
    if (job_.profile.least_zero == 3) return {3};
    std::vector<int64_t> stages = {0, 1};
    if (layout.schedule == ScheduleChoice::kZeroBubble || is_canonical_) return stages;
    if (layout.data * layout.micro_batch == job_.train.global_batch) stages.push_back(2);
    const bool has_data_alone = layout.tensor == 1 && layout.pipeline == 1;
    if (has_data_alone || job_.tries_zero3) stages.push_back(3);
    return stages;
  }

  const Job& job_;
  const LayoutConfig& fixed_;
  FunctionRef<void(const LayoutConfig&)> visit_;
  bool is_canonical_ = false;
};

}  // namespace

std::vector<int64_t> divisors(int64_t number) {
  std::vector<int64_t> small, large;
  for (int64_t i = 1; i * i <= number; ++i) {
    if (number % i != 0) continue;
    small.push_back(i);
    if (i * i != number) large.push_back(number / i);
  }
  small.insert(small.end(), large.rbegin(), large.rend());
  return small;
}

bool is_free(const LayoutConfig& fixed, std::string_view key) {
  return std::find(fixed.auto_keys.begin(), fixed.auto_keys.end(), key) != fixed.auto_keys.end();
}

void enumerate_layouts(const Job& job, const LayoutConfig& fixed,
                       FunctionRef<void(const LayoutConfig&)> visit) {
  Enumeration(job, fixed, visit).run();
}

}  // namespace plait

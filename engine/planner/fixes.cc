#include "engine/planner/fixes.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "engine/planner/enumerate.h"
#include "engine/planner/layout_keys.h"

namespace plait {
namespace {

/// Stages without layers are worth a try while they are not more than those with.
constexpr int64_t kMostEmptyShare = 2;

constexpr size_t kMostFixes = 3;       // that keep the batch
constexpr size_t kMostBatchFixes = 2;  // that change it
constexpr std::string_view kLayoutPrefix = "layout.";

/// A layout for a batch.
struct Changed {
  LayoutConfig layout;
  int64_t global_batch = 0;
};

/// Makes up changes of one layout, those tried first in front.
class Proposals {
 public:
  Proposals(const Job& job, const Changed& from) : job_(job), from_(from), now_(from.layout) {}

  std::vector<Changed> against(const std::vector<Violation>& violations) && {
    struct Row {
      std::string_view word;
      void (Proposals::*propose)();
    };
    constexpr Row kRows[] = {
        {"devices", &Proposals::world},     {"heads", &Proposals::tensor},
        {"kv_heads", &Proposals::tensor},   {"feed_forward", &Proposals::tensor},
        {"layers", &Proposals::stages},     {"batch", &Proposals::batch},
        {"interleave", &Proposals::groups}, {"sequence", &Proposals::sequence},
        {"schedule", &Proposals::order},    {"canonical", &Proposals::canonical},
        {"memory", &Proposals::memory}};
    for (const Violation& violation : violations) {
      for (const Row& row : kRows) {
        if (row.word == violation.word) (this->*row.propose)();
      }
    }
    return std::move(proposals_);
  }

 private:
  /// Adds `layout`, made consistent where a changed degree leaves no choice.
  void add(LayoutConfig layout) {
    if (layout.pipeline == 1) layout.interleave = 1;
    if (layout.pipeline * layout.interleave != now_.pipeline * now_.interleave &&
        layout.stage_layers == now_.stage_layers) {
      layout.stage_layers.clear();
    }
    if (layout.interleave == 1 && now_.interleave > 1 &&
        layout.schedule == ScheduleChoice::kInterleaved) {
      layout.schedule = ScheduleChoice::kOneForwardOneBackward;
    }
    proposals_.push_back({std::move(layout), from_.global_batch});
  }

  template <class Value>
  void add_with(Value LayoutConfig::*field, Value value) {
    LayoutConfig layout = now_;
    layout.*field = std::move(value);
    add(std::move(layout));
  }

  void add_degrees(int64_t tensor, int64_t pipeline, int64_t data) {
    if (tensor < 1 || pipeline < 1 || data < 1 || tensor * pipeline * data != job_.world) return;
    LayoutConfig layout = now_;
    layout.tensor = tensor;
    layout.pipeline = pipeline;
    layout.data = data;
    add(std::move(layout));
  }

  /// One degree anew, and each of the two others to make up for it.
  void add_tensor(int64_t t) {
    if (t < 1) return;
    add_degrees(t, now_.pipeline, job_.world / (t * now_.pipeline));
    add_degrees(t, job_.world / (t * now_.data), now_.data);
  }
  void add_pipeline(int64_t p) {
    if (p < 1) return;
    add_degrees(now_.tensor, p, job_.world / (now_.tensor * p));
    add_degrees(job_.world / (p * now_.data), p, now_.data);
  }
  void add_data(int64_t d) {
    if (d < 1) return;
    add_degrees(now_.tensor, job_.world / (now_.tensor * d), d);
    add_degrees(job_.world / (now_.pipeline * d), now_.pipeline, d);
  }

  /// Calls `use` for the divisors of `number` next to `value` that are `legal`, below and above.
  template <class Legal, class Use>
  void nearest(int64_t number, int64_t value, Legal legal, Use use) {
    std::optional<int64_t> below, above;
    for (const int64_t candidate : divisors(number)) {
      if (candidate == value || !legal(candidate)) continue;
      if (candidate < value) below = candidate;
      if (candidate > value && !above) above = candidate;
    }
    if (below) use(*below);
    if (above) use(*above);
  }

  void world() {
    add_data(job_.world / (now_.tensor * now_.pipeline));
    add_tensor(job_.world / (now_.pipeline * now_.data));
    add_pipeline(job_.world / (now_.tensor * now_.data));
    tensor();
    stages();
  }

  void tensor() {
    nearest(
        job_.world, now_.tensor, [&](int64_t t) { return splits_evenly(job_, t); },
        [&](int64_t t) { add_tensor(t); });
  }

  void stages() {
    const int64_t layers = job_.model.layers;
    if (!now_.stage_layers.empty()) add_with(&LayoutConfig::stage_layers, {});
    nearest(
        job_.world, now_.pipeline, [&](int64_t p) { return p * now_.interleave <= layers; },
        [&](int64_t p) { add_pipeline(p); });
    if (now_.interleave > 1) fewer_chunks();
    const int64_t stages = now_.pipeline * now_.interleave;
    if (stages <= layers || stages > kMostEmptyShare * layers) return;
    std::vector<int64_t> counts(static_cast<size_t>(stages), 0);
    std::fill_n(counts.begin(), layers, 1);
    add_with(&LayoutConfig::stage_layers, std::move(counts));
  }

  void fewer_chunks() {
    const int64_t each = std::max<int64_t>(job_.model.layers / now_.pipeline, 1);
    int64_t fewer = 1;
    for (const int64_t chunks : divisors(each)) {
      if (chunks < now_.interleave) fewer = chunks;
    }
    add_with(&LayoutConfig::interleave, fewer);
    if (fewer > 1) add_with(&LayoutConfig::interleave, int64_t{1});
  }

  /// The largest smaller micro-batch that divides the samples of a replica, in whole groups of
  /// micro-batches where the schedule wants them.
  void smaller_micro_batch() {
    if (from_.global_batch % now_.data != 0) return;
    const int64_t samples = from_.global_batch / now_.data;
    const bool has_groups = now_.schedule == ScheduleChoice::kInterleaved;
    int64_t smaller = 0;
    for (const int64_t size : divisors(samples)) {
      const bool is_whole = !has_groups || samples / size % now_.pipeline == 0;
      if (size < now_.micro_batch && is_whole) smaller = size;
    }
    if (smaller > 0) add_with(&LayoutConfig::micro_batch, smaller);
  }

  void nearest_batches() {
    constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
    const bool has_groups = now_.schedule == ScheduleChoice::kInterleaved;
    const int64_t parts = job_.precision.canonical_data;  // 1 unless canonical
    const int64_t shares = std::lcm(now_.data * (has_groups ? now_.pipeline : 1), parts);
    if (shares > kMost / now_.micro_batch) return;
    const int64_t unit = shares * now_.micro_batch;
    const int64_t below = from_.global_batch / unit * unit;
    for (const int64_t samples : {below, below + unit}) {
      if (samples < 1 || samples > kMost || samples == from_.global_batch) continue;
      proposals_.push_back({now_, samples});
    }
  }

  void batch() {
    smaller_micro_batch();
    nearest(
        job_.world, now_.data,
        [&](int64_t d) { return from_.global_batch % (d * now_.micro_batch) == 0; },
        [&](int64_t d) { add_data(d); });
    nearest_batches();
  }

  void groups() {
    if (now_.interleave > 1) add_with(&LayoutConfig::interleave, int64_t{1});
    smaller_micro_batch();
    nearest_batches();
  }

  void sequence() { add_with(&LayoutConfig::sequence_parallel, false); }

  void order() {
    if (now_.interleave > 1) {
      add_with(&LayoutConfig::schedule, ScheduleChoice::kInterleaved);
      LayoutConfig layout = now_;
      layout.interleave = 1;
      add(std::move(layout));
    } else if (now_.schedule != ScheduleChoice::kOneForwardOneBackward) {
      add_with(&LayoutConfig::schedule, ScheduleChoice::kOneForwardOneBackward);
    }
    if (now_.schedule == ScheduleChoice::kZeroBubble && now_.zero > 1) {
      add_with(&LayoutConfig::zero, int64_t{1});
    }
    add_with(&LayoutConfig::micro_batch, 2 * now_.micro_batch);
  }

  void canonical() {
    tensor();
    nearest(
        job_.world, now_.data, [&](int64_t d) { return job_.precision.canonical_data % d == 0; },
        [&](int64_t d) { add_data(d); });
    if (now_.sequence_parallel) sequence();
    if (now_.zero > 1) add_with(&LayoutConfig::zero, int64_t{1});
    if (now_.schedule == ScheduleChoice::kZeroBubble) {
      add_with(&LayoutConfig::schedule, ScheduleChoice::kOneForwardOneBackward);
    }
    smaller_micro_batch();
    nearest_batches();
  }

  void memory() {
    if (now_.tensor > 1 && !now_.sequence_parallel) {
      add_with(&LayoutConfig::sequence_parallel, true);
    }
    if (now_.data > 1 && now_.zero < 3) add_with(&LayoutConfig::zero, now_.zero + 1);
    if (now_.recompute == RecomputeChoice::kNone && !job_.profile.has_fused_attention) {
      add_with(&LayoutConfig::recompute, RecomputeChoice::kSelective);
    }
    if (now_.recompute != RecomputeChoice::kFull) {
      add_with(&LayoutConfig::recompute, RecomputeChoice::kFull);
    }
    smaller_micro_batch();
    if (now_.interleave > 1) fewer_chunks();
    if (now_.data % 2 != 0) return;
    add_degrees(now_.tensor, 2 * now_.pipeline, now_.data / 2);
    add_degrees(2 * now_.tensor, now_.pipeline, now_.data / 2);
  }

  const Job& job_;
  const Changed& from_;
  const LayoutConfig& now_;
  std::vector<Changed> proposals_;
};

class FixSearch {
 public:
  FixSearch(const Job& job, const LayoutConfig& layout)
      : job_(job), start_{layout, job.train.global_batch} {}

  std::vector<Fix> run(const std::vector<Violation>& violations) && {
    seen_.insert({layout_text(start_.layout), start_.global_batch});
    std::vector<Failing> failing = try_changes({start_, violations});
    if (passing_.empty()) {
      for (const Failing& once : failing) try_changes(once);
    }
    std::vector<Fix> fixes = keeping_batch();
    for (Fix& fix : changing_batch()) fixes.push_back(std::move(fix));
    return fixes;
  }

 private:
  struct Failing {
    Changed changed;
    std::vector<Violation> violations;
  };
  struct Passing {
    Changed changed;
    double bound = 0;
  };

  Job job_for(const Changed& changed) const {
    Job job = job_;
    job.train.global_batch = changed.global_batch;
    return job;
  }

  /// Keeps those that pass; returns those that do not.
  std::vector<Failing> try_changes(const Failing& from) {
    std::vector<Failing> failing;
    for (Changed& changed : Proposals(job_, from.changed).against(from.violations)) {
      if (!seen_.insert({layout_text(changed.layout), changed.global_batch}).second) continue;
      const Job job = job_for(changed);
      std::vector<Violation> violations = violated_rules(job, changed.layout);
      if (violations.empty()) {
        const Estimate priced = price(job, changed.layout);
        if (fits(job, priced, &violations)) {
          passing_.push_back({std::move(changed), priced.bound_seconds});
          continue;
        }
      }
      failing.push_back({std::move(changed), std::move(violations)});
    }
    return failing;
  }

  Fix make_fix(const Changed& changed) const {
    const Estimate whole = estimate(job_for(changed), changed.layout);
    Fix fix{changed.layout, layout_changes(start_.layout, changed.layout), 0, whole.step_seconds,
            whole.memory[static_cast<size_t>(whole.fullest)].total()};
    if (changed.global_batch == start_.global_batch) return fix;
    fix.global_batch = changed.global_batch;
    if (!fix.text.empty()) fix.text += ',';
    fix.text += "train.global_batch=" + std::to_string(changed.global_batch);
    return fix;
  }

  std::vector<Fix> keeping_batch() {
    std::stable_sort(passing_.begin(), passing_.end(),
                     [](const Passing& a, const Passing& b) { return a.bound < b.bound; });
    std::vector<Fix> fixes;
    for (const Passing& passing : passing_) {
      if (passing.changed.global_batch != start_.global_batch) continue;
      if (fixes.size() == kMostFixes && passing.bound > fixes.back().step_seconds) break;
      Fix fix = make_fix(passing.changed);
      const auto place = std::upper_bound(
          fixes.begin(), fixes.end(), fix,
          [](const Fix& a, const Fix& b) { return a.step_seconds < b.step_seconds; });
      fixes.insert(place, std::move(fix));
      if (fixes.size() > kMostFixes) fixes.pop_back();
    }
    return fixes;
  }

  std::vector<Fix> changing_batch() {
    const auto distance = [&](const Passing& passing) {
      return std::abs(passing.changed.global_batch - start_.global_batch);
    };
    std::stable_sort(passing_.begin(), passing_.end(),
                     [&](const Passing& a, const Passing& b) { return distance(a) < distance(b); });
    std::vector<Fix> fixes;
    for (const Passing& passing : passing_) {
      if (distance(passing) == 0) continue;
      if (fixes.size() == kMostBatchFixes) break;
      fixes.push_back(make_fix(passing.changed));
    }
    return fixes;
  }

  const Job& job_;
  const Changed start_;
  std::set<std::pair<std::string, int64_t>> seen_;
  std::vector<Passing> passing_;
};

}  // namespace

std::string layout_changes(const LayoutConfig& from, const LayoutConfig& to) {
  const auto before = layout_keys(from), after = layout_keys(to);
  std::string text;
  for (size_t i = 0; i < after.size(); ++i) {
    if (after[i] == before[i]) continue;
    if (!text.empty()) text += ',';
    text += after[i].first.substr(kLayoutPrefix.size()) + "=" + after[i].second;
  }
  return text;
}

std::vector<Fix> find_fixes(const Job& job, const LayoutConfig& layout,
                            const std::vector<Violation>& violations) {
  return FixSearch(job, layout).run(violations);
}

}  // namespace plait

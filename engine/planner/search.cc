#include "engine/planner/search.h"

#include <algorithm>
#include <limits>
#include <map>
#include <queue>
#include <string_view>
#include <tuple>
#include <utility>

#include "engine/planner/enumerate.h"
#include "engine/planner/fixes.h"
#include "engine/planner/layout_keys.h"

namespace plait {
namespace {

constexpr int64_t kMostWalked = int64_t{1} << 25;  // passes of all schedules of a search
constexpr double kRounding = 1e-12;  // of bounds, which sum in another order than the simulation

/// A set of broken rules, few first.
using Reason = std::vector<std::string_view>;

struct Rejected {
  LayoutConfig layout;
  int64_t bytes = 0;  ///< of the fullest rank, where all rules but memory are kept
};

/// In how many numbers two layouts differ.
int64_t layout_distance(const LayoutConfig& a, const LayoutConfig& b) {
  return int64_t{a.tensor != b.tensor} + (a.pipeline != b.pipeline) + (a.data != b.data) +
         (a.interleave != b.interleave) + (a.micro_batch != b.micro_batch) +
         (a.schedule != b.schedule) + (a.zero != b.zero) +
         (a.sequence_parallel != b.sequence_parallel) + (a.recompute != b.recompute) +
         (a.stage_layers != b.stage_layers);
}

int64_t largest_bytes(const Estimate& estimate) {
  return estimate.memory[static_cast<size_t>(estimate.fullest)].total();
}

/// The k least of the times that were seen.
class LeastTimes {
 public:
  explicit LeastTimes(int64_t most) : most_(static_cast<size_t>(most)) {}

  void add(double seconds) {
    best_ = std::min(best_, seconds);
    times_.push(seconds);
    if (times_.size() > most_) times_.pop();
  }

  /// Slower than this is neither among the k nor a tie with the best.
  double limit(double band) const {
    if (times_.size() < most_) return std::numeric_limits<double>::infinity();
    return std::max(times_.top(), best_ * (1 + band / 2));
  }
  double best() const { return best_; }

 private:
  size_t most_;
  double best_ = std::numeric_limits<double>::infinity();
  std::priority_queue<double> times_;  // the slowest on top
};

class Search {
 public:
  Search(const Job& job, const LayoutConfig& fixed)
      : job_(job), fixed_(fixed), band_(band_of(job).relative) {}

  SearchResult run() && {
    enumerate_layouts(job_, fixed_, [&](const LayoutConfig& layout) { consider(layout); });
    simulate_best();
    add_rejected();
    return std::move(result_);
  }

 private:
  struct Feasible {
    LayoutConfig layout;
    double bound = 0;
  };

  void consider(const LayoutConfig& layout) {
    if (look_at(layout) || layout.zero != 1 || !is_free(fixed_, "layout.zero")) return;
    // What no longer fits with a part of the states alone may fit with less of the gradients.
    const bool admits_more = layout.schedule != ScheduleChoice::kZeroBubble &&
                             job_.precision.reduction != ReductionChoice::kCanonical &&
                             layout.data * layout.micro_batch != job_.train.global_batch;
    if (!admits_more) return;
    LayoutConfig sharded = layout;
    sharded.zero = 2;
    look_at(sharded);
  }

  /// False where memory alone is the reason against it.
  bool look_at(const LayoutConfig& layout) {
    ++result_.tried;
    const std::vector<Violation> violations = violated_rules(job_, layout);
    if (!violations.empty()) {
      reject(violations, {layout, 0});
      return true;
    }
    const Estimate priced = price(job_, layout);
    std::vector<Violation> memory;
    if (fits(job_, priced, &memory)) {
      feasible_.push_back({layout, priced.bound_seconds});
      return true;
    }
    reject(memory, {layout, memory[0].first});
    return false;
  }

  void reject(const std::vector<Violation>& violations, Rejected rejected) {
    ++result_.rejected;
    Reason reason;
    for (const Violation& violation : violations) {
      if (std::find(reason.begin(), reason.end(), violation.word) == reason.end()) {
        reason.push_back(violation.word);
      }
    }
    rejected_[reason].push_back(std::move(rejected));
  }

  /// In the order of the bounds, until the next one lies behind all that will be listed.
  void simulate_best() {
    std::stable_sort(feasible_.begin(), feasible_.end(),
                     [](const Feasible& a, const Feasible& b) { return a.bound < b.bound; });
    LeastTimes times(job_.top);
    std::vector<Candidate> seen;
    int64_t left = kMostWalked;
    for (const Feasible& next : feasible_) {
      if (next.bound * (1 - kRounding) > times.limit(band_)) break;
      const LayoutConfig& layout = next.layout;
      left -= micro_batches(job_, layout) * layout.pipeline * layout.interleave;
      if (left < 0 && !seen.empty()) break;
      Candidate candidate;
      candidate.estimate = estimate(job_, next.layout);
      candidate.is_feasible = true;
      times.add(candidate.estimate.step_seconds);
      seen.push_back(std::move(candidate));
    }
    result_.simulated = static_cast<int64_t>(seen.size());
    std::erase_if(seen, [&](const Candidate& candidate) {
      return candidate.estimate.step_seconds > times.limit(band_);
    });
    result_.skipped = static_cast<int64_t>(feasible_.size() - seen.size());
    list(std::move(seen), times.best() * (1 + band_ / 2));
  }

  /// By time, memory, text.
  void list(std::vector<Candidate> seen, double tie_limit) {
    using Key = std::tuple<double, int64_t, std::string, size_t>;
    std::vector<Key> keys;
    for (size_t i = 0; i < seen.size(); ++i) {
      const Estimate& of = seen[i].estimate;
      keys.emplace_back(of.step_seconds, largest_bytes(of), layout_text(of.layout), i);
    }
    std::sort(keys.begin(), keys.end());
    const bool has_ties = keys.size() > 1 && std::get<double>(keys[1]) <= tie_limit;
    for (const auto& [seconds, bytes, text, index] : keys) {
      Candidate& candidate = seen[index];
      candidate.is_tie = has_ties && seconds <= tie_limit;
      candidate.warnings = layout_warnings(job_, candidate.estimate);
      result_.candidates.push_back(std::move(candidate));
    }
  }

  void add_rejected() {
    const size_t listed = result_.candidates.size();
    LayoutConfig reference;
    if (listed > 0) reference = result_.candidates[0].estimate.layout;
    for (auto& [reason, count] : reason_counts()) {
      result_.candidates.push_back(example(rejected_[reason], reference, listed > 0));
      result_.candidates.back().count = count;
    }
    std::stable_sort(result_.candidates.begin() + static_cast<std::ptrdiff_t>(listed),
                     result_.candidates.end(), [](const Candidate& a, const Candidate& b) {
                       return std::make_tuple(a.violations.size(), -a.count) <
                              std::make_tuple(b.violations.size(), -b.count);
                     });
    if (listed == 0) look_further();
  }

  /// A layout that breaks more rules than another one says nothing new: it counts as the other.
  std::map<Reason, int64_t> reason_counts() const {
    std::map<Reason, int64_t> counts;
    for (const auto& [words, layouts] : rejected_) {
      const Reason& reason = words;  // what a lambda may capture
      const Reason* least = &reason;
      for (const auto& [other, unused] : rejected_) {
        const bool is_part = std::all_of(other.begin(), other.end(), [&](std::string_view word) {
          return std::find(reason.begin(), reason.end(), word) != reason.end();
        });
        if (is_part && other.size() < least->size()) least = &other;
      }
      counts[*least] += static_cast<int64_t>(layouts.size());
    }
    return counts;
  }

  /// The layout most like the best one; without one, that which lacks least memory.
  Candidate example(const std::vector<Rejected>& group, const LayoutConfig& reference,
                    bool has_best) const {
    const auto key = [&](const Rejected& rejected) {
      const int64_t distance = layout_distance(rejected.layout, reference);
      return has_best ? std::make_tuple(distance, rejected.bytes)
                      : std::make_tuple(rejected.bytes, distance);
    };
    const Rejected& nearest =
        *std::min_element(group.begin(), group.end(),
                          [&](const Rejected& a, const Rejected& b) { return key(a) < key(b); });
    Candidate candidate;
    candidate.estimate.layout = nearest.layout;
    candidate.violations = violated_rules(job_, nearest.layout);
    if (candidate.violations.empty()) {
      candidate.estimate = estimate(job_, nearest.layout);
      fits(job_, candidate.estimate, &candidate.violations);
    }
    candidate.fixes = find_fixes(job_, nearest.layout, candidate.violations);
    return candidate;
  }

  /// Nothing is feasible: what the free keys would have to say, or how large the world to be.
  void look_further() {
    for (const Candidate& candidate : result_.candidates) {
      if (!candidate.fixes.empty()) return;
    }
    LayoutConfig free = fixed_;
    free.auto_keys.clear();
    for (const auto& [key, value] : layout_keys(fixed_)) free.auto_keys.push_back(key);
    free.stage_layers.clear();
    if (fixed_.auto_keys.size() < free.auto_keys.size()) {
      const SearchResult any = Search(job_, free).run();
      result_.smallest_world = any.smallest_world;
      if (any.candidates.empty() || !any.candidates[0].is_feasible) return;
      const Estimate& best = any.candidates[0].estimate;
      Candidate& first = result_.candidates[0];
      first.fixes.push_back({best.layout, layout_changes(first.estimate.layout, best.layout), 0,
                             best.step_seconds, largest_bytes(best)});
      return;
    }
    result_.smallest_world = smallest_larger_world(job_);
  }

  const Job& job_;
  const LayoutConfig& fixed_;
  const double band_;
  SearchResult result_;
  std::vector<Feasible> feasible_;
  std::map<Reason, std::vector<Rejected>> rejected_;
};

}  // namespace

SearchResult search(const Job& job, const LayoutConfig& fixed) { return Search(job, fixed).run(); }

std::string layout_text(const LayoutConfig& layout) {
  LayoutConfig usual;
  usual.tensor = usual.pipeline = usual.data = 0;  // always told
  usual.interleave = 1;
  if (layout.interleave > 1) usual.schedule = ScheduleChoice::kInterleaved;
  return layout_changes(usual, layout);
}

}  // namespace plait

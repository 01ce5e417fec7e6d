#include "engine/data/blend.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kOne = int64_t{1} << 32;  // one sample, in units of credit
constexpr int64_t kRecentSpacing = 1024;
constexpr int64_t kRecent = 32;
constexpr int64_t kAnchors = 64;
constexpr int64_t kFirstAnchorSpacing = 65536;

using Wide = __int128;

/// ⌊2³²·w/Σw⌋, at least 1; the rest goes to the largest, the lowest of equals.
std::vector<int64_t> integer_weights(const std::vector<double>& weights) {
  double sum = 0;
  for (size_t j = 0; j < weights.size(); ++j) {
    if (!(weights[j] > 0) || !std::isfinite(weights[j])) {
      throw Error("argument", "a weight of a blend is not positive and finite")
          .with("index", j)
          .with("got", weights[j]);
    }
    sum += weights[j];
  }
  if (weights.empty() || !std::isfinite(sum)) {
    throw Error("argument", "a blend needs weights with a finite sum").with("sets", weights.size());
  }
  std::vector<int64_t> out;
  int64_t rest = kOne;
  for (const double weight : weights) {
    const double share = std::floor(weight / sum * static_cast<double>(kOne));
    out.push_back(std::clamp<int64_t>(static_cast<int64_t>(share), 1, kOne));
    rest -= out.back();
  }
  *std::max_element(out.begin(), out.end()) += rest;
  if (*std::min_element(out.begin(), out.end()) < 1) {
    throw Error("argument", "a blend of too many sets").with("sets", weights.size());
  }
  return out;
}

}  // namespace

Blend::Blend(const std::vector<double>& weights)
    : weights_(integer_weights(weights)),
      credits_(weights_.size(), 0),
      state_{0, std::vector<int64_t>(weights_.size(), 0)},
      recent_(kRecent, state_),
      anchors_(kAnchors, state_),
      anchor_spacing_(kFirstAnchorSpacing) {
  int64_t divisor = kOne;
  for (const int64_t weight : weights_) divisor = std::gcd(divisor, weight);
  period_ = kOne / divisor;
}

Draw Blend::next() {
  if (state_.ordinal % kRecentSpacing == 0) remember();
  const int64_t count = sets();
  const int64_t d = std::max<int64_t>(1, 2 * count - 2);
  int64_t best = -1, best_numerator = 0;
  for (int64_t j = 0; j < count; ++j) {
    const size_t at = static_cast<size_t>(j);
    credits_[at] += weights_[at];
    if (d * credits_[at] < kOne) continue;
    const int64_t numerator = (d - 1) * kOne - d * credits_[at];
    if (best < 0 || static_cast<Wide>(numerator) * weights_[static_cast<size_t>(best)] <
                        static_cast<Wide>(best_numerator) * weights_[at]) {
      best = j;
      best_numerator = numerator;
    }
  }
  check(best >= 0, "a blend always has an eligible set");
  const size_t at = static_cast<size_t>(best);
  credits_[at] -= kOne;
  ++state_.ordinal;
  return {best, state_.drawn[at]++};
}

void Blend::remember() {
  recent_[static_cast<size_t>(recent_next_)] = state_;
  recent_next_ = (recent_next_ + 1) % kRecent;
  if (state_.ordinal % anchor_spacing_ != 0) return;
  for (int64_t i = 0; i < anchor_count_; ++i) {
    if (anchors_[static_cast<size_t>(i)].ordinal == state_.ordinal) return;
  }
  while (anchor_count_ == kAnchors) thin_anchors();
  if (state_.ordinal % anchor_spacing_ != 0) return;
  anchors_[static_cast<size_t>(anchor_count_++)] = state_;
}

void Blend::thin_anchors() {
  anchor_spacing_ *= 2;
  int64_t kept = 0;
  for (int64_t i = 0; i < anchor_count_; ++i) {
    BlendState& anchor = anchors_[static_cast<size_t>(i)];
    if (anchor.ordinal % anchor_spacing_ == 0) {
      std::swap(anchors_[static_cast<size_t>(kept++)], anchor);
    }
  }
  anchor_count_ = kept;
}

void Blend::load(const BlendState& state) {
  state_ = state;
  for (size_t j = 0; j < weights_.size(); ++j) {
    credits_[j] = static_cast<int64_t>(static_cast<Wide>(weights_[j]) * state.ordinal -
                                       static_cast<Wide>(kOne) * state.drawn[j]);
  }
}

void Blend::seek(int64_t ordinal) {
  if (ordinal < 0) {
    throw Error("argument", "an ordinal of a sample is negative").with("got", ordinal);
  }
  if (ordinal == state_.ordinal) return;
  const BlendState* best = state_.ordinal <= ordinal ? &state_ : nullptr;
  const auto consider = [&](const BlendState& other) {
    if (other.ordinal <= ordinal && (best == nullptr || other.ordinal > best->ordinal)) {
      best = &other;
    }
  };
  for (const BlendState& other : recent_) consider(other);
  for (int64_t i = 0; i < anchor_count_; ++i) consider(anchors_[static_cast<size_t>(i)]);
  const int64_t base = ordinal - ordinal % period_;
  if (best == nullptr || best->ordinal < base) {
    // All credits are 0 at multiples of the period, which gives the drawn counts.
    state_.ordinal = base;
    for (size_t j = 0; j < weights_.size(); ++j) {
      state_.drawn[j] = static_cast<int64_t>(static_cast<Wide>(weights_[j]) * base / kOne);
      credits_[j] = 0;
    }
  } else if (best != &state_) {
    load(*best);
  }
  while (state_.ordinal < ordinal) next();
}

void Blend::seek(const BlendState& state) {
  bool is_possible = state.ordinal >= 0 && state.drawn.size() == weights_.size();
  Wide sum = 0;
  for (size_t j = 0; is_possible && j < weights_.size(); ++j) {
    const Wide credit =
        static_cast<Wide>(weights_[j]) * state.ordinal - static_cast<Wide>(kOne) * state.drawn[j];
    is_possible = state.drawn[j] >= 0 && credit > -kOne && credit < kOne;
    sum += state.drawn[j];
  }
  if (!is_possible || sum != state.ordinal) {
    throw Error("argument", "no run of these weights has drawn these counts")
        .with("ordinal", state.ordinal)
        .with("sets", weights_.size());
  }
  load(state);
}

}  // namespace plait

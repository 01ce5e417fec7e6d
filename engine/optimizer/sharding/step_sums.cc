#include "engine/optimizer/sharding/step_sums.h"

#include <algorithm>
#include <cmath>

#include "kernels/base/mutation.h"
#include "kernels/ops/span.h"

namespace plait {
namespace {

/// Eight bytes that travel: three for LocalSums, then one for each tensor's squares.
union Word {
  double real;
  int64_t integer;
};
constexpr int64_t kLoss = 0, kTargets = 1, kStop = 2, kSquares = 3;

/// visit(gradient, segment, place) for what [window] holds of all partial fragments laid end to
/// end; place is an element of the window.
template <class Visit>
void walk_partial(const ShardedChunks& chunks, UnitRange window, Visit visit) {
  int64_t place = 0;
  for (const auto& units : chunks) {
    for (const ShardedUnit& unit : units) {
      const TensorView gradient = unit.slice_gradient(GradientUse::kFirst);
      for (const Fragment& fragment : unit.slice_fragments()) {
        if (!fragment.segment->is_partial) continue;
        const UnitRange part = intersect({place, fragment.range.count}, window);
        if (part.count > 0) {
          const int64_t first = fragment.range.first - unit.slice().first + part.first - place;
          visit(gradient.slice_rows(first, part.count), *fragment.segment,
                part.first - window.first);
        }
        place += fragment.range.count;
      }
    }
  }
}

int64_t partial_elements(const ShardedChunks& chunks) {
  int64_t count = 0;
  for (const auto& units : chunks) {
    for (const ShardedUnit& unit : units) {
      for (const Fragment& fragment : unit.slice_fragments()) {
        if (fragment.segment->is_partial) count += fragment.range.count;
      }
    }
  }
  return count;
}

/// Whether this rank's copy of the fragment is the one that the world counts.
bool is_counted(const Fragment& fragment, const Counting& counting) {
  const bool is_replica = fragment.segment->first_holder != counting.tensor_index;
  const bool is_tied_copy = fragment.tensor == counting.uncounted_tensor;
  return (!is_replica || is_mutated(Mutation::kReplicaCounted)) &&
         (!is_tied_copy || is_mutated(Mutation::kTiedCopyCounted));
}

/// words ← Σ over the group. Replicated: loss and targets are equal on its members.
void add_over(Communicator& group, int64_t count, bool is_replicated, Word* words, Word* all) {
  group.all_gather_bytes(words, count * static_cast<int64_t>(sizeof(Word)), all);
  std::copy_n(all, count, words);
  for (int64_t member = 1; member < group.size(); ++member) {
    const Word* other = all + member * count;
    if (!is_replicated) {
      words[kLoss].real += other[kLoss].real;
      const Word* counted = is_mutated(Mutation::kTargetsNotSummed) ? all : other;
      words[kTargets].integer += counted[kTargets].integer;
    }
    words[kStop].integer = std::max(words[kStop].integer, other[kStop].integer);
    for (int64_t i = kSquares; i < count; ++i) words[i].real += other[i].real;
  }
}

}  // namespace

void sum_partial_segments(OpContext& context, const ShardedChunks& chunks, Communicator& tensor) {
  if (tensor.size() == 1 || is_mutated(Mutation::kPartialTermsSkipped)) return;
  const int64_t total = partial_elements(chunks);
  for (int64_t first = 0; first < total; first += kSumChunk) {
    const UnitRange window{first, std::min(kSumChunk, total - first)};
    Workspace::Frame frame(context.workspace);
    const TensorView own = frame.tensor(DType::kFloat32, {window.count});
    const TensorView all = frame.tensor(DType::kFloat32, {tensor.size() * window.count});
    walk_partial(chunks, window, [&](TensorView gradient, const Segment&, int64_t place) {
      convert_span(context, gradient, own.slice_rows(place, gradient.elements()));
    });
    if (!context.is_measuring()) tensor.all_gather(own, all);
    walk_partial(chunks, window, [&](TensorView gradient, const Segment& segment, int64_t place) {
      for (int64_t i = 0; i < segment.holders; ++i) {
        const int64_t row = (segment.first_holder + i) * window.count + place;
        const TensorView term = all.slice_rows(row, gradient.elements());
        i == 0 ? convert_span(context, term, gradient) : add_span(context, term, gradient);
      }
    });
  }
}

void sum_tied_ends(OpContext& context, const ShardedUnit& unit, const TiedEnd& end) {
  if (is_mutated(Mutation::kTiedSumSkipped)) return;
  const TensorView gradient = unit.slice_gradient(GradientUse::kFirst);
  for (int64_t first = 0; first < gradient.elements(); first += kSumChunk) {
    const TensorView own =
        gradient.slice_rows(first, std::min(kSumChunk, gradient.elements() - first));
    Workspace::Frame frame(context.workspace);
    const TensorView other = frame.tensor(DType::kFloat32, own.shape);
    if (!context.is_measuring()) {
      const MessageKey key{first / kSumChunk, 0};
      end.pipeline->send(end.peer, Lane::kTied, key, own);
      end.pipeline->receive(end.peer, Lane::kTied, key, other);
      end.pipeline->wait_sent(end.peer, Lane::kTied);
    }
    if (end.is_owner) {
      add_span(context, other, own);
    } else {  // the same two operands in the same order
      add_span(context, own, other);
      convert_span(context, other, own);
    }
  }
}

void sum_tied_uses(OpContext& context, const ShardedUnit& unit) {
  add_span(context, unit.slice_gradient(GradientUse::kSecond),
           unit.slice_gradient(GradientUse::kFirst));
}

void sum_squares_by_tensor(OpContext& context, const ShardedChunks& chunks,
                           const Counting& counting, const Squares& squares) {
  if (!context.is_measuring()) std::fill_n(squares.values, squares.tensors, 0.0);
  for (const auto& units : chunks) {
    for (const ShardedUnit& unit : units) {
      const TensorView gradient = is_mutated(Mutation::kForeignSliceCounted)
                                      ? unit.gradient(GradientUse::kFirst)
                                      : unit.slice_gradient(GradientUse::kFirst);
      for (const Fragment& fragment : unit.slice_fragments()) {
        if (!is_counted(fragment, counting)) continue;
        const int64_t first = fragment.range.first - unit.slice().first;
        const double sum = sum_squares(context, gradient.slice_rows(first, fragment.range.count));
        if (!context.is_measuring()) squares.values[fragment.tensor] += sum;
      }
    }
  }
}

int64_t world_sum_bytes(int64_t tensors) {
  return (kSquares + tensors) * static_cast<int64_t>(sizeof(Word));
}

int64_t largest_group(const StepGroups& groups) {
  return std::max({groups.data->size(), groups.tensor->size(), groups.pipeline->size()});
}

GlobalSums add_over_world(const StepGroups& groups, const LocalSums& sums, const Squares& squares,
                          void* scratch) {
  const int64_t count = kSquares + squares.tensors;
  Word* words = static_cast<Word*>(scratch);
  Word* all = words + count;
  words[kLoss].real = sums.loss;
  words[kTargets].integer = sums.targets;
  words[kStop].integer = sums.stop;
  for (int64_t i = 0; i < squares.tensors; ++i) words[kSquares + i].real = squares.values[i];
  add_over(*groups.data, count, false, words, all);
  add_over(*groups.tensor, count, true, words, all);
  add_over(*groups.pipeline, count, false, words, all);
  GlobalSums result;
  result.loss = words[kLoss].real;
  result.targets = words[kTargets].integer;
  result.stop = words[kStop].integer;
  for (int64_t i = 0; i < squares.tensors; ++i) {
    const double square = words[kSquares + i].real;
    squares.values[i] = square;
    result.squares += square;
    if (result.first_nonfinite < 0 && !std::isfinite(square)) result.first_nonfinite = i;
  }
  return result;
}

}  // namespace plait

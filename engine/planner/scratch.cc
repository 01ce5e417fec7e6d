// The functions mirror the frames of the engine's workspace: what a function takes is added to the
// most that one of the calls inside takes.
#include "engine/planner/scratch.h"

#include <algorithm>
#include <bit>

namespace plait {
namespace {

/// Of one piece of scratch memory.
constexpr int64_t taken(int64_t bytes) { return round_up_to(bytes, 64); }

constexpr int64_t kWord = 8;
/// Most elements that a sum over the tensor axis or a tied swap moves at a time.
constexpr int64_t kSumChunk = int64_t{1} << 18;
/// Data coordinates up to which each one's slices are looked at.
constexpr int64_t kMostSlices = 64;

class Passes {
 public:
  Passes(const RankShare& share, const KernelSizes& kernels)
      : s_(share),
        kernels_(kernels),
        stream_(taken(s_.stream_rows * s_.hidden * s_.compute)),
        gathered_(s_.is_cut ? taken(s_.rows * s_.hidden * s_.compute) : 0),
        attention_(taken(kernels.attention_bytes(s_.job.train.sequence_length, s_.head_size))),
        norm_(taken(kernels.norm_bytes(s_.stream_rows, s_.hidden))),
        projection_(linear(s_.projection(), s_.rows)),
        output_(linear(s_.output(), s_.rows)),
        up_(linear(s_.up(), s_.rows)),
        down_(linear(s_.down(), s_.rows)) {}

  int64_t bytes() const {
    int64_t most = 0;
    if (s_.layers > 0) most = std::max(block_forward(), block_backward());
    if (s_.is_first) most = std::max(most, embedding());
    if (s_.is_last) most = std::max({most, head(), norm_});
    return std::max(most, transfer());
  }

 private:
  int64_t linear(const LinearShare& linear, int64_t rows) const {
    return taken(kernels_.linear_bytes(linear, rows));
  }
  /// Terms of lanes that wait in a tree of sums.
  int64_t waiting(int64_t term) const {
    return term * (std::bit_width(static_cast<uint64_t>(s_.lanes)) - 1);
  }

  int64_t block_forward() const {
    const int64_t products = gathered_ + std::max({projection_, output_, up_, down_});
    return stream_ + waiting(stream_) + std::max(products, attention_);
  }

  /// A column linear's backward pass has gathered inputs and terms of gradients at once where its
  /// two parts run together.
  int64_t block_backward() const {
    const int64_t column = s_.is_split ? gathered_ : 2 * gathered_;
    const int64_t middle = taken(s_.rows * s_.heads * s_.head_size * s_.compute);
    const int64_t inner = s_.is_gated ? taken(s_.rows * s_.feed_forward * s_.compute) : 0;
    const int64_t attention =
        middle + std::max({gathered_ + output_, attention_, column + projection_});
    const int64_t feed_forward = inner + std::max(gathered_ + down_, column + up_);
    return stream_ + std::max(norm_, waiting(stream_) + std::max(attention, feed_forward));
  }

  int64_t embedding() const {
    const auto table = [this](int64_t rows, int64_t table_rows) {
      return taken(kernels_.embedding_bytes(rows, table_rows));
    };
    const int64_t positions = s_.is_gated ? 0 : table(s_.stream_rows, s_.model.sequence_length);
    const int64_t gradients = s_.is_cut ? taken(s_.rows * s_.hidden * s_.residual) : 0;
    const int64_t tokens = gradients + table(s_.rows, s_.vocabulary);
    const int64_t forward = s_.tensor > 1 ? stream_ + gathered_ : 0;
    return std::max({forward, positions, tokens});
  }

  /// Final norm, and for a run of rows logits with their statistics, the join of those, and the
  /// gradient of the logits in the compute dtype.
  int64_t head() const {
    const int64_t rows = s_.logit_rows(), width = s_.vocabulary / s_.lanes;
    const int64_t lane = taken(rows * width * kFloatBytes) + taken(rows * kFloatBytes) +
                         taken(2 * rows * kFloatBytes);
    const int64_t product = linear(s_.head(), rows);
    const int64_t join = s_.lanes > 1 || s_.tensor > 1 ? taken(rows * kFloatBytes) : 0;
    const int64_t gradient = s_.compute == kFloatBytes ? 0 : taken(rows * width * s_.compute);
    const int64_t backward = waiting(taken(rows * s_.hidden * s_.compute)) + gradient + product;
    return stream_ + 2 * gathered_ + s_.lanes * lane + std::max(join, backward);
  }

  /// Slices of a boundary tensor that do not divide it are put together elsewhere.
  int64_t transfer() const {
    const int64_t all = s_.boundary_elements() * s_.tensor;
    if (s_.layout.pipeline == 1 || !s_.is_scattering() || all == s_.stream_rows * s_.hidden)
      return 0;
    return taken(all * s_.residual);
  }

  const RankShare& s_;
  const KernelSizes& kernels_;
  int64_t stream_;    // a tensor like the residual stream, in the compute dtype
  int64_t gathered_;  // its rows of all ranks, where they are cut
  int64_t attention_, norm_, projection_, output_, up_, down_;
};

/// What depends on where slices begin: the most over data coordinates, or `bound` where that is
/// not above `enough` or there are too many coordinates.
template <class At>
int64_t most_of_slices(const RankShare& share, int64_t bound, int64_t enough, At at) {
  if (bound <= enough || share.data > kMostSlices) return bound;
  int64_t most = 0;
  for (int64_t data = 0; data < share.data; ++data) most = std::max(most, at(data));
  return most;
}

int64_t largest_group(const RankShare& share) {
  return std::max({share.tensor, share.layout.pipeline, share.data});
}

/// Terms of tensor-partial gradients: the rank's own and those of all members.
int64_t partial_sum(const RankShare& share, int64_t enough) {
  if (share.tensor == 1) return 0;
  const auto bytes = [&](int64_t elements) {
    const int64_t chunk = std::min(elements, kSumChunk);
    return chunk == 0 ? 0 : taken(chunk * kFloatBytes) + taken(share.tensor * chunk * kFloatBytes);
  };
  return most_of_slices(share, bytes(share.elements() / share.data), enough,
                        [&](int64_t data) { return bytes(share.partial_elements(data)); });
}

/// Largest part of one tensor in a slice of its unit, of those that this rank's norm counts.
int64_t largest_fragment(const RankShare& share) {
  int64_t most = 0;
  for (const UnitShare& unit : share.units) {
    const bool is_copy = unit.kind == UnitKind::kToken && !share.is_first;
    if (unit.count == 0 || is_copy) continue;
    const int64_t slice = unit.elements / share.data;
    share.visit_segments(unit.kind, [&](const SegmentShare& segment, int64_t first) {
      const int64_t end = first + segment.elements;
      const int64_t head = std::min((first / slice + 1) * slice, end) - first;
      const int64_t tail = end - std::max(end / slice * slice, first);
      const int64_t middle = segment.elements - head - tail >= slice ? slice : 0;
      most = std::max({most, head, tail, middle});
    });
  }
  return most;
}

/// The sums that close a step.
int64_t closing(const RankShare& share, int64_t enough) {
  constexpr int64_t kBlock = 4096;  // elements of a partial sum of squares
  const int64_t tensors = share.tensors();
  const int64_t blocks = (largest_fragment(share) + kBlock - 1) / kBlock;
  const int64_t squares = taken(tensors * kWord) +
                          taken((3 + tensors) * kWord * (largest_group(share) + 1)) +
                          taken(blocks * kWord);
  const int64_t swapped = share.is_tied_end() ? share.units[0].elements / share.data : 0;
  const int64_t swap = taken(std::min(swapped, kSumChunk) * kFloatBytes);
  const int64_t most = std::max(squares, swap);
  return std::max(most, partial_sum(share, std::max(enough, most)));
}

/// Parts and pieces of values whose hashes are compared.
struct Compared {
  int64_t parts = 0, pieces = 0;
};

Compared compared_values(const RankShare& share, int64_t data) {
  constexpr int64_t kPiece = int64_t{1} << 20;
  const bool has_masters = share.compute != kFloatBytes;
  const int64_t states = has_masters ? 3 : 2;
  const auto pieces = [](int64_t bytes) { return (bytes + kPiece - 1) / kPiece; };
  Compared sum;
  for (const UnitShare& unit : share.units) {
    if (unit.count == 0) continue;
    const int64_t slice = unit.elements / share.data;
    share.visit_segments(unit.kind, [&](const SegmentShare& segment, int64_t first) {
      const int64_t own = shared_elements(first, segment.elements, data * slice, slice);
      const int64_t state = share.layout.zero >= 1 ? own : segment.elements;
      const int64_t weight = share.layout.zero == 3 ? own : segment.elements;
      sum.parts += unit.count * (1 + states);
      sum.pieces +=
          unit.count * (pieces(weight * share.compute) + states * pieces(state * kFloatBytes));
    });
  }
  return sum;
}

/// The comparison of replicas, where a run has both copies and comparisons.
int64_t comparison(const RankShare& share, int64_t enough) {
  const LayoutConfig& layout = share.layout;
  const bool has_copies = share.tensor > 1 || (share.data > 1 && layout.zero < 3) ||
                          (share.model.tied && layout.pipeline > 1);
  if (share.job.train.replica_check_every == 0 || !has_copies) return 0;
  const int64_t world = share.tensor * share.data * layout.pipeline;
  const auto bytes = [&](const Compared& compared, int64_t pieces) {
    return taken(pieces * kWord) + taken(compared.parts * kWord) +
           taken(std::max<int64_t>(compared.parts, 4) * largest_group(share) * kWord) +
           taken(2 * world * 2 * kWord);
  };
  const Compared first = compared_values(share, 0);
  // Each part of values may have one piece more where its slice begins elsewhere.
  const int64_t bound = bytes(first, first.pieces + (layout.zero == 0 ? 0 : first.parts));
  return most_of_slices(share, bound, enough, [&](int64_t data) {
    return bytes(first, compared_values(share, data).pieces);
  });
}

}  // namespace

int64_t scratch_bytes(const RankShare& share, const KernelSizes& kernels) {
  int64_t most = std::max<int64_t>(Passes(share, kernels).bytes(), 64);
  most = std::max(most, closing(share, most));
  most = std::max(most, comparison(share, most));
  if (!share.is_gated) return most;
  // Each virtual stage has its table of rotations.
  return most +
         share.layout.interleave * share.model.sequence_length * share.head_size * kFloatBytes;
}

}  // namespace plait

#include "engine/planner/traffic.h"

#include <algorithm>
#include <cstdlib>

#include "engine/planner/rank_share.h"

namespace plait {
namespace {

/// A rank's coordinates, as rank = τ + t·(δ + d·π).
struct Place {
  Place(const LayoutConfig& layout, int64_t rank)
      : tensor(rank % layout.tensor),
        data(rank / layout.tensor % layout.data),
        pipeline(rank / (layout.tensor * layout.data)) {}
  int64_t tensor, data, pipeline;
};

/// Members of an axis and this rank among them.
struct Group {
  int64_t size, index;
  int64_t others() const { return size - 1; }
};

/// Small buffers go whole to every member; of others each member adds up a slice, which all get.
int64_t all_reduce_bytes(const Group& group, int64_t elements, int64_t element) {
  const int64_t bytes = elements * element;
  const bool is_direct = bytes <= 1024 || bytes * group.others() <= 16384;
  if (is_direct) return bytes * group.others();
  const auto until = [&](int64_t member) { return elements * member / group.size; };
  const int64_t own = (until(group.index + 1) - until(group.index)) * element;
  return bytes - own + own * group.others();
}

/// Of what closes a step: loss, targets, stop and the squares of every tensor.
int64_t closing_bytes(const RankShare& share, const Group& group) {
  return int64_t{sizeof(double)} * (3 + share.tensors()) * group.others();
}

/// Boundary tensors that the rank sends and receives by a micro-batch in one direction each.
struct Boundaries {
  explicit Boundaries(const RankShare& share) {
    const int64_t chunks = share.layout.interleave;
    after = chunks - (share.is_last ? 1 : 0);
    before = chunks - (share.is_first ? 1 : 0);
  }
  int64_t both() const { return after + before; }
  int64_t before, after;  ///< towards lower stages, towards higher ones
};

int64_t boundary_bytes(const RankShare& share) {
  return share.micro_batches * share.boundary_elements() * share.residual;
}

/// Own slice of a tied table's gradient, to the other end.
int64_t swapped_bytes(const RankShare& share) {
  if (!share.is_tied_end()) return 0;
  return share.job.profile.gradient_bytes * share.units[0].elements / share.data;
}

/// Largest logits of rows, then their sums with the targets' logits, run by run.
int64_t loss_bytes(const RankShare& share, const Group& group) {
  const auto run = [&](int64_t rows) {
    return all_reduce_bytes(group, rows, kFloatBytes) +
           all_reduce_bytes(group, 2 * rows, kFloatBytes);
  };
  const int64_t step = share.logit_rows(), rest = share.rows % step;
  return share.rows / step * run(step) + (rest > 0 ? run(rest) : 0);
}

AxisTraffic tensor_traffic(const RankShare& share, const Place& at) {
  const Group group{share.tensor, at.tensor};
  AxisTraffic sent;
  if (group.size == 1) return sent;
  const int64_t first = share.is_first ? 1 : 0, last = share.is_last ? 1 : 0;
  // A layer's two sums each way, two more where it is run again; the lookup; the gradient of the
  // head's input.
  const int64_t replays = share.is_replaying ? 2 : 0;
  const int64_t sums = share.layers * (4 + replays) + first + last;
  const int64_t whole = share.rows * share.hidden, m = share.micro_batches;
  const int64_t loss = last * loss_bytes(share, group);
  sent.all_gather =
      group.others() * kFloatBytes * share.partial_elements(at.data) + closing_bytes(share, group);
  if (!share.is_cut) {
    sent.all_reduce = m * (sums * all_reduce_bytes(group, whole, share.compute) + loss);
    if (share.layout.pipeline == 1 || !share.is_scattering()) return sent;
    sent.all_gather += group.others() * Boundaries(share).both() * boundary_bytes(share);
    return sent;
  }
  const int64_t part = whole / group.size;
  // Parts of a split backward pass gather both operands of a row linear each.
  const int64_t gathers = share.layers * (6 + (share.is_split ? 2 : 0) + replays) + last;
  sent.all_reduce = m * loss;
  sent.reduce_scatter = m * group.others() * sums * share.compute * part;
  sent.all_gather += m * group.others() * part * (gathers * share.compute + first * share.residual);
  return sent;
}

/// Gathers of a unit's weights by a micro-batch where they are not kept: each use brings them in. A
/// replay comes between a layer's uses, and leaves the last layer of its run there.
int64_t weight_gathers(const RankShare& share, UnitKind kind) {
  switch (kind) {
    case UnitKind::kToken:
      return share.units[0].uses;
    case UnitKind::kPosition:
    case UnitKind::kHead:
      return 1;
    case UnitKind::kFinalNorm:
      return 2;
    case UnitKind::kLayer:
      break;
  }
  if (!share.is_replaying) return 2 * share.layers;
  int64_t runs = 0;
  for (int64_t chunk = 0; chunk < share.layout.interleave; ++chunk) {
    const int64_t layers = share.stage(chunk).layers, run = share.layout.recompute_layers;
    runs += (layers + run - 1) / run;
  }
  return 3 * share.layers - runs;
}

AxisTraffic data_traffic(const RankShare& share, const Place& at) {
  const Group group{share.data, at.data};
  AxisTraffic sent;
  if (group.size == 1) return sent;
  const int64_t zero = share.layout.zero, gradient = share.job.profile.gradient_bytes;
  const auto others = [&](int64_t elements) { return elements / group.size * group.others(); };
  sent.reduce_scatter =
      gradient * others(share.elements_of_uses()) * (zero < 2 ? 1 : share.micro_batches);
  sent.all_gather = closing_bytes(share, group);
  if (zero == 0) {
    sent.all_gather += gradient * others(share.elements());
  } else if (zero < 3) {
    sent.all_gather += share.compute * others(share.elements());
  } else {
    for (const UnitShare& unit : share.units) {
      if (unit.count == 0) continue;
      sent.all_gather += share.micro_batches * share.compute * weight_gathers(share, unit.kind) *
                         others(unit.elements);
    }
  }
  return sent;
}

AxisTraffic pipeline_traffic(const RankShare& share) {
  const Group group{share.layout.pipeline, share.pipeline};
  AxisTraffic sent;
  if (group.size == 1) return sent;
  sent.all_gather = closing_bytes(share, group);
  sent.send_receive = Boundaries(share).both() * boundary_bytes(share) + swapped_bytes(share);
  return sent;
}

/// Of ranks begin … begin + count − 1 those that share a node with the rank `apart` behind them.
int64_t near_pairs(int64_t begin, int64_t count, int64_t apart, int64_t node) {
  if (apart >= node) return 0;
  const auto below = [&](int64_t end) {
    return end / node * (node - apart) + std::min(end % node, node - apart);
  };
  return below(begin + count) - below(begin);
}

/// Edges of the rings of `tensor` ranks each, among `count` ranks, whose ends share a node.
int64_t near_tensor_edges(int64_t begin, int64_t count, int64_t tensor, int64_t node) {
  if (node % tensor == 0) return count;
  if (tensor % node == 0) return count - count / node;
  int64_t near = 0;
  for (int64_t first = begin; first < begin + count; first += tensor) {
    near += near_pairs(first, tensor - 1, 1, node);
    near += near_pairs(first, 1, tensor - 1, node);
  }
  return near;
}

}  // namespace

RankTraffic rank_traffic(const Job& job, const LayoutConfig& layout, int64_t rank) {
  const Place at(layout, rank);
  const RankShare share(job, layout, at.pipeline);
  return {tensor_traffic(share, at), pipeline_traffic(share), data_traffic(share, at)};
}

LevelTraffic level_traffic(const Job& job, const LayoutConfig& layout) {
  const int64_t t = layout.tensor, p = layout.pipeline, node = job.hardware.node_devices;
  const int64_t ranks = t * layout.data;  // of a stage
  LevelTraffic sum;
  for (int64_t pipeline = 0; pipeline < p; ++pipeline) {
    const int64_t begin = pipeline * ranks;
    // Ranks of a stage send alike, but for where slices begin.
    const RankShare share(job, layout, pipeline);
    const RankTraffic sent = rank_traffic(job, layout, begin);
    const Boundaries boundaries(share);
    const auto add = [&](int64_t within, int64_t bytes) {
      sum.node += static_cast<double>(within) * static_cast<double>(bytes);
      sum.fabric += static_cast<double>(ranks - within) * static_cast<double>(bytes);
    };
    const auto to_stage = [&](int64_t stage) {
      const int64_t other = (stage + p) % p * ranks;
      return near_pairs(std::min(begin, other), ranks, std::abs(begin - other), node);
    };
    add(near_tensor_edges(begin, ranks, t, node), sent.tensor.total());
    add(near_pairs(begin, ranks - t, t, node) + near_pairs(begin, t, ranks - t, node),
        sent.data.total());
    add(to_stage(pipeline + 1),
        sent.pipeline.all_gather + boundaries.after * boundary_bytes(share));
    add(to_stage(pipeline - 1), boundaries.before * boundary_bytes(share));
    add(to_stage(p - 1 - pipeline), swapped_bytes(share));
  }
  const double world = static_cast<double>(ranks) * static_cast<double>(p);
  sum.node /= world;
  sum.fabric /= world;
  return sum;
}

}  // namespace plait

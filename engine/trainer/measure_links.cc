#include "engine/trainer/measure_links.h"

#include <algorithm>
#include <utility>

#include "engine/comm/mesh.h"
#include "engine/trainer/measure_fit.h"

namespace plait {
namespace {

constexpr int64_t kLeastMessage = 4 << 10, kFirstLarge = 1 << 20, kMostMessage = 256 << 20;
/// A line that is further off at some size keeps its points.
constexpr double kMostResidual = 0.15;

/// Seconds of `call` by size. Ends early where the next size would take too long.
template <class Call>
std::vector<TimedSize> time_sizes(MeasureRank& rank, const LinkProbe& probe, Call call) {
  std::vector<TimedSize> timed;
  for (const int64_t bytes : probe.sizes) {
    if (!timed.empty()) {
      const double growth = static_cast<double>(bytes) / timed.back().size;
      const bool is_large = bytes > 2 * kFirstLarge;
      if (is_large && timed.back().seconds * growth * 4 > probe.effort.longest) break;
    }
    const TensorView message = rank.message(bytes);
    const double seconds = rank.time(probe.effort, [&] { call(message); });
    timed.push_back({static_cast<double>(bytes), seconds});
  }
  return timed;
}

CollectiveLine collective_line(const GroupTiling& tiling, const std::vector<TimedSize>& timed) {
  const double members = static_cast<double>(tiling.members);
  const LineFit fit = fit_line(timed, 2 * (members - 1) / members, kFirstLarge);
  CollectiveLine line;
  line.members_per_node = tiling.shape.members_per_node;
  line.nodes = tiling.shape.nodes;
  line.alpha_seconds = fit.alpha_seconds;
  line.bytes_per_second = fit.rate;
  line.residual = fit.residual;
  if (fit.residual <= kMostResidual) return line;
  for (const TimedSize& point : timed) line.points.emplace_back(point.size, point.seconds);
  return line;
}

/// Every member sends to the next one at the same time.
TransferLine transfer_line(MeasureRank& rank, const LinkProbe& probe, Communicator& group) {
  const int64_t members = group.size();
  const int64_t next = (group.index() + 1) % members;
  const int64_t before = (group.index() + members - 1) % members;
  const std::vector<TimedSize> timed = time_sizes(rank, probe, [&](TensorView message) {
    const int64_t half = message.elements() / 2;
    const TensorView from = message.slice_rows(0, half), to = message.slice_rows(half, half);
    group.send(next, Lane::kForward, {}, from);
    group.receive(before, Lane::kForward, {}, to);
    group.wait_sent(next, Lane::kForward);
  });
  // Half of the memory is sent.
  const LineFit fit = fit_line(timed, 0.5, kFirstLarge);
  return {fit.alpha_seconds, fit.rate};
}

/// Latency of a gather as a share of an all-reduce's.
double half_alpha(MeasureRank& rank, const LinkProbe& probe, Communicator& group) {
  const int64_t part = kLeastMessage / 4 / group.size();
  const TensorView whole = rank.message(4 * std::max<int64_t>(part, 1) * group.size());
  const TensorView own = whole.slice_rows(group.index() * (whole.elements() / group.size()),
                                          whole.elements() / group.size());
  const double gather = rank.time(probe.effort, [&] { group.all_gather(own, whole); });
  const double sum = rank.time(probe.effort, [&] { group.all_reduce(whole); });
  return std::min(gather / sum, 1.0);
}

}  // namespace

std::vector<GroupTiling> group_tilings(int64_t world, int64_t node_devices) {
  Hardware nodes;
  nodes.node_devices = node_devices;
  std::vector<GroupTiling> tilings;
  for (int64_t members = 2; members <= world; ++members) {
    if (world % members != 0) continue;
    for (int64_t stride = 1; stride <= world / members; ++stride) {
      if ((world / members) % stride != 0) continue;
      const GroupTiling tiling = {members, stride, group_shape(nodes, members, stride)};
      const bool is_known = std::any_of(tilings.begin(), tilings.end(), [&](const auto& other) {
        return other.shape.members_per_node == tiling.shape.members_per_node &&
               other.shape.nodes == tiling.shape.nodes;
      });
      if (!is_known) tilings.push_back(tiling);
    }
  }
  return tilings;
}

std::vector<int64_t> message_sizes(int64_t most_bytes, int64_t message_bytes) {
  std::vector<int64_t> sizes;
  for (int64_t bytes = kLeastMessage; bytes < kFirstLarge; bytes *= 4) sizes.push_back(bytes);
  for (int64_t bytes = kFirstLarge; bytes <= std::min(most_bytes, kMostMessage); bytes *= 2) {
    sizes.push_back(bytes);
  }
  const int64_t message = message_bytes / 8 * 8;
  if (message >= kLeastMessage && message <= most_bytes) sizes.push_back(message);
  std::sort(sizes.begin(), sizes.end());
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  return sizes;
}

LinkCosts measure_links(MeasureRank& rank, const LinkProbe& probe) {
  LinkCosts costs;
  uint32_t group_id = probe.first_group;
  for (const GroupTiling& tiling : probe.tilings) {
    const Mesh mesh(tiling.stride, rank.world() / (tiling.stride * tiling.members), tiling.members);
    Communicator& group = rank.join("links", group_id++, mesh.group(Axis::kData, rank.rank()));
    costs.collectives.push_back(collective_line(
        tiling, time_sizes(rank, probe, [&](TensorView message) { group.all_reduce(message); })));
    // The first tiling inside a node, and the first whose members are all on nodes of their own.
    const bool is_node = tiling.shape.nodes == 1;
    const bool is_fabric = !is_node && tiling.shape.members_per_node == 1;
    if (is_node && !costs.node) costs.node = transfer_line(rank, probe, group);
    if (is_fabric && !costs.fabric) costs.fabric = transfer_line(rank, probe, group);
    if (tiling.members == rank.world())
      costs.half_collective_alpha = half_alpha(rank, probe, group);
  }
  return costs;
}

}  // namespace plait

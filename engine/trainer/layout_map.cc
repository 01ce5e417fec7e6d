#include "engine/trainer/layout_map.h"

#include <string>
#include <unordered_map>

#include "checkpoint/store/boxes.h"
#include "engine/comm/mesh.h"
#include "engine/model/logical_tensors.h"
#include "engine/model/stage.h"
#include "engine/optimizer/sharding/sharded_unit.h"
#include "engine/trainer/layer_split.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

Mesh layout_mesh(const LayoutConfig& layout) {
  return Mesh(layout.tensor, layout.pipeline, layout.data);
}

/// One computing thread, any machine: what is declared does not depend on the device.
std::unique_ptr<Device> declaring_device() {
  DeviceOptions options;
  options.threads = 1;
  return make_device(options);
}

/// A stage without slots: it declares its units and keeps no activations.
StageOptions declaring_options(const Settings& settings, const Coordinates& at, int64_t chunk) {
  const LayoutConfig& layout = settings.layout;
  const auto runs = split_layers(settings.model, layout);
  const int64_t index = chunk * layout.pipeline + at.pipeline;
  StageOptions options;
  options.model = {settings.model, settings.precision, settings.train, settings.seed};
  options.layout = layout;
  options.first_layer = runs[static_cast<size_t>(index)].first;
  options.layers = runs[static_cast<size_t>(index)].second;
  options.is_first = index == 0;
  options.is_last = index + 1 == static_cast<int64_t>(runs.size());
  options.slots = 0;
  options.max_rows = 0;
  options.tensor = tensor_group(settings, at);
  return options;
}

}  // namespace

/// Cuts the units of one rank.
class LayoutMap::Cutter {
 public:
  Cutter(const LayoutMap& map, int64_t rank)
      : map_(map), layout_(map.settings_.layout), at_(layout_mesh(layout_).coordinates(rank)) {
    const std::vector<SavedTensor>& tensors = map.tensors_.tensors;
    for (size_t i = 0; i < tensors.size(); ++i) {
      indexes_[tensors[i].name] = static_cast<int64_t>(i);
    }
    is_state_whole_ = Wholeness::of(layout_.zero, layout_.data).state;
  }

  std::vector<StatePiece> cut(std::span<const StateKind> kinds) {
    for (int64_t chunk = 0; chunk < layout_.interleave; ++chunk) {
      const Stage stage(declaring_options(map_.settings_, at_, chunk), *map_.device_);
      for (const auto& unit : stage.units()) cut_unit(*unit, kinds);
    }
    settle_owners(&pieces_, is_state_whole_, layout_.data, at_.data);
    return std::move(pieces_);
  }

 private:
  void cut_unit(const Unit& unit, std::span<const StateKind> kinds) {
    UnitRange range{0, unit.elements()};
    if (!is_state_whole_) {
      range.count /= layout_.data;
      range.first = at_.data * range.count;
    }
    for (const auto& parameter : unit.parameters()) {
      for (const Segment& segment : parameter->segments) {
        const auto [first, count] = parameter->range(segment);
        const int64_t start = parameter->offset + first;
        const UnitRange part = plait::intersect({start, count}, range);
        if (part.count > 0) cut_segment(segment, {part.first - start, part.count}, kinds);
      }
    }
  }

  void cut_segment(const Segment& segment, UnitRange range, std::span<const StateKind> kinds) {
    const bool is_tied_copy =
        map_.settings_.model.tied && at_.pipeline > 0 && segment.name == "embedding.token.weight";
    StatePiece piece;
    piece.tensor = indexes_.at(segment.name);
    piece.is_owned = segment.first_holder == at_.tensor && !is_tied_copy;
    for (const Box& box : cut_range(segment.box, range.first, range.count)) {
      piece.box = box;
      for (const StateKind kind : kinds) {
        piece.kind = kind;
        pieces_.push_back(piece);
      }
    }
  }

  const LayoutMap& map_;
  const LayoutConfig& layout_;
  Coordinates at_;
  bool is_state_whole_ = true;
  std::unordered_map<std::string, int64_t> indexes_;
  std::vector<StatePiece> pieces_;
};

LayoutMap::LayoutMap(const Settings& settings)
    : settings_(settings),
      device_(declaring_device()),
      tensors_(sorted_tensors(logical_tensors(settings.model))) {
  check(settings.layout.auto_keys.empty(), "a layout has numbers for all its degrees");
}

int64_t LayoutMap::world() const { return layout_mesh(settings_.layout).world(); }

ShardPlace LayoutMap::place(int64_t rank) const {
  const Coordinates at = layout_mesh(settings_.layout).coordinates(rank);
  return {static_cast<uint32_t>(rank), static_cast<uint32_t>(at.tensor),
          static_cast<uint32_t>(at.pipeline), static_cast<uint32_t>(at.data)};
}

std::vector<StatePiece> LayoutMap::pieces(int64_t rank, std::span<const StateKind> kinds) const {
  return Cutter(*this, rank).cut(kinds);
}

}  // namespace plait

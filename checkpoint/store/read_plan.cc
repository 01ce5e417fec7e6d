#include "checkpoint/store/read_plan.h"

#include <algorithm>
#include <tuple>

#include "checkpoint/store/boxes.h"

namespace plait {
namespace {

/// All targets of one (tensor, kind), by first of the first dim, and the slices that there are.
struct SweepGroup {
  std::span<const uint32_t> targets;
  std::span<const SliceRef> slices;
};

Error target_error(const OpenStep& step, const ReadTarget& target, const char* what) {
  const auto tensors = static_cast<int64_t>(step.manifest.tensors.size());
  const bool is_known = target.tensor >= 0 && target.tensor < tensors;
  return Error("invariant", what)
      .with("tensor", is_known ? step.manifest.tensors[static_cast<size_t>(target.tensor)].name
                               : std::to_string(target.tensor))
      .with("kind", state_kind_name(target.kind))
      .with("box", box_text(target.box));
}

bool lies_in(const Box& box, const Shape& shape) {
  if (box.dims != shape.dims()) return false;
  for (int d = 0; d < box.dims; ++d) {
    if (box.first[d] < 0 || box.size[d] < 0 || box.size[d] > shape[d]) return false;
    if (box.first[d] > shape[d] - box.size[d]) return false;
  }
  return true;
}

void check_target(const OpenStep& step, const ReadTarget& target) {
  const std::vector<SavedTensor>& tensors = step.manifest.tensors;
  const bool is_known = target.tensor >= 0 && target.tensor < static_cast<int64_t>(tensors.size());
  const TensorState* state = is_known ? step.manifest.state(target.tensor, target.kind) : nullptr;
  if (state == nullptr) throw target_error(step, target, "a target that the step does not have");
  if (!lies_in(target.box, tensors[static_cast<size_t>(target.tensor)].shape)) {
    throw target_error(step, target, "a target outside its tensor");
  }
  const bool is_half = state->dtype == DType::kBFloat16 || state->dtype == DType::kFloat16;
  const bool is_widened = is_half && target.dtype == DType::kFloat32;
  if (target.dtype != state->dtype && !is_widened) {
    throw target_error(step, target, "a target of another type")
        .with("want", dtype_name(target.dtype))
        .with("got", dtype_name(state->dtype));
  }
}

int64_t row_end(const Box& box) { return box.first[0] + box.size[0]; }

/// One group, with a set of what is open on either side. Both sides arrive by first row.
class RowSweep {
 public:
  RowSweep(const OpenStep& step, std::span<const ReadTarget> targets, const SweepGroup& group)
      : step_(step), targets_(targets), group_(group) {}

  void run(std::vector<ReadHit>* hits) {
    size_t s = 0, t = 0;
    while (s < group_.slices.size() || t < group_.targets.size()) {
      const bool is_last = t == group_.targets.size();
      if (is_last && open_targets_.empty()) return;
      if (is_last ||
          (s < group_.slices.size() && slice_box(s).first[0] <= target_box(t).first[0])) {
        add_slice(group_.slices[s++], hits);
      } else {
        add_target(group_.targets[t++], hits);
      }
    }
  }

 private:
  const Box& slice_box(size_t i) const { return step_.slice(group_.slices[i]).box; }
  const Box& target_box(size_t i) const { return targets_[group_.targets[i]].box; }

  void add_slice(SliceRef ref, std::vector<ReadHit>* hits) {
    const Box& box = step_.slice(ref).box;
    std::erase_if(open_targets_,
                  [&](uint32_t t) { return row_end(targets_[t].box) <= box.first[0]; });
    for (const uint32_t t : open_targets_) {
      if (intersect(box, targets_[t].box)) hits->push_back({ref, t});
    }
    open_slices_.push_back(ref);
  }

  void add_target(uint32_t target, std::vector<ReadHit>* hits) {
    const Box& box = targets_[target].box;
    std::erase_if(open_slices_,
                  [&](SliceRef ref) { return row_end(step_.slice(ref).box) <= box.first[0]; });
    for (const SliceRef ref : open_slices_) {
      if (intersect(step_.slice(ref).box, box)) hits->push_back({ref, target});
    }
    open_targets_.push_back(target);
  }

  const OpenStep& step_;
  std::span<const ReadTarget> targets_;
  SweepGroup group_;
  std::vector<uint32_t> open_targets_;
  std::vector<SliceRef> open_slices_;
};

/// `hits`: of this target alone.
void require_filled(const OpenStep& step, const ReadTarget& target, std::span<const ReadHit> hits) {
  std::vector<Box> parts;
  parts.reserve(hits.size());
  for (const ReadHit& hit : hits) {
    parts.push_back(*intersect(step.slice(hit.slice).box, target.box));
  }
  if (parts.size() == 1 && parts[0] == target.box) return;
  const std::optional<CoverageFault> fault = find_fault(target.box, parts);
  if (!fault) return;
  const bool is_twice = fault->kind == CoverageFault::Kind::kTwice;
  throw target_error(
      step, target,
      is_twice ? "elements of a target come twice" : "an element of a target comes from nowhere")
      .with("fault", box_text(fault->box));
}

void plan_group(const OpenStep& step, std::span<const ReadTarget> targets, const SweepGroup& group,
                std::vector<ReadHit>* hits) {
  const size_t before = hits->size();
  RowSweep(step, targets, group).run(hits);
  std::sort(hits->begin() + static_cast<int64_t>(before), hits->end(),
            [](const ReadHit& a, const ReadHit& b) { return a.target < b.target; });
  std::vector<uint32_t> wanted(group.targets.begin(), group.targets.end());
  std::sort(wanted.begin(), wanted.end());
  size_t begin = before;
  for (const uint32_t target : wanted) {
    size_t end = begin;
    while (end < hits->size() && (*hits)[end].target == target) ++end;
    require_filled(step, targets[target], std::span(*hits).subspan(begin, end - begin));
    begin = end;
  }
}

}  // namespace

std::vector<ReadHit> plan_read(const OpenStep& step, std::span<const ReadTarget> targets) {
  std::vector<uint32_t> wanted;
  for (size_t i = 0; i < targets.size(); ++i) {
    check_target(step, targets[i]);
    if (targets[i].box.elements() > 0) wanted.push_back(static_cast<uint32_t>(i));
  }
  const auto state_of = [&](uint32_t i) { return std::tie(targets[i].tensor, targets[i].kind); };
  std::sort(wanted.begin(), wanted.end(), [&](uint32_t a, uint32_t b) {
    if (state_of(a) != state_of(b)) return state_of(a) < state_of(b);
    return targets[a].box.first[0] < targets[b].box.first[0];
  });
  std::vector<ReadHit> hits;
  for (size_t begin = 0, end = 0; begin < wanted.size(); begin = end) {
    while (end < wanted.size() && state_of(wanted[end]) == state_of(wanted[begin])) ++end;
    const ReadTarget& first = targets[wanted[begin]];
    const SweepGroup group{std::span(wanted).subspan(begin, end - begin),
                           step.slices_of(first.tensor, first.kind)};
    plan_group(step, targets, group, &hits);
  }
  std::sort(hits.begin(), hits.end(), [](const ReadHit& a, const ReadHit& b) {
    return std::tie(a.slice.file, a.slice.slice, a.target) <
           std::tie(b.slice.file, b.slice.slice, b.target);
  });
  return hits;
}

}  // namespace plait

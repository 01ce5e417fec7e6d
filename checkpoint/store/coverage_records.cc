#include <algorithm>
#include <cstddef>
#include <utility>

#include "checkpoint/store/boxes.h"
#include "checkpoint/store/shard_writer.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

struct HeldSlice {
  const Slice* slice = nullptr;
  uint32_t ordinal = 0;
};

Error coverage_error(const char* sentence, const SavedTensor& tensor, StateKind kind,
                     const Box& box) {
  return Error("invariant", sentence)
      .with("tensor", tensor.name)
      .with("kind", state_kind_name(kind))
      .with("box", box_text(box));
}

/// All slices by (tensor, kind).
std::vector<HeldSlice> held_slices(std::span<const ShardRecord> records) {
  std::vector<HeldSlice> held;
  size_t count = 0;
  for (const ShardRecord& record : records) count += record.slices.size();
  held.reserve(count);
  for (const ShardRecord& record : records) {
    for (const Slice& slice : record.slices) held.push_back({&slice, record.file.ordinal});
  }
  std::stable_sort(held.begin(), held.end(), [](const HeldSlice& a, const HeldSlice& b) {
    return std::pair(a.slice->tensor, a.slice->kind) < std::pair(b.slice->tensor, b.slice->kind);
  });
  return held;
}

/// Proves that a slice is one of a state of the manifest.
void check_held(const Manifest& manifest, const HeldSlice& held) {
  const Slice& slice = *held.slice;
  if (slice.tensor >= manifest.tensors.size()) {
    throw Error("invariant", "a shard holds a slice of no tensor")
        .with("ordinal", held.ordinal)
        .with("tensor", slice.tensor)
        .with("tensors", manifest.tensors.size());
  }
  const SavedTensor& tensor = manifest.tensors[slice.tensor];
  const TensorState* state = manifest.state(slice.tensor, slice.kind);
  const auto fault = [&](const char* sentence) {
    return coverage_error(sentence, tensor, slice.kind, slice.box).with("ordinal", held.ordinal);
  };
  if (state == nullptr) throw fault("a shard holds a slice of a kind that its tensor lacks");
  if (state->dtype != slice.dtype) throw fault("a shard holds a slice of another dtype");
  bool is_inside = slice.box.dims == tensor.shape.dims();
  for (int dim = 0; is_inside && dim < slice.box.dims; ++dim) {
    const int64_t first = slice.box.first[dim], size = slice.box.size[dim];
    is_inside = first >= 0 && size > 0 && size <= tensor.shape[dim] - first;
  }
  if (!is_inside) throw fault("a shard holds a slice that does not lie in its tensor");
  if (slice.bytes != slice.box.elements() * dtype_size(slice.dtype)) {
    throw fault("a shard holds a slice of another length");
  }
}

void cover_state(const SavedTensor& tensor, TensorState* state, std::span<const HeldSlice> held) {
  std::vector<Box> boxes;
  boxes.reserve(held.size());
  uint64_t digest = 0;
  for (const HeldSlice& one : held) {
    boxes.push_back(one.slice->box);
    digest += one.slice->digest;
  }
  if (const auto fault = find_fault(Box::whole(tensor.shape), boxes)) {
    const bool is_twice = fault->kind == CoverageFault::Kind::kTwice;
    throw coverage_error(is_twice ? "two slices of the shards share elements"
                                  : "no slice of the shards holds an element",
                         tensor, state->kind, fault->box);
  }
  state->elements = tensor.shape.elements();
  state->digest = digest;
}

std::vector<SavedFile> covered_files(std::span<const ShardRecord> records) {
  std::vector<SavedFile> files;
  for (const ShardRecord& record : records) {
    if (!record.slices.empty()) files.push_back(record.file);
  }
  std::sort(files.begin(), files.end(),
            [](const SavedFile& a, const SavedFile& b) { return a.ordinal < b.ordinal; });
  const auto twin = std::adjacent_find(
      files.begin(), files.end(),
      [](const SavedFile& a, const SavedFile& b) { return a.ordinal == b.ordinal; });
  if (twin != files.end()) {
    throw Error("invariant", "two shards have one ordinal").with("ordinal", twin->ordinal);
  }
  return files;
}

}  // namespace

void cover(Manifest* manifest, std::span<const ShardRecord> records) {
  std::vector<SavedFile> files = covered_files(records);
  const std::vector<HeldSlice> held = held_slices(records);
  for (const HeldSlice& one : held) check_held(*manifest, one);
  // Both run by (tensor, kind), and each slice has its state.
  size_t next = 0;
  for (size_t t = 0; t < manifest->tensors.size(); ++t) {
    SavedTensor& tensor = manifest->tensors[t];
    for (TensorState& state : tensor.states) {
      const size_t first = next;
      while (next < held.size() && held[next].slice->tensor == t &&
             held[next].slice->kind == state.kind) {
        ++next;
      }
      cover_state(tensor, &state, std::span(held).subspan(first, next - first));
    }
  }
  manifest->files = std::move(files);
}

}  // namespace plait

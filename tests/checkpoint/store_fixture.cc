#include "tests/checkpoint/store_fixture.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <utility>

#include "checkpoint/format/digest.h"
#include "checkpoint/store/boxes.h"

namespace plait {
namespace {

uint64_t dtype_mask(DType dtype) {
  const int64_t bits = dtype_size(dtype) * 8;
  return bits == 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1;
}

/// Calls `body` with the row-major index in the whole tensor of each element of `box`, in order.
template <class Body>
void for_each_index(const Box& box, const Shape& shape, Body body) {
  std::array<int64_t, Shape::kMaxDims> at{};
  for (int64_t n = box.elements(); n > 0; --n) {
    int64_t index = 0;
    for (int d = 0; d < box.dims; ++d) index = index * shape[d] + box.first[d] + at[d];
    body(index);
    for (int d = box.dims - 1; d >= 0 && ++at[d] == box.size[d]; --d) at[d] = 0;
  }
}

int64_t pick(std::mt19937_64* random, int64_t below) {
  return static_cast<int64_t>((*random)() % static_cast<uint64_t>(below));
}

void add_cut(const Box& box, int64_t parts, std::mt19937_64* random, std::vector<Box>* out) {
  const int64_t elements = box.elements();
  if (parts <= 1 || elements <= 1) {
    out->push_back(box);
    return;
  }
  const int64_t left = parts / 2;
  if (pick(random, 4) == 0) {  // as a flat slice of an optimizer is cut
    const int64_t middle = pick(random, elements + 1);
    for (const Box& part : cut_range(box, 0, middle)) add_cut(part, 1, random, out);
    for (const Box& part : cut_range(box, middle, elements - middle)) {
      add_cut(part, 1, random, out);
    }
    return;
  }
  const auto dim = static_cast<int>(pick(random, box.dims));
  const int64_t middle = pick(random, box.size[dim] + 1);
  Box lower = box, upper = box;
  lower.size[dim] = middle;
  upper.first[dim] += middle;
  upper.size[dim] -= middle;
  if (middle > 0) add_cut(lower, left, random, out);
  if (middle < box.size[dim]) add_cut(upper, parts - left, random, out);
}

std::vector<Shape> shapes_of(const Manifest& manifest) {
  std::vector<Shape> shapes;
  for (const SavedTensor& tensor : manifest.tensors) shapes.push_back(tensor.shape);
  return shapes;
}

/// What the ranks exchange before they know the identity of a save.
void add_digests(Manifest* manifest, const std::vector<Slice>& slices) {
  for (const Slice& slice : slices) {
    for (TensorState& state : manifest->tensors[slice.tensor].states) {
      if (state.kind == slice.kind) state.digest += slice.digest;
    }
  }
}

void write_manifest(Files& files, const std::string& directory, const Manifest& manifest,
                    uint64_t sequence) {
  const std::string bytes = encode_manifest(manifest, sequence);
  const std::unique_ptr<File> file = files.create_private(join_path(directory, "MANIFEST"));
  file->pwrite(bytes.data(), static_cast<int64_t>(bytes.size()), 0);
}

}  // namespace

uint64_t store_bits(uint32_t tensor, StateKind kind, DType dtype, int64_t index) {
  const uint64_t origin = (uint64_t{tensor} + 1) * 8 + static_cast<uint64_t>(kind);
  return (static_cast<uint64_t>(index) + 1 + (origin << 18)) & dtype_mask(dtype);
}

std::string store_values(uint32_t tensor, StateKind kind, DType dtype, const Box& box,
                         const Shape& shape) {
  const auto size = static_cast<size_t>(dtype_size(dtype));
  std::string bytes(static_cast<size_t>(box.elements()) * size, '\0');
  char* out = bytes.data();
  for_each_index(box, shape, [&](int64_t index) {
    const uint64_t bits = store_bits(tensor, kind, dtype, index);
    std::memcpy(out, &bits, size);
    out += size;
  });
  return bytes;
}

Shape store_shape(const std::vector<int64_t>& sizes) {
  switch (sizes.size()) {
    case 1:
      return {sizes[0]};
    case 2:
      return {sizes[0], sizes[1]};
    case 3:
      return {sizes[0], sizes[1], sizes[2]};
    default:
      return {sizes[0], sizes[1], sizes[2], sizes[3]};
  }
}

SavedTensor store_tensor(const std::string& name, const Shape& shape,
                         const std::vector<std::pair<StateKind, DType>>& states) {
  SavedTensor tensor;
  tensor.name = name;
  tensor.shape = shape;
  for (const auto& [kind, dtype] : states) {
    TensorState state;
    state.kind = kind;
    state.dtype = dtype;
    state.elements = shape.elements();
    tensor.states.push_back(state);
  }
  return tensor;
}

Manifest store_manifest(std::vector<SavedTensor> tensors, int64_t ranks, int64_t step) {
  Manifest manifest;
  manifest.format.writer = "plait 0.1";
  manifest.format.numerics = "device=cpu\n";
  manifest.layout.data = ranks;
  manifest.layout.zero = 1;
  manifest.layout.stage_layers = {2};
  manifest.config = {{"model.hidden", "12"}, {"model.layers", "2"}};
  manifest.progress = {step, step, step * 4, step * 64, 0, 0, 3e-4};
  manifest.scaler = {true, 1024.0, 3, -1};
  manifest.random = {"philox4x32-10", 1, 42};
  manifest.data.order = "feistel";
  manifest.data.order_version = 1;
  manifest.data.seed = 5;
  manifest.data.parts = {{1, 2, 3, 4, -5}, {6, 7, 8, 9, 10}};
  SavedGroup group;
  group.name = "all";
  group.algorithm = "adamw";
  group.weight_decay = 0.1;
  group.beta1 = 0.9;
  group.beta2 = 0.95;
  group.epsilon = 1e-8;
  manifest.groups = {group};
  SavedProperty property;
  property.name = "note";
  property.type = SavedProperty::Type::kText;
  property.text = "a small step";
  manifest.properties = {property};
  manifest.tensors = std::move(tensors);
  return manifest;
}

std::vector<SavedTensor> store_tensors() {
  using Kind = StateKind;
  const std::vector<std::pair<Kind, DType>> trained = {{Kind::kMaster, DType::kFloat32},
                                                       {Kind::kMoment1, DType::kFloat32},
                                                       {Kind::kMoment2, DType::kBFloat16}};
  return {store_tensor("a.bias", {13}, trained),
          store_tensor("b.weight", {7, 11}, trained),
          store_tensor("c.cube", {3, 4, 5}, {{Kind::kParam, DType::kFloat16}}),
          store_tensor("d.table", {2, 3, 4, 5}, {{Kind::kExtra, DType::kInt64}}),
          store_tensor("e.counts", {17}, {{Kind::kExtra, DType::kUInt8}}),
          store_tensor("f.ids", {5, 1, 3}, {{Kind::kExtra, DType::kInt32}})};
}

std::vector<Box> store_cut(const Box& whole, int64_t parts, std::mt19937_64* random) {
  std::vector<Box> boxes;
  add_cut(whole, parts, random, &boxes);
  return boxes;
}

std::vector<StorePiece> store_pieces(const Manifest& manifest, int64_t ranks,
                                     std::mt19937_64* random) {
  std::vector<StorePiece> pieces;
  for (size_t t = 0; t < manifest.tensors.size(); ++t) {
    const SavedTensor& tensor = manifest.tensors[t];
    const auto index = static_cast<uint32_t>(t);
    for (const TensorState& state : tensor.states) {
      for (const Box& box : store_cut(Box::whole(tensor.shape), ranks, random)) {
        pieces.push_back({static_cast<uint32_t>(pick(random, ranks)), index, state.kind,
                          state.dtype, box,
                          store_values(index, state.kind, state.dtype, box, tensor.shape)});
      }
    }
  }
  return pieces;
}

std::vector<StorePiece> store_whole(const Manifest& manifest) {
  std::mt19937_64 unused;
  return store_pieces(manifest, 1, &unused);
}

Manifest write_store(Files& files, const std::string& directory, Manifest manifest,
                     const std::vector<StorePiece>& pieces, uint64_t sequence) {
  std::map<uint32_t, std::vector<SliceSource>> sources;
  for (const StorePiece& piece : pieces) {
    sources[piece.ordinal].push_back(
        {piece.tensor, piece.kind, piece.dtype, piece.box, piece.bytes.data()});
  }
  const std::vector<Shape> shapes = shapes_of(manifest);
  std::vector<std::unique_ptr<ShardWriter>> writers;
  for (auto& [ordinal, slices] : sources) {
    auto writer =
        std::make_unique<ShardWriter>(files, directory, ShardPlace{ordinal, 0, 0, ordinal},
                                      manifest.progress.step, shapes, std::move(slices));
    if (writer->is_empty()) continue;
    writer->write_slices(nullptr, nullptr);
    add_digests(&manifest, writer->slices());
    writers.push_back(std::move(writer));
  }
  seal_identity(&manifest);
  std::vector<ShardRecord> records;
  for (const auto& writer : writers) {
    SavedFile file = writer->finish(manifest.save_id);
    records.push_back({file, writer->slices()});
  }
  const Manifest sealed = manifest;
  cover(&manifest, records);
  for (size_t t = 0; t < manifest.tensors.size(); ++t) {
    for (size_t s = 0; s < manifest.tensors[t].states.size(); ++s) {
      REQUIRE(manifest.tensors[t].states[s].digest == sealed.tensors[t].states[s].digest);
    }
  }
  write_manifest(files, directory, manifest, sequence);
  return manifest;
}

std::vector<ReadTarget> store_targets(std::vector<StorePiece>* pieces) {
  std::vector<ReadTarget> targets;
  for (StorePiece& piece : *pieces) {
    piece.bytes.assign(static_cast<size_t>(piece.box.elements() * dtype_size(piece.dtype)), '\xA5');
    targets.push_back({piece.tensor, piece.kind, piece.box, piece.dtype, piece.bytes.data(), 0});
  }
  return targets;
}

void require_values(const Manifest& manifest, const std::vector<StorePiece>& pieces) {
  for (const StorePiece& piece : pieces) {
    const Shape& shape = manifest.tensors[piece.tensor].shape;
    const std::string want = store_values(piece.tensor, piece.kind, piece.dtype, piece.box, shape);
    if (piece.bytes == want) continue;
    const auto place = std::mismatch(want.begin(), want.end(), piece.bytes.begin()).first;
    const auto size = static_cast<size_t>(dtype_size(piece.dtype));
    const size_t element = static_cast<size_t>(place - want.begin()) / size;
    uint64_t got = 0;
    std::memcpy(&got, piece.bytes.data() + element * size, size);
    FAIL(manifest.tensors[piece.tensor].name << " " << state_kind_name(piece.kind) << " "
                                             << box_text(piece.box) << " element " << element
                                             << " holds " << std::hex << got);
  }
}

void require_readable(const StepReader& reader, std::vector<StorePiece> pieces) {
  std::vector<ReadTarget> targets = store_targets(&pieces);
  reader.read(targets);
  require_values(reader.manifest(), pieces);
  for (size_t i = 0; i < targets.size(); ++i) {
    const Shape& shape = reader.manifest().tensors[pieces[i].tensor].shape;
    REQUIRE(targets[i].digest ==
            digest_box(pieces[i].bytes.data(), pieces[i].dtype, pieces[i].box, shape));
  }
}

MemoryStep::MemoryStep(int64_t ranks, uint64_t seed) {
  std::mt19937_64 random(seed);
  const Manifest fields = store_manifest(store_tensors(), ranks);
  pieces = store_pieces(fields, ranks, &random);
  manifest = write_store(files, "step", fields, pieces);
}

void MemoryStep::read_all(const StepReader& reader) const {
  std::vector<StorePiece> wanted = pieces;
  std::vector<ReadTarget> targets = store_targets(&wanted);
  reader.read(targets);
}

}  // namespace plait

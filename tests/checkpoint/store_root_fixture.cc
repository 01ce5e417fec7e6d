#include "tests/checkpoint/store_root_fixture.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "checkpoint/store/boxes.h"
#include "checkpoint/store/root_files.h"
#include "checkpoint/store/step_reader.h"
#include "kernels/base/error.h"

namespace plait::test {
namespace {

uint64_t next_value(uint64_t* state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 33;
}

void add_tensor(Manifest* manifest, const char* name, const Shape& shape,
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
  manifest->tensors.push_back(tensor);
}

Manifest small_manifest(int64_t step, int64_t ranks) {
  Manifest manifest;
  manifest.format.writer = "plait test";
  manifest.format.numerics = "device=cpu\n";
  manifest.layout.data = ranks;
  manifest.layout.stage_layers = {2};
  manifest.config = {{"model.hidden", "12"}, {"model.layers", "2"}};
  manifest.progress.step = step;
  manifest.progress.samples = step * 4;
  manifest.progress.lr = 0.001;
  manifest.random = {"philox4x32", 1, 7};
  manifest.data.order = "host";
  SavedGroup group;
  group.name = "all";
  group.algorithm = "adamw";
  manifest.groups = {group};
  const auto kF32 = DType::kFloat32;
  add_tensor(&manifest, "a", {5, 7}, {{StateKind::kMaster, kF32}, {StateKind::kMoment1, kF32}});
  add_tensor(&manifest, "b", {3, 2, 5}, {{StateKind::kParam, DType::kBFloat16}});
  add_tensor(&manifest, "c", {11}, {{StateKind::kExtra, DType::kUInt8}});
  return manifest;
}

/// What is wrong with LATEST.
std::string latest_fault(Files& files, const std::string& root, const std::vector<int64_t>& steps) {
  const std::string path = join_path(root, RootNames::kLatest);
  if (!files.exists(path)) return "";
  const std::string text = read_file(files, path, 4096);
  const std::optional<int64_t> step = parse_latest(text);
  if (!step) return "LATEST is damaged; ";
  if (std::count(steps.begin(), steps.end(), *step) == 0) return "LATEST names no step; ";
  return "";
}

std::vector<RankShard> rank_shards(const SmallState& state, std::span<Files* const> ranks) {
  std::vector<RankShard> shards;
  for (int64_t rank = 0; rank < state.ranks(); ++rank) {
    shards.push_back({ranks[static_cast<size_t>(rank)], state.place(rank), state.sources(rank)});
  }
  return shards;
}

}  // namespace

SmallState::SmallState(int64_t step, int64_t ranks)
    : ranks_(ranks), manifest_(small_manifest(step, ranks)) {
  fill();
}

void SmallState::fill() {
  uint64_t random = static_cast<uint64_t>(manifest_.progress.step) * 1000003 + 17;
  for (size_t t = 0; t < manifest_.tensors.size(); ++t) {
    const SavedTensor& tensor = manifest_.tensors[t];
    const int64_t elements = tensor.shape.elements();
    for (const TensorState& state : tensor.states) {
      const int64_t size = dtype_size(state.dtype);
      values_.emplace_back(static_cast<size_t>(elements * size));
      for (char& byte : values_.back()) byte = static_cast<char>(next_value(&random));
      int64_t at = 0;
      for (int64_t rank = 0; rank < ranks_; ++rank) {
        const int64_t first = elements * rank / ranks_, end = elements * (rank + 1) / ranks_;
        for (const Box& box : cut_range(Box::whole(tensor.shape), first, end - first)) {
          SliceSource source;
          source.tensor = static_cast<uint32_t>(t);
          source.kind = state.kind;
          source.dtype = state.dtype;
          source.box = box;
          source.data = values_.back().data() + at;
          cuts_.push_back({rank, source});
          at += box.elements() * size;
        }
      }
    }
  }
}

std::vector<Shape> SmallState::shapes() const {
  std::vector<Shape> shapes;
  for (const SavedTensor& tensor : manifest_.tensors) shapes.push_back(tensor.shape);
  return shapes;
}

std::vector<SliceSource> SmallState::sources(int64_t rank) const {
  std::vector<SliceSource> sources;
  for (const Cut& cut : cuts_) {
    if (cut.rank == rank) sources.push_back(cut.source);
  }
  return sources;
}

ShardPlace SmallState::place(int64_t rank) const {
  return {static_cast<uint32_t>(rank), 0, 0, static_cast<uint32_t>(rank)};
}

int64_t SmallState::bytes() const {
  int64_t bytes = 0;
  for (const std::vector<char>& values : values_) bytes += static_cast<int64_t>(values.size());
  return bytes;
}

Manifest write_shards(std::span<const RankShard> ranks, const std::string& directory,
                      Manifest manifest) {
  std::vector<Shape> shapes;
  for (const SavedTensor& tensor : manifest.tensors) shapes.push_back(tensor.shape);
  std::vector<std::unique_ptr<ShardWriter>> writers;
  std::vector<ShardRecord> records;
  for (const RankShard& rank : ranks) {
    auto writer = std::make_unique<ShardWriter>(*rank.files, directory, rank.place,
                                                manifest.progress.step, shapes, rank.sources);
    if (writer->is_empty()) continue;
    writer->write_slices(nullptr, nullptr);
    ShardRecord record;
    record.file.ordinal = rank.place.ordinal;
    record.slices = writer->slices();
    records.push_back(std::move(record));
    writers.push_back(std::move(writer));
  }
  cover(&manifest, records);
  seal_identity(&manifest);
  for (size_t i = 0; i < writers.size(); ++i)
    records[i].file = writers[i]->finish(manifest.save_id);
  cover(&manifest, records);
  return manifest;
}

Manifest write_shards(Files& files, const std::string& directory, const SmallState& state) {
  const std::vector<Files*> ranks(static_cast<size_t>(state.ranks()), &files);
  return write_shards(rank_shards(state, ranks), directory, state.manifest());
}

std::string save_step(RootWriter& root, Files& files, const SavePlan& plan) {
  const std::array<Files*, 3> ranks = {&files, &files, &files};
  return save_step(root, ranks, plan);
}

std::string save_step(RootWriter& root, std::span<Files* const> ranks, const SavePlan& plan) {
  const SmallState state(plan.step, static_cast<int64_t>(ranks.size()));
  const std::string temporary = root.begin(plan.step, state.bytes(), plan.commit);
  std::string path;
  try {
    const Manifest manifest = write_shards(rank_shards(state, ranks), temporary, state.manifest());
    path = root.commit(temporary, manifest, "{\"host\":\"test\"}\n", plan.commit);
  } catch (...) {
    root.discard(temporary);
    throw;
  }
  if (plan.acknowledged) plan.acknowledged();
  root.point_latest(plan.step);
  root.retain(plan.retention);
  return path;
}

Env env_of(Files& files) { return {files, posix_env().clock, posix_env().entropy}; }

int64_t newest_step(Files& files, const std::string& root, std::string* faults) {
  return find_newest(files, root, faults).step;
}

StepEntry find_newest(Files& files, const std::string& root, std::string* faults) {
  StepEntry newest;
  if (!files.exists(root)) return newest;
  const RootListing listing = list_root(files, root);
  for (const BadStep& bad : listing.bad) {
    // With commit=manifest_last a step without manifest is none, and no fault.
    if (!files.exists(join_path(join_path(root, bad.name), RootNames::kManifest))) continue;
    *faults += bad.name + ": " + bad.reason + "; ";
  }
  std::vector<int64_t> steps;
  for (const StepEntry& entry : listing.steps) {
    steps.push_back(entry.step);
    try {
      const auto reader = StepReader::open(files, join_path(root, entry.name));
      const std::vector<Damage> damage = reader->verify(true);
      for (const Damage& one : damage) *faults += entry.name + ": " + one.what + "; ";
      const bool is_its_step = reader->manifest().progress.step == entry.step;
      if (!is_its_step) *faults += entry.name + " holds another step; ";
      if (newest.step == 0 && damage.empty() && is_its_step) newest = entry;
    } catch (const Error& error) {
      *faults += entry.name + ": " + error.message() + "; ";
    }
  }
  *faults += latest_fault(files, root, steps);
  return newest;
}

std::vector<std::string> other_names(Files& files, const std::string& root) {
  std::vector<std::string> names = files.list(root);
  std::erase_if(names, [](const std::string& name) {
    return name == RootNames::kLock || name == RootNames::kLatest || parse_step_name(name);
  });
  return names;
}

}  // namespace plait::test

// Small checkpoints of index-valued tensors, cut over shards in any way and written by the real
// writers.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/store/shard_writer.h"
#include "checkpoint/store/step_reader.h"
#include "kernels/base/env.h"
#include "tests/support/memory_files.h"

namespace plait {

/// A box of a state as one rank holds it.
struct StorePiece {
  uint32_t ordinal = 0;  ///< of the shard it is written to
  uint32_t tensor = 0;
  StateKind kind = StateKind::kParam;
  DType dtype = DType::kFloat32;
  Box box;
  std::string bytes;  ///< row-major
};

/// Bits of one element, which name tensor, kind and index where they are wide enough.
uint64_t store_bits(uint32_t tensor, StateKind kind, DType dtype, int64_t index);
/// The elements of a box of such a tensor.
std::string store_values(uint32_t tensor, StateKind kind, DType dtype, const Box& box,
                         const Shape& shape);

/// A shape of up to four dims.
Shape store_shape(const std::vector<int64_t>& sizes);
SavedTensor store_tensor(const std::string& name, const Shape& shape,
                         const std::vector<std::pair<StateKind, DType>>& states);

/// Every other field set to something; `ranks` data replicas. Tensors must be sorted by name.
Manifest store_manifest(std::vector<SavedTensor> tensors, int64_t ranks, int64_t step = 7);
/// Six tensors of 1 to 4 dims and of every dtype; kinds differ.
std::vector<SavedTensor> store_tensors();

/// Cuts a box at random into at most `parts` boxes: halves, or ranges of its elements.
std::vector<Box> store_cut(const Box& whole, int64_t parts, std::mt19937_64* random);
/// Every state of the manifest, cut over `ranks` shards, with its values. Some shards may stay
/// empty.
std::vector<StorePiece> store_pieces(const Manifest& manifest, int64_t ranks,
                                     std::mt19937_64* random);
/// Each whole tensor in shard 0.
std::vector<StorePiece> store_whole(const Manifest& manifest);

/// Writes shards, indexes and MANIFEST into `directory`, which exists; returns what it wrote.
Manifest write_store(Files& files, const std::string& directory, Manifest manifest,
                     const std::vector<StorePiece>& pieces, uint64_t sequence = 1);

/// Targets that fill the pieces' bytes, which are resized and poisoned.
std::vector<ReadTarget> store_targets(std::vector<StorePiece>* pieces);
/// Requires that every piece holds what belongs there; the first element that does not is named.
void require_values(const Manifest& manifest, const std::vector<StorePiece>& pieces);
/// Reads the whole step in the cut of `pieces` and requires values and digests.
void require_readable(const StepReader& reader, std::vector<StorePiece> pieces);

/// A small step in memory, in directory "step", and all of it as pieces.
struct MemoryStep {
  MemoryFiles files;
  Manifest manifest;
  std::vector<StorePiece> pieces;

  explicit MemoryStep(int64_t ranks = 3, uint64_t seed = 11);
  std::string& bytes(const std::string& name) { return files.at("step/" + name).bytes; }
  std::unique_ptr<StepReader> open() { return StepReader::open(files, "step"); }
  /// Reads every piece; throws what the reader throws.
  void read_all(const StepReader& reader) const;
};

}  // namespace plait

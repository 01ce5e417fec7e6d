// What is open without an engine: a step of the native format or a Hugging Face directory, behind
// one interface. Any thread may read.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "checkpoint/model_facts.h"
#include "checkpoint/store/step_reader.h"
#include "engine/config/config.h"
#include "kernels/base/env.h"

namespace plait {

/// One (tensor, kind) of it.
struct SourceEntry {
  std::string name;
  StateKind kind = StateKind::kParam;
  DType dtype = DType::kFloat32;  ///< as stored
  Shape shape;
  uint64_t digest = 0;  ///< 0 where the form has none
  int64_t tensor = 0;   ///< index among the sorted names
};

class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;

  /// By name, then kind.
  const std::vector<SourceEntry>& entries() const { return entries_; }
  /// Null for what it does not have.
  const SourceEntry* find(std::string_view name, StateKind kind) const;

  /// By name. The hf.config of a Hugging Face directory is none of them.
  virtual const std::vector<SavedProperty>& properties() const = 0;
  /// Of the model; throws `invalid_field` where the file says nothing that makes one.
  virtual ModelFacts facts() const = 0;
  /// The config.json that the weights came with, or empty.
  virtual std::string hf_config() const = 0;
  /// JSON: step, model, layout, optimizer, data position, digests; or files, warnings, notes.
  virtual std::string report() const = 0;
  /// Null for a Hugging Face directory.
  virtual const Manifest* manifest() const = 0;
  virtual int64_t data_bytes() const = 0;  ///< of all values

  /// The weights of a whole tensor as float32, row-major, proved: from the master if there is one.
  virtual void read_weights(std::string_view name, float* values) const = 0;
  /// A whole entry in its stored type, proved.
  virtual void read_entry(const SourceEntry& entry, void* data) const = 0;
  /// Likewise, as StepReader::map_whole; null for a Hugging Face directory.
  virtual std::unique_ptr<FileMapping> map_entry(const SourceEntry&) const { return nullptr; }
  /// Boxes, proved as far as their form allows; tensors by index among the sorted names. Targets of
  /// a Hugging Face directory are float32.
  virtual void read(std::span<ReadTarget> targets, const std::atomic<bool>* is_cancelled) const = 0;
  /// Everything, as StepReader::verify. A Hugging Face directory has no hashes: its files are read
  /// to the end, and what they say of themselves was proved when it was opened.
  virtual std::vector<Damage> verify(bool is_full, std::atomic<int64_t>* bytes_done,
                                     const std::atomic<bool>* is_cancelled) const = 0;

 protected:
  std::vector<SourceEntry> entries_;
};

/// A root (its newest step that can be read), one step directory, or a Hugging Face directory.
/// Throws `no_file`, `no_checkpoint`, and what its reader throws.
std::unique_ptr<CheckpointSource> open_checkpoint_source(Files& files, const std::string& path);

/// The configuration that a step was saved under, but for what a layout says (keys layout.*,
/// precision.reduction and precision.canonical_*): those come from `layout`.
Config saved_config(const Manifest& manifest, const Config& layout);

/// JSON: the steps of a root, newest first, and what looks like a step and is none, with reasons.
/// `no_checkpoint` when `root` is no directory.
std::string list_checkpoints(Files& files, const std::string& root);

}  // namespace plait

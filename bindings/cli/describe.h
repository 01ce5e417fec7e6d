// Tensors of checkpoints as people and programs read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bindings/cli/handles.h"

namespace plait::cli {

/// One entry, copied out of its handle: a tensor's kind of values, or a property (kind 0).
struct Entry {
  std::string name;
  int64_t kind = 0, dtype = 0, elements = 0;
  std::vector<int64_t> shape;
  bool has_digest = false;
  uint64_t digest = 0;
  int64_t type = 0, integer = 0;  ///< of a property, as the next two
  double real = 0;
  std::string text;
};

Entry entry_at(const Checkpoint& checkpoint, int64_t index);
/// Tensors, then properties.
std::vector<Entry> entries_of(const Checkpoint& checkpoint);

std::string dtype_name(int64_t dtype);
std::string kind_name(int64_t kind);
/// "[50257, 768]".
std::string shape_text(const std::vector<int64_t>& shape);
std::string entry_json(const Entry& entry);
/// Value of a property, as JSON has it.
std::string property_text(const Entry& entry);
/// Equal type and value, reals by their bits.
bool is_same_property(const Entry& a, const Entry& b);

/// "" when both checkpoints hold the same values under `entry`'s name and kind, else where the
/// first difference is: the element and both values.
std::string first_difference(const Checkpoint& first, const Checkpoint& second, const Entry& entry,
                             const Entry& other);

}  // namespace plait::cli

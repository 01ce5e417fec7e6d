// Tensors of checkpoints as people and programs read them.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/handles.h"

namespace plait::cli {

/// One entry, copied out of its handle.
struct Entry {
  std::string name;
  int64_t kind = 0, dtype = 0, elements = 0;
  std::vector<int64_t> shape;
};

Entry entry_at(const Checkpoint& checkpoint, int64_t index);
std::vector<Entry> tensors_of(const Checkpoint& checkpoint);

std::string dtype_name(int64_t dtype);
std::string kind_name(int64_t kind);
/// "[50257, 768]".
std::string shape_text(const std::vector<int64_t>& shape);
std::string entry_json(const Entry& entry);

/// "" when both checkpoints hold the same values under `entry`'s name and kind, else where the
/// first difference is: element number and both values.
std::string first_difference(const Checkpoint& first, const Checkpoint& second, const Entry& entry,
                             const Entry& other);

}  // namespace plait::cli

#include "checkpoint/format/manifest.h"

#include <algorithm>

#include "kernels/base/error.h"

namespace plait {

const char* state_kind_name(StateKind kind) {
  switch (kind) {
    case StateKind::kParam:
      return "param";
    case StateKind::kMaster:
      return "master";
    case StateKind::kMoment1:
      return "moment1";
    case StateKind::kMoment2:
      return "moment2";
    case StateKind::kExtra:
      return "extra";
  }
  return "unknown";
}

int64_t Manifest::find(std::string_view name) const {
  const auto place = std::lower_bound(
      tensors.begin(), tensors.end(), name,
      [](const SavedTensor& tensor, std::string_view key) { return tensor.name < key; });
  return place != tensors.end() && place->name == name ? place - tensors.begin() : -1;
}

const TensorState* Manifest::state(int64_t tensor, StateKind kind) const {
  check(tensor >= 0 && tensor < static_cast<int64_t>(tensors.size()), "a tensor of the manifest");
  for (const TensorState& state : tensors[static_cast<size_t>(tensor)].states) {
    if (state.kind == kind) return &state;
  }
  return nullptr;
}

}  // namespace plait

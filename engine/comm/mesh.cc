#include "engine/comm/mesh.h"

namespace plait {

const char* axis_name(Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return "tensor";
    case Axis::kPipeline:
      return "pipeline";
    case Axis::kData:
      break;
  }
  return "data";
}

int64_t coordinate(const Coordinates& at, Axis axis) {
  switch (axis) {
    case Axis::kTensor:
      return at.tensor;
    case Axis::kPipeline:
      return at.pipeline;
    case Axis::kData:
      break;
  }
  return at.data;
}

int64_t Mesh::size(Axis axis) const { return coordinate({tensor_, pipeline_, data_}, axis); }

Coordinates Mesh::coordinates(int64_t rank) const {
  return {rank % tensor_, rank / (tensor_ * data_), rank / tensor_ % data_};
}

int64_t Mesh::rank(const Coordinates& at) const {
  return at.tensor + tensor_ * (at.data + data_ * at.pipeline);
}

std::vector<int64_t> Mesh::group(Axis axis, int64_t rank) const {
  std::vector<int64_t> ranks;
  Coordinates at = coordinates(rank);
  int64_t* moving = axis == Axis::kTensor     ? &at.tensor
                    : axis == Axis::kPipeline ? &at.pipeline
                                              : &at.data;
  for (*moving = 0; *moving < size(axis); ++*moving) ranks.push_back(this->rank(at));
  return ranks;
}

}  // namespace plait

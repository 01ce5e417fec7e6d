// Rank numbers of PTD-P: rank = τ + t·(δ + d·π).
#include "engine/comm/mesh.h"

#include <catch2/catch.hpp>
#include <set>
#include <vector>

namespace plait::test {

using Ranks = std::vector<int64_t>;

TEST_CASE("sixteen ranks as tensor 2, pipeline 4, data 2", "[comm]") {
  const Mesh mesh(2, 4, 2);
  REQUIRE(mesh.world() == 16);
  CHECK(mesh.group(Axis::kTensor, 0) == Ranks{0, 1});
  CHECK(mesh.group(Axis::kTensor, 3) == Ranks{2, 3});
  CHECK(mesh.group(Axis::kTensor, 14) == Ranks{14, 15});
  CHECK(mesh.group(Axis::kData, 2) == Ranks{0, 2});
  CHECK(mesh.group(Axis::kData, 1) == Ranks{1, 3});
  CHECK(mesh.group(Axis::kData, 4) == Ranks{4, 6});
  CHECK(mesh.group(Axis::kPipeline, 8) == Ranks{0, 4, 8, 12});
  CHECK(mesh.group(Axis::kPipeline, 15) == Ranks{3, 7, 11, 15});
  CHECK(mesh.coordinates(13) == Coordinates{1, 3, 0});
  CHECK(mesh.rank({1, 3, 0}) == 13);
  CHECK(mesh.size(Axis::kTensor) == 2);
  CHECK(mesh.size(Axis::kPipeline) == 4);
  CHECK(mesh.size(Axis::kData) == 2);
}

TEST_CASE("every mesh is cut into groups without rest", "[comm]") {
  for (int64_t tensor : {1, 2, 3}) {
    for (int64_t pipeline : {1, 2, 5}) {
      for (int64_t data : {1, 3, 4}) {
        const Mesh mesh(tensor, pipeline, data);
        for (Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
          std::set<Ranks> groups;
          size_t members = 0;
          for (int64_t rank = 0; rank < mesh.world(); ++rank) {
            const Ranks group = mesh.group(axis, rank);
            const Coordinates at = mesh.coordinates(rank);
            CHECK(mesh.rank(at) == rank);
            CHECK(group[static_cast<size_t>(coordinate(at, axis))] == rank);
            if (groups.insert(group).second) members += group.size();
          }
          CHECK(members == static_cast<size_t>(mesh.world()));
        }
      }
    }
  }
  CHECK(std::string(axis_name(Axis::kTensor)) == "tensor");
  CHECK(std::string(axis_name(Axis::kPipeline)) == "pipeline");
  CHECK(std::string(axis_name(Axis::kData)) == "data");
}

}  // namespace plait::test

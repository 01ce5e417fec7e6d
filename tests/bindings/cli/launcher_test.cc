#include "bindings/cli/launcher.h"

#include <catch2/catch.hpp>
#include <map>

#include "bindings/cli/failure.h"

namespace plait::cli {
namespace {

using Variables = std::map<std::string, std::string>;

PlaceWishes find(const std::string& name, const Variables& variables,
                 const PlaceWishes& options = {}) {
  return place_from_environment(name, options, [&](const char* key) -> std::optional<std::string> {
    const auto found = variables.find(key);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  });
}

std::string refusal(const std::string& name, const Variables& variables) {
  try {
    find(name, variables);
  } catch (const Failure& failure) {
    CHECK(failure.code() == PLAIT_INVALID_ARGUMENT);
    return failure.message();
  }
  return "";
}

const Variables kTorch = {
    {"RANK", "3"}, {"WORLD_SIZE", "8"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};

TEST_CASE("each launcher gives what its variables hold") {
  const PlaceWishes torch = find("torch", kTorch);
  CHECK(torch.rank == 3);
  CHECK(torch.local_ranks == 1);
  CHECK(torch.world == 8);
  CHECK(torch.join == "node0:29500");

  const PlaceWishes slurm = find("slurm", {{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}});
  CHECK(slurm.rank == 0);
  CHECK(slurm.world == 2);
  CHECK(slurm.join.empty());

  const PlaceWishes mpi =
      find("openmpi", {{"OMPI_COMM_WORLD_RANK", "5"}, {"OMPI_COMM_WORLD_SIZE", "6"}});
  CHECK(mpi.rank == 5);
  CHECK(mpi.world == 6);

  const PlaceWishes k8s = find("k8s", {{"JOB_COMPLETION_INDEX", "7"}});
  CHECK(k8s.rank == 7);
  CHECK_FALSE(k8s.world.has_value());
}

TEST_CASE("auto takes complete sets only") {
  CHECK_FALSE(find("auto", {}).rank.has_value());
  CHECK_FALSE(find("auto", {{"RANK", "1"}, {"WORLD_SIZE", "2"}}).rank.has_value());
  Variables variables = kTorch;
  variables["SLURM_PROCID"] = std::string("1");
  CHECK(find("auto", variables).rank == 3);
}

TEST_CASE("sets that agree complete each other, sets that disagree are refused") {
  Variables variables = kTorch;
  variables["SLURM_PROCID"] = std::string("3");
  variables["SLURM_NTASKS"] = std::string("8");
  const PlaceWishes both = find("auto", variables);
  CHECK(both.rank == 3);
  CHECK(both.join == "node0:29500");

  variables["SLURM_NTASKS"] = std::string("2");
  const std::string message = refusal("auto", variables);
  CHECK(message.find("world") != std::string::npos);
  CHECK(message.find("torch=8") != std::string::npos);
  CHECK(message.find("slurm=2") != std::string::npos);

  PlaceWishes options;
  options.world = 4;
  CHECK(find("auto", variables, options).rank == 3);
  CHECK(find("slurm", variables).world == 2);
}

TEST_CASE("a launcher by name must be complete, and its numbers must be numbers") {
  Variables variables = kTorch;
  variables.erase("MASTER_PORT");
  CHECK(refusal("torch", variables).find("missing=MASTER_PORT") != std::string::npos);
  CHECK(refusal("k8s", {}).find("missing=JOB_COMPLETION_INDEX") != std::string::npos);
  for (const char* value : {"", "x", "3x", "-1", "99999999999"}) {
    variables = kTorch;
    variables["RANK"] = std::string(value);
    CHECK(refusal("auto", variables).find("variable=RANK") != std::string::npos);
  }
  variables = kTorch;
  variables["MASTER_PORT"] = std::string("65536");
  CHECK(refusal("auto", variables).find("variable=MASTER_PORT") != std::string::npos);
}

TEST_CASE("one process drives all ranks unless it is told otherwise") {
  const Place alone = choose_place({}, {}, 1);
  CHECK(alone.rank == 0);
  CHECK(alone.local_ranks == 1);
  CHECK(alone.world == 1);

  const Place layout = choose_place({}, {}, 8);
  CHECK(layout.world == 8);
  CHECK(layout.local_ranks == 8);

  PlaceWishes options;
  options.world = 4;
  CHECK(choose_place(options, {}, 1).local_ranks == 4);
  options.rank = 2;
  CHECK_THROWS_AS(choose_place(options, {}, 1), Failure);
  options.join = "host:1";
  CHECK(choose_place(options, {}, 1).local_ranks == 1);
}

TEST_CASE("options win over the launcher") {
  PlaceWishes options;
  options.rank = 0;
  options.local_ranks = 2;
  options.join = "other:1";
  const Place place = choose_place(options, find("torch", kTorch), 1);
  CHECK(place.rank == 0);
  CHECK(place.local_ranks == 2);
  CHECK(place.world == 8);
  CHECK(place.join == "other:1");
}

}  // namespace
}  // namespace plait::cli

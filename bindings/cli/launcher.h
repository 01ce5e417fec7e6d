// Which ranks this process drives: by options, by a launcher's variables, or all of them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace plait::cli {

/// What options or a launcher say; what they leave open is empty.
struct PlaceWishes {
  std::optional<int32_t> rank;         ///< first rank of this process
  std::optional<int32_t> local_ranks;  ///< ranks of this process
  std::optional<int32_t> world;        ///< ranks of all processes
  std::string join;                    ///< host:port of the process of rank 0
};

struct Place {
  int32_t rank = 0;
  int32_t local_ranks = 1;
  int32_t world = 1;
  std::string join;
};

/// Value of an environment variable, empty when it is not set.
using Environment = std::function<std::optional<std::string>(const char* name)>;

/// The names that --from-env takes, separated by commas.
inline constexpr const char* kLauncherNames = "auto,torch,slurm,openmpi,k8s";

/// What the launcher `name` gives. Only a complete set of its variables counts: `auto` passes over
/// incomplete ones, a launcher by name must be complete. Two complete sets that disagree about
/// something that `options` leaves open are a usage failure, as is a value that is no number.
PlaceWishes place_from_environment(const std::string& name, const PlaceWishes& options,
                                   const Environment& environment);

/// Options over `from_environment` over the degrees of the configuration: `degrees` is the number
/// of ranks that layout.* asks for, 1 when it leaves them to the planner. One process drives all
/// ranks unless a rank is named. Several processes need an address to join.
Place choose_place(const PlaceWishes& options, const PlaceWishes& from_environment,
                   int32_t degrees);

}  // namespace plait::cli

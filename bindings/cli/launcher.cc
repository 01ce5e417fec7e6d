#include "bindings/cli/launcher.h"

#include <charconv>
#include <string_view>
#include <vector>

#include "bindings/cli/failure.h"

namespace plait::cli {
namespace {

/// The variables of one launcher; null where it gives no such value. Each of its processes drives
/// one rank. Those that are named form its complete set.
struct Launcher {
  const char* name;
  const char* rank;
  const char* world;
  const char* host;
  const char* port;
};

constexpr Launcher kLaunchers[] = {
    {"torch", "RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"},
    {"slurm", "SLURM_PROCID", "SLURM_NTASKS", nullptr, nullptr},
    {"openmpi", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", nullptr, nullptr},
    {"k8s", "JOB_COMPLETION_INDEX", nullptr, nullptr, nullptr},
};

int32_t parse_number(const char* variable, const std::string& text, int32_t least, int32_t most) {
  int32_t value = 0;
  const char* end = text.data() + text.size();
  const std::from_chars_result read = std::from_chars(text.data(), end, value);
  if (read.ec == std::errc() && read.ptr == end && value >= least && value <= most) return value;
  throw usage_failure("a variable of a launcher is no number in its range")
      .with("variable", variable)
      .with("value", text)
      .with("minimum", least)
      .with("maximum", most);
}

/// The variables of `launcher` that are not set, separated by commas.
std::string missing_variables(const Launcher& launcher, const Environment& environment) {
  std::string missing;
  for (const char* variable : {launcher.rank, launcher.world, launcher.host, launcher.port}) {
    if (variable == nullptr || environment(variable)) continue;
    if (!missing.empty()) missing += ',';
    missing += variable;
  }
  return missing;
}

PlaceWishes read_set(const Launcher& launcher, const Environment& environment) {
  PlaceWishes found;
  found.rank = parse_number(launcher.rank, *environment(launcher.rank), 0, INT32_MAX);
  found.local_ranks = 1;
  if (launcher.world != nullptr) {
    found.world = parse_number(launcher.world, *environment(launcher.world), 1, INT32_MAX);
  }
  if (launcher.host != nullptr) {
    const int32_t port = parse_number(launcher.port, *environment(launcher.port), 1, 65535);
    found.join = *environment(launcher.host) + ":" + std::to_string(port);
  }
  return found;
}

[[noreturn]] void refuse(const char* what, const Launcher& a, const std::string& value_a,
                         const Launcher& b, const std::string& value_b) {
  throw usage_failure(std::string("two launchers disagree about the ") + what +
                      "; choose one by --from-env NAME, or give the value as an option")
      .with(a.name, value_a)
      .with(b.name, value_b);
}

/// Adds what `more` says and `all` does not; what both say must be equal unless an option says it.
void merge(PlaceWishes* all, const Launcher& first, const PlaceWishes& more, const Launcher& second,
           const PlaceWishes& options) {
  const auto number = [&](const char* what, std::optional<int32_t>& into,
                          const std::optional<int32_t>& from, bool is_given) {
    if (into && from && *into != *from && !is_given) {
      refuse(what, first, std::to_string(*into), second, std::to_string(*from));
    }
    if (!into) into = from;
  };
  number("rank", all->rank, more.rank, options.rank.has_value());
  number("world", all->world, more.world, options.world.has_value());
  if (all->join.empty()) all->join = more.join;
}

}  // namespace

PlaceWishes place_from_environment(const std::string& name, const PlaceWishes& options,
                                   const Environment& environment) {
  PlaceWishes all;
  const Launcher* first = nullptr;
  for (const Launcher& launcher : kLaunchers) {
    if (name != "auto" && name != launcher.name) continue;
    const std::string missing = missing_variables(launcher, environment);
    if (!missing.empty()) {
      if (name == "auto") continue;
      throw usage_failure("the variables of the launcher are not all set")
          .with("launcher", launcher.name)
          .with("missing", missing);
    }
    const PlaceWishes found = read_set(launcher, environment);
    if (first == nullptr) {
      all = found;
      first = &launcher;
    } else {
      merge(&all, *first, found, launcher, options);
    }
  }
  return all;
}

Place choose_place(const PlaceWishes& options, const PlaceWishes& from_environment,
                   int32_t degrees) {
  const auto first_of = [](const std::optional<int32_t>& a, const std::optional<int32_t>& b) {
    return a ? a : b;
  };
  const std::optional<int32_t> rank = first_of(options.rank, from_environment.rank);
  const std::optional<int32_t> local = first_of(options.local_ranks, from_environment.local_ranks);
  Place place;
  place.world = first_of(options.world, from_environment.world).value_or(degrees);
  place.rank = rank.value_or(0);
  place.local_ranks = local.value_or(rank ? 1 : place.world);
  place.join = options.join.empty() ? from_environment.join : options.join;
  if (place.local_ranks < place.world && place.join.empty()) {
    throw usage_failure("several processes need --join HOST:PORT, the address of rank 0")
        .with("local_ranks", place.local_ranks)
        .with("world", place.world);
  }
  return place;
}

}  // namespace plait::cli

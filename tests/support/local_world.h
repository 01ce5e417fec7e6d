// A world of one process that holds every rank that a configuration asks for.
#pragma once

#include <memory>

#include "engine/comm/world.h"
#include "engine/config/config.h"

namespace plait::test {

inline std::unique_ptr<World> local_world(const Config& config) {
  WorldOptions options;
  options.world = config.get_integer("layout.tensor") * config.get_integer("layout.pipeline") *
                  config.get_integer("layout.data");
  options.local_ranks = options.world;
  return World::create(options, posix_env(), posix_net());
}

}  // namespace plait::test

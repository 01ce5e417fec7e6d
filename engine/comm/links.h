// Chooses how a world's processes move data, and joins its fabric to them.
#pragma once

#include <string>

#include "engine/comm/world.h"
#include "kernels/base/env.h"
#include "kernels/base/net.h"
#include "kernels/base/shared_memory.h"

namespace plait {

/// All outlive the world.
struct LinkServices {
  Clock& clock;
  Net& net;
  SharedMemory& memory = posix_shared_memory();
  std::string plugin_directory = {};  ///< "": where libplait is
};

/// Attaches a link by WorldOptions::transport to the world's fabric: "auto" is shared memory where
/// all processes are on one machine and it suffices, else TCP. Each process calls it once, when the
/// world is complete and before any message; it exchanges what the processes need of each other. A
/// world of one process needs no link. All processes fail alike: `mismatch` when they ask for
/// different transports, `topology` for shared memory between machines or MPI across launchers,
/// `no_space` with need and have, `not_built`, `version_mismatch`, and what `exchange` throws.
void attach_link(World& world, const LinkServices& services);

}  // namespace plait

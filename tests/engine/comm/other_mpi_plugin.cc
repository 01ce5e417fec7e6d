// A plug-in of another build: it must be refused before anything of it is called.
#include "engine/comm/mpi/mpi_plugin.h"

namespace {

const PlaitMpiPlugin plugin = {"another build", nullptr, nullptr, nullptr,
                               nullptr,         nullptr, nullptr};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PlaitMpiPlugin* plait_mpi_plugin();
const PlaitMpiPlugin* plait_mpi_plugin() { return &plugin; }

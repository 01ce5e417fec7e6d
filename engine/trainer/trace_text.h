// The events of traced ranks as a Chrome trace: a lane for each rank, its instructions by their
// text, and within them the communication that they wait for.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/comm/mesh.h"
#include "engine/comm/operation_ring.h"
#include "engine/pipeline/executor.h"

namespace plait {

/// What one rank kept. Borrowed.
struct TraceLane {
  int64_t rank = 0;
  Coordinates at;
  std::span<const TraceEvent> instructions;
  std::span<const OperationRecord> operations;
};

/// "rank 3 (tensor 1 pipeline 1 data 0)".
std::string lane_name(int64_t rank, const Coordinates& at);

/// The lanes of one process, in the order given, the first rank's number standing for the process.
/// Times count from the first instruction; the fact `start_ns` is that moment on the monotonic
/// clock, by which traces of processes of one machine can be laid over each other. `left_out`:
/// events for which there was no room. Categories: "compute" for passes and the step,
/// "communication" for all else.
std::string trace_text(const std::vector<TraceLane>& lanes, int64_t left_out);

}  // namespace plait

// What processes compare of the rows that they supply to a call: which tensors there are, and a
// hash of each sequence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/world.h"
#include "engine/trainer/batch.h"

namespace plait {

/// Of a checked batch; positions[i] is the place of its row i in the global batch. Opaque bytes.
std::string digest_rows(const Batch& batch, const std::vector<int64_t>& positions);

/// Compares the digests of all processes, by peer; an empty one: it supplies nothing. Throws
/// `mismatch`, the same in every process, naming the tensors that two of them supply differently,
/// or the first sequence that they do, and both ranks.
void compare_rows(const std::vector<std::string_view>& digests,
                  const std::vector<WorldPeer>& peers);

}  // namespace plait

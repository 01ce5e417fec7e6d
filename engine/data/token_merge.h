// Putting token files together.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/base/env.h"

namespace plait {

/// Writes the documents of all `inputs` (indexed or flat files), in order, to the indexed pair
/// `output` with the same borders of documents and sequences. Merging in steps gives the same
/// bytes. Ids must be below `vocab_size`, which also gives the type written. The output appears
/// whole or not at all.
void merge_token_files(Env& env, const std::vector<std::string>& inputs, const std::string& output,
                       int64_t vocab_size);

}  // namespace plait

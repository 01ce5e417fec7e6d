// Hashes by which a data set is known again, whatever its files are called.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/data/token_file.h"
#include "kernels/base/env.h"

namespace plait {

/// XXH3-64 of the whole file, read in blocks. `dataset_truncated` when it shrinks meanwhile.
uint64_t hash_file(File& file);

/// XXH3-64 of 64 evenly spaced blocks of 64 KiB, of everything in a file below 4 MiB.
uint64_t hash_file_samples(File& file);

/// XXH3-64 over bytes, tokens, documents, index hash and content hash of each file in order.
uint64_t fingerprint_of(const std::vector<TokenFileFacts>& files);

}  // namespace plait

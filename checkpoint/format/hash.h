// The two hashes of the format, XXH3 with seed 0: stable since xxHash 0.8.0, and never changed
// here.
#pragma once

#include <cstdint>
#include <string_view>

#include "checkpoint/format/manifest.h"

namespace plait {

uint64_t xxh3_64(std::string_view bytes);
Hash128 xxh3_128(std::string_view bytes);

}  // namespace plait

// Exchanges that run beside one another.
#pragma once

#include <cstddef>
#include <cstdint>

namespace plait {

/// Each stream has numbers of its own and one exchange at a time; they know nothing of each other.
enum class ExchangeStream : uint8_t {
  kCalls,  ///< of the host's thread
  kSaves,  ///< of the thread that writes checkpoints
};
inline constexpr size_t kExchangeStreams = 2;

}  // namespace plait

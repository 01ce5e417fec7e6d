// An error as one process tells it to the others, and the order in which all prefer one of several.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/error.h"

namespace plait {

struct Announcement {
  Error error{"aborted", "the world was aborted"};
  /// First ranks of the processes that are out: lost, frozen, or gone of their own accord. Sorted.
  std::vector<int64_t> excluded;
  /// The sender has ended with this error: nothing better will come.
  bool is_final = false;
};

std::string encode_error(const Error& error);
/// False on bytes that are no error.
bool decode_error(std::string_view bytes, Error* error);

std::string encode_announcement(const Announcement& announcement);
bool decode_announcement(std::string_view bytes, Announcement* announcement);

/// `peer_lost` or `peer_frozen`: somebody else's word about a process.
bool is_loss(const Error& error);

/// True when all prefer `a`: the lower rank of origin, then what is not a loss (a process's own
/// account), then the word and the message in byte order. A total order on what is shown.
bool is_preferred(const Error& a, const Error& b);

}  // namespace plait

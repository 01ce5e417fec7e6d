// Integers of the format in byte strings. The layout in memory is that of the files.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace plait {

static_assert(std::endian::native == std::endian::little,
              "checkpoints are written and read on little-endian machines alone");

/// The integer at `offset`, which with its size lies inside `bytes`.
template <class T>
T load_integer(std::string_view bytes, size_t offset) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

template <class T>
void store_integer(std::string* bytes, size_t offset, T value) {
  std::memcpy(bytes->data() + offset, &value, sizeof value);
}

template <class T>
void append_integer(std::string* bytes, T value) {
  bytes->append(reinterpret_cast<const char*>(&value), sizeof value);
}

}  // namespace plait

// Sized structs, rule by rule: the host zeroes the struct and sets struct_size.
//   zero, below the first released size, no multiple of 8, or absurd   struct_size
//   shorter than ours    missing inputs are zero (defaults), outputs are cut
//   longer than ours     an input with a non-zero byte in the unknown tail is struct_tail,
//                        an output's tail is zeroed
// The host's memory is read and written by memcpy alone, never beyond its struct_size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "kernels/base/error.h"
#include "plait/plait.h"

namespace plait {

/// Size of each struct in the first release that had it. Never changes.
template <class T>
inline constexpr int64_t kFirstSize = 0;
template <>
inline constexpr int64_t kFirstSize<plait_metrics> = 25 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_batch_spec> = 9 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_plan_info> = 16 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_rank_info> = 14 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_key_info> = 12 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_entry_info> = 16 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_dataset_info> = 7 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_progress> = 5 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_host> = 6 * 8;
template <>
inline constexpr int64_t kFirstSize<plait_kv> = 5 * 8;

/// No struct will ever be larger: a greater size is a mistake, not a newer header.
inline constexpr int64_t kLargestStruct = 65536;

/// Reads and checks struct_size of the host's struct at `memory`.
template <class T>
int64_t struct_size(const void* memory, const char* name) {
  static_assert(kFirstSize<T> > 0 && kFirstSize<T> <= static_cast<int64_t>(sizeof(T)));
  if (reinterpret_cast<uintptr_t>(memory) % alignof(int64_t) != 0) {
    throw Error("argument", "the struct is not aligned to 8 bytes").with("struct", name);
  }
  int64_t size = 0;
  std::memcpy(&size, memory, sizeof size);
  if (size < kFirstSize<T> || size > kLargestStruct || size % 8 != 0) {
    throw Error("struct_size", "struct_size must be set to the size of the struct")
        .with("struct", name)
        .with("got", size)
        .with("want", sizeof(T))
        .with("minimum", kFirstSize<T>);
  }
  return size;
}

/// A copy of the host's input struct, what it does not have zero.
template <class T>
T read_struct(const T* host, const char* name) {
  if (host == nullptr) throw Error("argument", "the struct is null").with("parameter", name);
  const int64_t size = struct_size<T>(host, name);
  const char* bytes = reinterpret_cast<const char*>(host);
  for (int64_t i = sizeof(T); i < size; ++i) {
    if (bytes[i] != 0) {
      throw Error("struct_tail", "a field that this library does not know is set")
          .with("struct", name)
          .with("offset", i)
          .with("known", sizeof(T));
    }
  }
  T value{};
  std::memcpy(&value, host, static_cast<size_t>(size < int64_t{sizeof(T)} ? size : sizeof(T)));
  return value;
}

/// An output struct of the host; null when it is not wanted. Construct it before the guard, call
/// `check` first inside it. `valid` is 0 until `write`.
template <class T>
class StructOut {
 public:
  StructOut(T* host, const char* name) noexcept : host_(host), name_(name) {
    int64_t size = 0;
    if (host_ == nullptr || reinterpret_cast<uintptr_t>(host_) % alignof(int64_t) != 0) return;
    std::memcpy(&size, host_, sizeof size);
    if (size >= kFirstSize<T>) put(offsetof(T, valid), 0);
  }
  void check() {
    if (host_ != nullptr) size_ = struct_size<T>(host_, name_);
  }
  bool is_wanted() const { return host_ != nullptr; }
  /// `value.valid` names the groups that are filled; its struct_size is not used.
  void write(const T& value) const {
    if (host_ == nullptr) return;
    const int64_t known = size_ < int64_t{sizeof(T)} ? size_ : int64_t{sizeof(T)};
    char* bytes = reinterpret_cast<char*>(host_);
    std::memcpy(bytes + 8, reinterpret_cast<const char*>(&value) + 8,
                static_cast<size_t>(known - 8));
    if (size_ > known) std::memset(bytes + known, 0, static_cast<size_t>(size_ - known));
  }

 private:
  void put(size_t offset, int64_t value) noexcept {
    std::memcpy(reinterpret_cast<char*>(host_) + offset, &value, sizeof value);
  }

  T* host_;
  const char* name_;
  int64_t size_ = 0;
};

}  // namespace plait

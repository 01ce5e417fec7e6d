// Checks of plain arguments, one wording for all entry points, and the outputs of calls. Every
// error is INVALID_ARGUMENT/argument with the field `parameter`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "capi/src/handle.h"
#include "kernels/base/error.h"

namespace plait {

/// Text that must be there: neither null nor invalid UTF-8.
std::string text_argument(const char* text, const char* parameter);

/// Text that may be null (which reads as empty).
std::string optional_text(const char* text, const char* parameter);

/// A payload: no negative length, no null with a length.
std::string_view bytes_argument(const void* data, int64_t bytes, const char* parameter);

/// −1 or a positive number of milliseconds.
void check_timeout(int64_t timeout_ms);

/// `value` in [minimum, maximum].
void check_range(int64_t value, int64_t minimum, int64_t maximum, const char* parameter);

/// `index` in [0, count).
void check_index(int64_t index, int64_t count);

/// One of the space-separated `choices`.
void check_choice(std::string_view value, std::string_view choices, const char* parameter);

/// Where a new handle goes. Construct it before the guard (it nulls the place), call `check` first
/// inside it.
template <class T>
class HandleOut {
 public:
  HandleOut(T** place, const char* parameter) noexcept : place_(place), parameter_(parameter) {
    if (is_usable()) *place_ = nullptr;
  }
  void check() const {
    if (!is_usable()) {
      throw Error("argument", "the place for the new handle is null or misaligned")
          .with("parameter", parameter_)
          .subsystem("capi");
    }
  }
  bool is_wanted() const { return place_ != nullptr; }
  void set(T* handle) const { *place_ = handle; }

 private:
  bool is_usable() const noexcept {
    return place_ != nullptr && reinterpret_cast<uintptr_t>(place_) % alignof(T*) == 0;
  }

  T** place_;
  const char* parameter_;
};

/// Null, or aligned for its type.
template <class T>
void check_aligned(const T* data, const char* parameter) {
  if (reinterpret_cast<uintptr_t>(data) % alignof(T) == 0) return;
  throw Error("argument", "the pointer is misaligned")
      .with("parameter", parameter)
      .subsystem("capi");
}

/// Writes a plain output that may be null; it was checked by check_aligned.
template <class T>
void put(T* place, T value) {
  if (place != nullptr) *place = value;
}

}  // namespace plait

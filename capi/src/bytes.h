// Text or bytes of variable size that the host owns: immutable, followed by a NUL, independent of
// what they came from.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "capi/src/arguments.h"
#include "capi/src/handle.h"
#include "plait/plait.h"

struct plait_bytes final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kBytes;
  explicit plait_bytes(std::string value) : Handle(kKind), value(std::move(value)) {}
  const std::string value;
};

namespace plait {

/// Where bytes go that the host may not want: null is legal, then nothing is made. Construct it
/// before the guard, call `check` first inside it.
class BytesOut {
 public:
  BytesOut(plait_bytes** place, const char* parameter) noexcept : place_(place, parameter) {}
  void check() const {
    if (place_.is_wanted()) place_.check();
  }
  bool is_wanted() const { return place_.is_wanted(); }
  void set(std::string value) const {
    if (is_wanted()) place_.set(new plait_bytes(std::move(value)));
  }
  void set(std::span<const int32_t> values) const {
    if (!is_wanted()) return;
    set(std::string(reinterpret_cast<const char*>(values.data()), values.size_bytes()));
  }

 private:
  HandleOut<plait_bytes> place_;
};

}  // namespace plait

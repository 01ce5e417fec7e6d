// The error object: immutable, owned by the host, readable and freeable on any thread.
#pragma once

#include <cstdint>
#include <memory>

#include "capi/src/handle.h"
#include "kernels/base/error.h"
#include "plait/plait.h"

struct plait_error final : plait::Handle {
  static constexpr plait::HandleKind kKind = plait::HandleKind::kError;

  /// Copies everything out of `error`. Throws bad_alloc.
  explicit plait_error(const plait::Error& error);
  /// An object that lives as long as the library and owns nothing: word, message and details are
  /// literals.
  constexpr plait_error(plait::Code code, plait::Disposition disposition, const char* word,
                        const char* message)
      : Handle(kKind),
        word(word),
        message(message),
        subsystem("capi"),
        details("{}"),
        code(static_cast<int32_t>(code)),
        disposition(static_cast<int32_t>(disposition)),
        is_static(true) {}

  const char* word;
  const char* message;
  const char* subsystem;
  const char* details;
  std::unique_ptr<char[]> text;  ///< what the four above point into, null in a static object
  int64_t host_code = 0;
  int32_t code;
  int32_t disposition;
  int32_t rank = -1;
  bool is_static = false;
};

namespace plait {

/// Gives the host an object for `error` (`err` may be null) and returns its code. Out of memory the
/// object is the static one of report_no_memory; the code is then that of no_memory.
int32_t report_error(const Error& error, plait_error** err);

/// RESOURCE_EXHAUSTED/no_memory with a static object.
int32_t report_no_memory(plait_error** err);

/// INTERNAL/invariant for an exception that is none of ours.
int32_t report_exception(const char* what, plait_error** err);

}  // namespace plait

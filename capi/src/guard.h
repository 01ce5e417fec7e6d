// The guard: one around every entry point. It turns whatever C++ throws into a code and an error
// object, holds back pthread cancellation and the host's floating-point modes until the call ends,
// and refuses calls from inside a callback and in a forked child. A forced unwind (pthread_exit)
// passes through.
#pragma once

#include <fenv.h>
#include <pthread.h>
#include <xmmintrin.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include "capi/src/error.h"
#include "kernels/base/error.h"
#include "plait/plait.h"

namespace plait {

/// Marks this thread as running a callback of the host, for the life of the object.
class InCallback {
 public:
  InCallback();
  ~InCallback();
  InCallback(const InCallback&) = delete;
  InCallback& operator=(const InCallback&) = delete;
};

/// Remembers the process that uses the library; the first caller decides.
void claim_process();

/// True in a child of the process that uses the library.
bool is_forked();

/// Throws `forked` or `reentrant`. `in_callback` allows the latter.
void check_entry(bool in_callback = false);

/// True when a getter may answer: neither forked nor inside a callback.
bool may_answer();

/// Error for a part that this build lacks; `feature` is the name plait_build_info knows.
Error not_built(const char* feature, const char* sentence);

/// For use inside a catch block: the current exception as code and error object.
int32_t fail_current(plait_error** err);

/// Holds back cancellation of the calling thread.
class CancellationHold {
 public:
  CancellationHold() { pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before_); }
  ~CancellationHold() { pthread_setcancelstate(before_, nullptr); }
  CancellationHold(const CancellationHold&) = delete;
  CancellationHold& operator=(const CancellationHold&) = delete;

 private:
  int before_ = PTHREAD_CANCEL_ENABLE;
};

/// Gives the calling thread the standard rounding, denormals and masked traps, and back what it
/// had. Even reading a number from text depends on the rounding mode.
class ModeHold {
 public:
  ModeHold() {
    fegetenv(&before_);
    fesetenv(FE_DFL_ENV);
    constexpr unsigned kStandard = 0x1F80;  // nearest, every trap masked, no flushing
    _mm_setcsr(kStandard);
  }
  ~ModeHold() { fesetenv(&before_); }
  ModeHold(const ModeHold&) = delete;
  ModeHold& operator=(const ModeHold&) = delete;

 private:
  fenv_t before_;
};

/// Runs `body` (returning nothing, or a Code) and returns the code of the entry point.
template <class Body>
int32_t guard(plait_error** err, Body&& body) {
  const CancellationHold hold;
  const ModeHold modes;
  try {
    check_entry();
    if constexpr (std::is_void_v<std::invoke_result_t<Body>>) {
      std::forward<Body>(body)();
      return PLAIT_OK;
    } else {
      return static_cast<int32_t>(std::forward<Body>(body)());
    }
  } catch (...) {
    return fail_current(err);
  }
}

/// Runs `body` of a function that reports nothing.
template <class Body>
void guard_void(Body&& body) {
  const CancellationHold hold;
  if (is_forked()) return;
  try {
    std::forward<Body>(body)();
  } catch (...) {
    fail_current(nullptr);
  }
}

}  // namespace plait

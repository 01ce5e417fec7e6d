// Whether a sanitizer watches every access: a test then takes a part of its cases.
#pragma once

#include "kernels/base/sanitizer.h"

namespace plait::test {

constexpr bool kIsThreadSanitized = PLAIT_THREAD_SANITIZER != 0;
constexpr bool kIsSanitized = kIsThreadSanitized || PLAIT_ADDRESS_SANITIZER != 0;

}  // namespace plait::test

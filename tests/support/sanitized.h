// Whether a sanitizer watches every access: a test then takes a part of its cases.
#pragma once

namespace plait::test {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kIsSanitized = true;
#else
constexpr bool kIsSanitized = false;
#endif

#ifdef __SANITIZE_THREAD__
constexpr bool kIsThreadSanitized = true;
#else
constexpr bool kIsThreadSanitized = false;
#endif

}  // namespace plait::test

// Which sanitizer this file is compiled for; g++ and clang++ say it in different ways.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define PLAIT_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PLAIT_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef PLAIT_ADDRESS_SANITIZER
#define PLAIT_ADDRESS_SANITIZER 0
#endif

#if defined(__SANITIZE_THREAD__)
#define PLAIT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define PLAIT_THREAD_SANITIZER 1
#endif
#endif
#ifndef PLAIT_THREAD_SANITIZER
#define PLAIT_THREAD_SANITIZER 0
#endif

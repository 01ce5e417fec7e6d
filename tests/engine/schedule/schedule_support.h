// What the tests of schedules share.
#pragma once

#include <cstdint>
#include <string>

#include "engine/schedule/schedule.h"
#include "kernels/base/error.h"

namespace plait {

inline Schedule make(ScheduleKind kind, int64_t p, int64_t v, int64_t m, int64_t zero = 0) {
  return make_schedule({kind, p, v, m, zero});
}

/// The message of the error that `action` throws; "" when it throws none.
template <class Action>
std::string message_of(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

/// The number of a field in an error message; −1 when there is none.
inline int64_t field(const std::string& message, const std::string& key) {
  const size_t at = message.find(" " + key + "=");
  return at == std::string::npos ? -1 : std::stoll(message.substr(at + key.size() + 2));
}

/// Every shape that a kind admits with p ≤ most_pipeline, v ≤ 4, m ≤ most_micro, every ZeRO stage.
template <class Visit>
void each_shape(int64_t most_pipeline, int64_t most_micro, const Visit& visit) {
  const auto visit_all = [&](ScheduleKind kind, int64_t p, int64_t v, int64_t m) {
    const int64_t most_zero = kind == ScheduleKind::kZeroBubble ? 1 : 3;
    for (int64_t zero = 0; zero <= most_zero; ++zero) visit(ScheduleShape{kind, p, v, m, zero});
  };
  for (int64_t p = 1; p <= most_pipeline; ++p) {
    for (int64_t m = 1; m <= most_micro; ++m) {
      visit_all(ScheduleKind::kGpipe, p, 1, m);
      visit_all(ScheduleKind::kOneForwardOneBackward, p, 1, m);
      visit_all(ScheduleKind::kZeroBubble, p, 1, m);
      for (int64_t v = 1; v <= 4; ++v) {
        if (v > 1 && p == 1) continue;
        visit_all(ScheduleKind::kForwardOnly, p, v, m);
        if (v > 1 && m % p == 0) visit_all(ScheduleKind::kInterleaved, p, v, m);
      }
    }
  }
}

}  // namespace plait

// Writing a timeline in Chrome's trace event format (the object form with "traceEvents"), which
// chrome://tracing and ui.perfetto.dev show. One process per object, a lane for each rank.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "kernels/base/json_text.h"

namespace plait {

class ChromeTrace {
 public:
  /// `process` is the number that viewers group lanes by; `name` is what they call it.
  ChromeTrace(int64_t process, std::string_view name);

  /// Names a lane; lanes stand in the order of their numbers.
  void add_lane(int64_t lane, std::string_view name);

  struct Event {
    int64_t lane = 0;
    std::string_view name;
    std::string_view category;
    int64_t begin_ns = 0, end_ns = 0;  ///< from the timeline's start
    std::string arguments = "{}";      ///< a JSON object
  };
  /// Events of one lane lie one in another or apart.
  void add(const Event& event);
  /// One that may lie across others: viewers draw it beside the lane.
  void add_across(const Event& event);
  /// A value that holds until its next one: viewers draw it as a curve of its own.
  void add_value(std::string_view name, int64_t time_ns, std::string_view unit, int64_t value);
  /// A fact about the whole timeline: `json` is a value.
  void add_fact(std::string_view key, std::string_view json);

  std::string text() const;

 private:
  void add_metadata(const char* what, int64_t lane, std::string_view key, std::string_view json);
  JsonObject head(const Event& event, const char* phase, int64_t time_ns) const;

  int64_t process_;
  int64_t across_ = 0;  // events so far
  JsonArray events_;
  JsonObject facts_;
};

}  // namespace plait

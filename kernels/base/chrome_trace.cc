#include "kernels/base/chrome_trace.h"

#include <cstdio>

namespace plait {
namespace {

/// Microseconds, to the nanosecond.
std::string microseconds(int64_t ns) {
  char text[40];
  std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                static_cast<long long>(ns % 1000));
  return text;
}

}  // namespace

ChromeTrace::ChromeTrace(int64_t process, std::string_view name) : process_(process) {
  add_metadata("process_name", 0, "name", json_string(name));
}

void ChromeTrace::add_metadata(const char* what, int64_t lane, std::string_view key,
                               std::string_view json) {
  events_.add(JsonObject()
                  .field("name", what)
                  .field("ph", "M")
                  .field("pid", process_)
                  .field("tid", lane)
                  .raw("args", JsonObject().raw(key, json).text())
                  .text());
}

void ChromeTrace::add_lane(int64_t lane, std::string_view name) {
  add_metadata("thread_name", lane, "name", json_string(name));
  add_metadata("thread_sort_index", lane, "sort_index", std::to_string(lane));
}

JsonObject ChromeTrace::head(const Event& event, const char* phase, int64_t time_ns) const {
  JsonObject object;
  object.field("name", event.name)
      .field("cat", event.category)
      .field("ph", phase)
      .field("pid", process_)
      .field("tid", event.lane)
      .raw("ts", microseconds(time_ns));
  return object;
}

void ChromeTrace::add(const Event& event) {
  events_.add(head(event, "X", event.begin_ns)
                  .raw("dur", microseconds(event.end_ns - event.begin_ns))
                  .raw("args", event.arguments)
                  .text());
}

void ChromeTrace::add_across(const Event& event) {
  const int64_t number = across_++;
  events_.add(
      head(event, "b", event.begin_ns).field("id", number).raw("args", event.arguments).text());
  events_.add(head(event, "e", event.end_ns).field("id", number).text());
}

void ChromeTrace::add_value(std::string_view name, int64_t time_ns, std::string_view unit,
                            int64_t value) {
  events_.add(JsonObject()
                  .field("name", name)
                  .field("ph", "C")
                  .field("pid", process_)
                  .raw("ts", microseconds(time_ns))
                  .raw("args", JsonObject().field(unit, value).text())
                  .text());
}

void ChromeTrace::add_fact(std::string_view key, std::string_view json) { facts_.raw(key, json); }

std::string ChromeTrace::text() const {
  return JsonObject()
             .raw("traceEvents", events_.text())
             .field("displayTimeUnit", "ms")
             .raw("otherData", facts_.text())
             .text() +
         "\n";
}

}  // namespace plait

#include "tests/bench/measure.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>

namespace plait::bench {

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

double Samples::quantile(double share) const {
  std::vector<double> sorted = seconds;
  std::sort(sorted.begin(), sorted.end());
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto low = static_cast<size_t>(at);
  const size_t high = std::min(low + 1, sorted.size() - 1);
  return sorted[low] + (sorted[high] - sorted[low]) * (at - static_cast<double>(low));
}

double Samples::spread() const { return (quantile(0.75) - quantile(0.25)) / median(); }

Samples measure(const Repetition& repetition, const std::function<void(int64_t)>& body) {
  body(0);
  Samples samples;
  const double begin = now();
  for (int64_t i = 1; i <= repetition.most; ++i) {
    const double start = now();
    const double spent = start - begin;
    const bool is_enough = i > repetition.least || (i > 2 && spent > repetition.limit);
    if (is_enough && spent > repetition.budget) break;
    body(i);
    samples.seconds.push_back(now() - start);
  }
  return samples;
}

void print_line(const JsonObject& object) {
  std::puts(object.text().c_str());
  std::fflush(stdout);
}

std::string json_numbers(const std::vector<double>& values) {
  JsonArray array;
  for (const double value : values) array.add(json_number(value));
  return array.text();
}

namespace {

/// A line of the system's record of this process, bytes.
int64_t status_bytes(const char* line) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;) {
    int64_t kibibytes = 0;
    if (word == line && status >> kibibytes) return kibibytes * 1024;
  }
  return 0;
}

}  // namespace

int64_t peak_resident_bytes() { return status_bytes("VmHWM:"); }

int64_t resident_bytes() { return status_bytes("VmRSS:"); }

void reset_peak_resident() { std::ofstream("/proc/self/clear_refs") << "5"; }

}  // namespace plait::bench

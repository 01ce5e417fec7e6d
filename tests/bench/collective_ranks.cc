#include "tests/bench/collective_ranks.h"

#include <algorithm>
#include <stdexcept>

#include "tests/bench/exchange_plan.h"
#include "tests/bench/measure.h"

namespace plait::bench {

void check_all_reduce(Communicator& group, ExchangeBuffer& buffer, const char* when) {
  fill_exchange(buffer.data(), buffer.count(), group.index());
  group.all_reduce(buffer.view());
  if (is_exchange_sum(buffer.data(), buffer.count(), group.size())) return;
  throw std::runtime_error("an all-reduce of " + std::to_string(buffer.count() * 4) +
                           " bytes gave a wrong sum " + when);
}

std::vector<double> time_all_reduces(Communicator& group, ExchangeBuffer& buffer, int timed) {
  std::fill_n(buffer.data(), buffer.count(), 0.0f);
  for (int i = 0; i < kUntimed; ++i) group.all_reduce(buffer.view());
  std::vector<double> seconds;
  seconds.reserve(static_cast<size_t>(timed));
  for (int i = 0; i < timed; ++i) {
    const double begin = now();
    group.all_reduce(buffer.view());
    seconds.push_back(now() - begin);
  }
  return seconds;
}

std::vector<double> time_round_trips(Communicator& group) {
  std::vector<double> seconds;
  if (group.index() > 1) return seconds;
  seconds.reserve(static_cast<size_t>(kPings));
  int64_t sent = 0, got = 0;
  static_assert(sizeof sent == kPingBytes);
  const TensorView out{&sent, DType::kUInt8, {kPingBytes}}, in{&got, DType::kUInt8, {kPingBytes}};
  const int64_t peer = 1 - group.index();
  for (int i = -kUntimedPings; i < kPings; ++i) {
    const double begin = now();
    if (group.index() == 0) {
      sent = i;
      group.send(peer, Lane::kForward, {i, 0}, out);
      group.receive(peer, Lane::kForward, {i, 0}, in);
      if (got != i + 1) throw std::runtime_error("a round trip brought a wrong answer");
    } else {
      group.receive(peer, Lane::kForward, {i, 0}, in);
      sent = got + 1;
      group.send(peer, Lane::kForward, {i, 0}, out);
    }
    group.wait_sent(peer, Lane::kForward);
    if (i >= 0) seconds.push_back(now() - begin);
  }
  return seconds;
}

void print_exchange(const std::string& kind, const std::string& way, int64_t ranks, int64_t bytes,
                    const std::vector<double>& seconds) {
  print_line(JsonObject()
                 .field("kind", kind)
                 .field("way", way)
                 .field("ranks", ranks)
                 .field("bytes", bytes)
                 .raw("seconds", json_numbers(seconds)));
}

}  // namespace plait::bench

#include "tests/bench/step_turns.h"

#include <stdexcept>
#include <vector>

#include "tests/bench/measure.h"
#include "tests/bench/op_watch.h"

namespace plait::bench {
namespace {

constexpr double kBlockSeconds = 0.5;

/// Calls turn(is_first) with the two conditions' order changing from turn to turn.
template <class Turn>
void take_turns(const TurnLimits& limits, Turn turn) {
  const double begin = now();
  for (int64_t i = 0; i < limits.most; ++i) {
    if (i >= limits.least && now() - begin > limits.seconds) break;
    turn(i % 2 == 0);
    turn(i % 2 != 0);
  }
}

std::string totals_json() {
  JsonArray out;
  for (const OpTotal& total : op_totals()) {
    out.add(JsonObject()
                .field("op", total.op)
                .field("pass", total.pass)
                .field("n", total.n)
                .field("k", total.k)
                .field("bound", bound_name(total.work.bound))
                .field("flops", total.work.flops)
                .field("bytes", total.work.bytes)
                .field("calls", total.calls)
                .field("seconds", total.seconds)
                .text());
  }
  return out.text();
}

/// What a neighbour had of the processors while steps of one condition ran.
struct Share {
  std::vector<double> steps;  // the median of each block
  double seconds = 0;
  double cpu_seconds = 0;

  std::string json() const {
    return JsonObject()
        .raw("steps", json_numbers(steps))
        .field("seconds", seconds)
        .field("neighbour_cpu_seconds", cpu_seconds)
        .text();
  }
};

void run_block(EngineRun& engine, const Neighbour& neighbour, Share* share) {
  const double begin = now(), cpu = neighbour.cpu_seconds();
  Samples samples;
  while (samples.seconds.empty() || now() - begin < kBlockSeconds) {
    samples.seconds.push_back(engine.step());
  }
  share->cpu_seconds += neighbour.cpu_seconds() - cpu;
  share->seconds += now() - begin;
  share->steps.push_back(samples.median());
}

}  // namespace

std::string steps_by_op(EngineRun& engine, const TurnLimits& limits) {
  std::vector<double> plain, watched;
  forget_ops();
  take_turns(limits, [&](bool is_watched) {
    watch_ops(is_watched);
    (is_watched ? watched : plain).push_back(engine.step());
  });
  watch_ops(false);
  if (op_totals().empty()) throw std::runtime_error("no op passed the watch");
  return JsonObject()
      .raw("plain", json_numbers(plain))
      .raw("watched", json_numbers(watched))
      .raw("ops", totals_json())
      .text();
}

std::string steps_with_neighbour(EngineRun& engine, Neighbour& neighbour,
                                 const TurnLimits& limits) {
  Share alone, busy;
  take_turns(limits, [&](bool is_busy) {
    if (is_busy) neighbour.resume();
    run_block(engine, neighbour, is_busy ? &busy : &alone);
    if (is_busy) neighbour.pause();
  });
  return JsonObject()
      .raw("alone", alone.json())
      .raw("busy", busy.json())
      .field("is_gone", neighbour.end())
      .text();
}

}  // namespace plait::bench

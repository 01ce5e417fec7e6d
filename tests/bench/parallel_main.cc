// Training steps of one model in several layouts, in turns, each engine with all its ranks in this
// process:
//   bench_parallel [--turns N] [--tolerance X] [--trace N] CONFIG.json…
// The first configuration is the one that the others are compared with: their losses of two steps
// must equal its losses within X of them before anything is timed (else code 3 and a line that says
// so). One JSON line.
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/bench/engine_run.h"
#include "tests/bench/measure.h"
#include "tests/bench/step_counts.h"

namespace {

using plait::JsonArray;
using plait::JsonObject;
using plait::bench::EngineRun;

constexpr int kChecked = 2;  // losses: of the initial weights, and of what the first update made

struct Options {
  std::vector<std::string> configs;
  int64_t turns = 7;
  double tolerance = 1e-5;
  int64_t trace = 3;  ///< steps of the last layout after the timed ones, for its idle share
};

struct Layout {
  std::unique_ptr<EngineRun> engine;
  std::vector<double> losses, seconds;
  int64_t peak_bytes = 0;  ///< most that was resident, without what was before this engine
  int64_t allocations = 0;
  std::string counters_before, counters_after;
};

Layout create(const std::string& path) {
  Layout layout;
  plait::bench::reset_peak_resident();
  const int64_t before = plait::bench::peak_resident_bytes();
  layout.engine = std::make_unique<EngineRun>(plait::bench::read_text(path));
  for (int i = 0; i < kChecked; ++i) {
    layout.engine->step();
    layout.losses.push_back(layout.engine->metrics().loss);
  }
  layout.peak_bytes = plait::bench::peak_resident_bytes() - before;
  return layout;
}

/// What is wrong with the losses; "": nothing.
std::string compare(const std::vector<Layout>& layouts, double tolerance) {
  for (size_t i = 0; i < layouts.size(); ++i) {
    for (int step = 0; step < kChecked; ++step) {
      const double want = layouts[0].losses[static_cast<size_t>(step)];
      const double got = layouts[i].losses[static_cast<size_t>(step)];
      if (std::abs(got - want) <= tolerance * std::abs(want)) continue;  // false for NaN
      char text[160];
      std::snprintf(text, sizeof text,
                    "loss %.9g in step %d of configuration %zu, %.9g in the first one", got,
                    step + 1, i + 1, want);
      return text;
    }
  }
  return "";
}

void time_turns(int64_t turns, std::vector<Layout>* layouts) {
  for (Layout& layout : *layouts) {
    layout.counters_before = layout.engine->report("counters");
    layout.seconds.reserve(static_cast<size_t>(turns));
  }
  for (int64_t turn = 0; turn < turns; ++turn) {
    for (Layout& layout : *layouts) {
      const int64_t before = plait::bench::allocations();
      layout.seconds.push_back(layout.engine->step());
      layout.allocations += plait::bench::allocations() - before;
    }
  }
  for (Layout& layout : *layouts) layout.counters_after = layout.engine->report("counters");
}

std::string trace(EngineRun& engine, int64_t steps) {
  if (steps == 0) return "null";
  engine.set("trace.steps", std::to_string(steps).c_str());
  for (int64_t i = 0; i < steps; ++i) engine.step();
  return engine.report("trace");
}

std::string layout_text(const Layout& layout, int64_t trace_steps) {
  return JsonObject()
      .field("creation_seconds", layout.engine->creation_seconds())
      .raw("seconds", plait::bench::json_numbers(layout.seconds))
      .raw("losses", plait::bench::json_numbers(layout.losses))
      .field("loss_last", layout.engine->metrics().loss)
      .field("allocations", layout.allocations)
      .field("peak_bytes", layout.peak_bytes)
      .raw("memory", layout.engine->report("memory"))
      .raw("kernels", layout.engine->report("kernels"))
      .raw("counters_before", layout.counters_before)
      .raw("counters_after", layout.counters_after)
      .raw("trace", trace(*layout.engine, trace_steps))
      .text();
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw std::runtime_error(word + " needs a value");
      return argv[++i];
    };
    if (word == "--turns") {
      options.turns = std::atoll(value());
    } else if (word == "--tolerance") {
      options.tolerance = std::atof(value());
    } else if (word == "--trace") {
      options.trace = std::atoll(value());
    } else if (word[0] != '-') {
      options.configs.push_back(word);
    } else {
      throw std::runtime_error("unknown argument " + word);
    }
  }
  if (options.configs.empty() || options.turns < 0 || options.trace < 0) {
    throw std::runtime_error("usage: bench_parallel [options] CONFIG.json…");
  }
  return options;
}

int run(const Options& options) {
  std::vector<Layout> layouts;
  for (const std::string& path : options.configs) layouts.push_back(create(path));
  const std::string wrong = compare(layouts, options.tolerance);
  if (!wrong.empty()) {
    plait::bench::print_line(JsonObject().field("wrong", wrong));
    return 3;
  }
  time_turns(options.turns, &layouts);
  JsonArray all;
  for (const Layout& layout : layouts) {
    all.add(layout_text(layout, &layout == &layouts.back() ? options.trace : 0));
  }
  plait::bench::print_line(
      JsonObject().field("wrong", "").field("turns", options.turns).raw("layouts", all.text()));
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  return run(parse(argc, argv));
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_parallel: %s\n", error.what());
  return 1;
}

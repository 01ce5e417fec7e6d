// Training steps of one model through the public interface, in a process of their own:
//   bench_step CONFIG.json [--seconds S] [--least N] [--most N] [--warm N]
//       [--other-thread | --by-op | --busy]
// Random tokens; one JSON line. Product ceilings are measured in the same process, before and
// after. With --by-op steps with a clock around each op in turns with steps without, with --busy
// steps beside a busy neighbour process in turns with steps alone: --least and --most count turns.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/device/device.h"
#include "tests/bench/ceilings.h"
#include "tests/bench/engine_run.h"
#include "tests/bench/measure.h"
#include "tests/bench/neighbour.h"
#include "tests/bench/op_watch.h"
#include "tests/bench/step_counts.h"
#include "tests/bench/step_turns.h"

namespace {

using plait::JsonObject;
using plait::bench::EngineRun;
using plait::bench::now;

struct Options {
  std::string config;
  double seconds = 5;
  int64_t least = 2;
  int64_t most = 50;
  int64_t warm = 1;
  bool is_other_thread = false;
  bool is_by_op = false;
  bool is_busy = false;
};

struct Result {
  double first_seconds = 0;
  std::vector<double> seconds;
  double loss_first = 0;
  double loss_last = 0;
  int64_t allocations = 0;  ///< in all timed steps
  int64_t packs = 0;
  int64_t packed_bytes = 0;
  double operations = 0;
  int64_t ledger_bytes = 0;
};

void run_steps(const Options& options, EngineRun& engine, Result* result) {
  result->first_seconds = engine.step();
  result->loss_first = engine.metrics().loss;
  for (int64_t i = 0; i < options.warm; ++i) engine.step();
  result->seconds.reserve(static_cast<size_t>(options.most));
  const double operations = engine.counter("operations");
  const int64_t allocations = plait::bench::allocations(), packs = plait::bench::packs();
  const int64_t packed = plait::bench::packed_bytes();
  const double begin = now();
  int64_t count = 0;
  while (count < options.most && (count < options.least || now() - begin < options.seconds)) {
    result->seconds.push_back(engine.step());
    ++count;
  }
  result->allocations = plait::bench::allocations() - allocations;
  result->packs = (plait::bench::packs() - packs) / count;
  result->packed_bytes = (plait::bench::packed_bytes() - packed) / count;
  result->operations = (engine.counter("operations") - operations) / static_cast<double>(count);
  result->loss_last = engine.metrics().loss;
  result->ledger_bytes = engine.metrics().memory_peak_bytes;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const auto value = [&] {
      if (i + 1 == argc) throw std::runtime_error(word + " needs a value");
      return argv[++i];
    };
    if (word == "--seconds") {
      options.seconds = std::atof(value());
    } else if (word == "--least") {
      options.least = std::atoll(value());
    } else if (word == "--most") {
      options.most = std::atoll(value());
    } else if (word == "--warm") {
      options.warm = std::atoll(value());
    } else if (word == "--other-thread") {
      options.is_other_thread = true;
    } else if (word == "--by-op") {
      options.is_by_op = true;
    } else if (word == "--busy") {
      options.is_busy = true;
    } else if (options.config.empty() && word[0] != '-') {
      options.config = word;
    } else {
      throw std::runtime_error("unknown argument " + word);
    }
  }
  if (options.config.empty() || options.least < 1 || options.most < options.least) {
    throw std::runtime_error("usage: bench_step CONFIG.json [options]");
  }
  return options;
}

std::string ceilings(bool has_memory = false) {
  plait::ThreadPool pool(plait::usable_cores(), {}, false);
  const plait::bench::ProductCeilings products = plait::bench::product_ceilings(pool);
  plait::bench::MemoryCeilings memory;
  if (has_memory) memory = plait::bench::memory_ceilings(pool);
  return plait::bench::ceilings_json(pool.threads(), products, has_memory ? &memory : nullptr);
}

/// The first step, and what comes before steps count; the first loss.
double warm_up(const Options& options, EngineRun& engine) {
  engine.step();
  const double loss = engine.metrics().loss;
  for (int64_t i = 0; i < options.warm; ++i) engine.step();
  return loss;
}

void run_by_op(const Options& options) {
  const std::string before = ceilings(true);
  EngineRun engine(plait::bench::read_text(options.config));
  const double loss = warm_up(options, engine);
  const std::string steps =
      plait::bench::steps_by_op(engine, {options.seconds, options.least, options.most});
  plait::bench::print_line(JsonObject()
                               .raw("ceilings_before", before)
                               .raw("ceilings_after", ceilings())
                               .field("loss_first", loss)
                               .raw("steps", steps)
                               .raw("kernels", engine.report("kernels")));
}

void run_busy(const Options& options) {
  plait::bench::Neighbour neighbour;
  EngineRun engine(plait::bench::read_text(options.config));
  const double loss = warm_up(options, engine);
  const std::string steps = plait::bench::steps_with_neighbour(
      engine, neighbour, {options.seconds, options.least, options.most});
  plait::bench::print_line(JsonObject().field("loss_first", loss).raw("steps", steps));
}

void run(const Options& options) {
  const std::string before = ceilings();
  EngineRun engine(plait::bench::read_text(options.config));
  Result result;
  if (options.is_other_thread) {
    std::exception_ptr failure;
    std::thread thread([&] {
      try {
        run_steps(options, engine, &result);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    thread.join();
    if (failure) std::rethrow_exception(failure);
  } else {
    run_steps(options, engine, &result);
  }
  plait::bench::print_line(JsonObject()
                               .raw("ceilings_before", before)
                               .raw("ceilings_after", ceilings())
                               .field("creation_seconds", engine.creation_seconds())
                               .field("first_seconds", result.first_seconds)
                               .raw("seconds", plait::bench::json_numbers(result.seconds))
                               .field("loss_first", result.loss_first)
                               .field("loss_last", result.loss_last)
                               .field("allocations", result.allocations)
                               .field("packs", result.packs)
                               .field("packed_bytes", result.packed_bytes)
                               .field("operations", result.operations)
                               .field("ledger_bytes", result.ledger_bytes)
                               .field("peak_bytes", plait::bench::peak_resident_bytes())
                               .raw("memory", engine.report("memory"))
                               .raw("kernels", engine.report("kernels")));
}

}  // namespace

int main(int argc, char** argv) try {
  const Options options = parse(argc, argv);
  (options.is_by_op ? run_by_op : options.is_busy ? run_busy : run)(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_step: %s\n", error.what());
  return 1;
}

// Training steps of one model through the public interface, in a process of their own:
//   bench_step CONFIG.json [--seconds S] [--least N] [--most N] [--warm N] [--other-thread]
// Random tokens; one JSON line. Product ceilings are measured in the same process, before and
// after.
#include <plait/plait.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "kernels/base/random.h"
#include "kernels/device/device.h"
#include "tests/bench/ceilings.h"
#include "tests/bench/measure.h"
#include "tests/bench/step_counts.h"

namespace {

using plait::JsonObject;
using plait::bench::now;

struct Options {
  std::string config;
  double seconds = 5;
  int64_t least = 2;
  int64_t most = 50;
  int64_t warm = 1;
  bool is_other_thread = false;
};

/// Throws what a failed call reports.
class Caller {
 public:
  operator plait_error**() { return &error_; }
  void check(int32_t code) {
    if (code == PLAIT_OK) return;
    const std::string message = plait_error_message(error_);
    plait_error_free(error_);
    error_ = nullptr;
    throw std::runtime_error(message);
  }

 private:
  plait_error* error_ = nullptr;
};

struct Handles {
  plait_context* context = nullptr;
  plait_config* config = nullptr;
  plait_group* group = nullptr;
  plait_engine* engine = nullptr;
  plait_batch* batch = nullptr;
  ~Handles() {
    plait_batch_free(batch);
    plait_engine_free(engine);
    plait_group_free(group);
    plait_config_free(config);
    plait_context_free(context);
  }
};

struct Result {
  double creation_seconds = 0;
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

void create(const Options& options, Handles& h, Result* result) {
  Caller call;
  const double begin = now();
  call.check(plait_context_create(PLAIT_API_VERSION, nullptr, &h.context, call));
  call.check(plait_config_create(h.context, &h.config, call));
  std::ifstream file(options.config, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + options.config);
  const std::string json{std::istreambuf_iterator<char>(file), {}};
  call.check(plait_config_load(h.config, json.data(), static_cast<int64_t>(json.size()), call));
  call.check(plait_group_create(h.context, h.config, 0, 1, 1, &h.group, call));
  call.check(plait_engine_create(h.group, h.config, -1, &h.engine, call));
  result->creation_seconds = now() - begin;

  plait_batch_spec spec{};
  spec.struct_size = sizeof spec;
  call.check(plait_engine_batch_spec(h.engine, &spec, call));
  call.check(plait_batch_create(h.engine, PLAIT_BATCH_GLOBAL, &h.batch, call));
  int32_t* tokens = nullptr;
  const int64_t columns = spec.sequence_length + 1;
  call.check(plait_batch_map(h.batch, "tokens", spec.global_rows, columns, &tokens, call));
  const plait::PhiloxKey key = plait::stream_key("bench/tokens", 1);
  for (int64_t i = 0; i < spec.global_rows * columns; ++i) {
    const uint32_t word = plait::philox(key, {static_cast<uint32_t>(i), 0, 0, 0})[0];
    tokens[i] = static_cast<int32_t>(word % static_cast<uint32_t>(spec.vocab_size));
  }
}

double counter(const Handles& h, const char* name) {
  Caller call;
  double value = 0;
  call.check(plait_engine_counter(h.engine, name, &value, call));
  return value;
}

std::string report(const Handles& h, const char* kind) {
  Caller call;
  plait_bytes* bytes = nullptr;
  call.check(plait_engine_report(h.engine, kind, &bytes, call));
  std::string text(static_cast<const char*>(plait_bytes_data(bytes)),
                   static_cast<size_t>(plait_bytes_size(bytes)));
  plait_bytes_free(bytes);
  return text;
}

void run_steps(const Options& options, const Handles& h, Result* result) {
  Caller call;
  plait_metrics metrics{};
  metrics.struct_size = sizeof metrics;
  const auto step = [&] {
    const double begin = now();
    call.check(plait_engine_step(h.engine, h.batch, -1, &metrics, call));
    return now() - begin;
  };
  result->first_seconds = step();
  result->loss_first = metrics.loss;
  for (int64_t i = 0; i < options.warm; ++i) step();
  result->seconds.reserve(static_cast<size_t>(options.most));
  const double operations = counter(h, "operations");
  const int64_t allocations = plait::bench::allocations(), packs = plait::bench::packs();
  const int64_t packed = plait::bench::packed_bytes();
  const double begin = now();
  int64_t count = 0;
  while (count < options.most && (count < options.least || now() - begin < options.seconds)) {
    result->seconds.push_back(step());
    ++count;
  }
  result->allocations = plait::bench::allocations() - allocations;
  result->packs = (plait::bench::packs() - packs) / count;
  result->packed_bytes = (plait::bench::packed_bytes() - packed) / count;
  result->operations = (counter(h, "operations") - operations) / static_cast<double>(count);
  result->loss_last = metrics.loss;
  result->ledger_bytes = metrics.memory_peak_bytes;
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

std::string ceilings() {
  plait::ThreadPool pool(plait::usable_cores(), {}, false);
  return plait::bench::ceilings_json(pool.threads(), plait::bench::product_ceilings(pool), nullptr);
}

void run(const Options& options) {
  const std::string before = ceilings();
  Handles handles;
  Result result;
  create(options, handles, &result);
  if (options.is_other_thread) {
    std::exception_ptr failure;
    std::thread thread([&] {
      try {
        run_steps(options, handles, &result);
      } catch (...) {
        failure = std::current_exception();
      }
    });
    thread.join();
    if (failure) std::rethrow_exception(failure);
  } else {
    run_steps(options, handles, &result);
  }
  plait::bench::print_line(JsonObject()
                               .raw("ceilings_before", before)
                               .raw("ceilings_after", ceilings())
                               .field("creation_seconds", result.creation_seconds)
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
                               .raw("kernels", report(handles, "kernels")));
}

}  // namespace

int main(int argc, char** argv) try {
  run(parse(argc, argv));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_step: %s\n", error.what());
  return 1;
}

// Saves and loads of one model through the public interface:
//   bench_checkpoint save   DIRECTORY TURNS CONFIG.json
//       how long a save stops training and how long it takes, beside a copy of the same bytes and
//       plain files of the same sizes, in turns
//   bench_checkpoint load   DIRECTORY TURNS CONFIG.json OTHER.json
//       loads in the same and in the other layout, in turns, beside what bounds one thread
//   bench_checkpoint beside DIRECTORY TURNS CONFIG.json STEPS
//       STEPS training steps with a save in them, between as many without
// DIRECTORY exists and is empty; what is made there is removed, as far as the program gets. Every
// step that is saved is verified, every load compared with what was saved; one JSON line.
#include <malloc.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/device/device.h"
#include "kernels/device/isa.h"
#include "tests/bench/checkpoint_ceilings.h"
#include "tests/bench/checkpoint_run.h"
#include "tests/bench/measure.h"

namespace {

using namespace plait::bench;
using plait::JsonArray;
using plait::JsonObject;

struct Options {
  std::string mode, directory, config, last;
  int64_t turns = 0;
};

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(what);
}

void save_and_verify(EngineRun& engine, const std::string& root) {
  Save(engine, root).wait();
  verify(engine, root, true);
}

// ---- save ----

void run_saves(const Options& options) {
  const std::string root = options.directory + "/root";
  EngineRun engine(read_text(options.config));
  engine.step();
  Save first(engine, root);
  const double first_stall = first.stall_seconds(), first_seconds = first.wait();
  verify(engine, root, true);
  require_saved(saved_state(engine, root), live_state(engine));
  const int64_t bytes = state_bytes(engine, root);
  const FileSizes files = step_files(root);
  int64_t file_bytes = 0;
  for (const auto& [path, size] : files) file_bytes += size;

  plait::ThreadPool pool(plait::usable_cores(), {}, false);
  plait::MemoryLedger ledger;
  const plait::Buffer from(file_bytes, plait::MemoryCategory::kWorkspace, &ledger);
  const plait::Buffer to(bytes, plait::MemoryCategory::kWorkspace, &ledger);
  read_files(files, from.data());
  copy_seconds(pool, from.data(), to.data(), bytes);
  remove_steps(root);

  std::vector<double> stalls, saves, copies, writes;
  const auto write_plain = [&] {
    settle_disk(options.directory);
    writes.push_back(plain_write_seconds(options.directory, files, from.data()));
  };
  const auto save = [&] {
    settle_disk(options.directory);
    Save begun(engine, root);
    stalls.push_back(begun.stall_seconds());
    saves.push_back(begun.wait());
    verify(engine, root, true);
    remove_steps(root);
  };
  for (int64_t turn = 0; turn < options.turns; ++turn) {
    engine.step();
    copies.push_back(copy_seconds(pool, from.data(), to.data(), bytes));
    // A B B A: a disk may be slower for whom comes second.
    if (turn % 2 == 0) write_plain();
    save();
    if (turn % 2 != 0) write_plain();
  }
  print_line(JsonObject()
                 .field("state_bytes", bytes)
                 .field("file_bytes", file_bytes)
                 .field("files", files.size())
                 .field("threads", pool.threads())
                 .field("first_stall", first_stall)
                 .field("first_seconds", first_seconds)
                 .raw("stalls", json_numbers(stalls))
                 .raw("copies", json_numbers(copies))
                 .raw("saves", json_numbers(saves))
                 .raw("writes", json_numbers(writes)));
}

// ---- load ----

struct Loads {
  std::vector<double> seconds, processor_seconds, system_seconds;
  int64_t extra_bytes = 0;

  void add(const LoadTimes& times) {
    seconds.push_back(times.seconds);
    processor_seconds.push_back(times.processor_seconds);
    system_seconds.push_back(times.system_seconds);
    const bool is_known = extra_bytes >= 0 && times.extra_bytes >= 0;
    extra_bytes = is_known ? std::max(extra_bytes, times.extra_bytes) : -1;
  }

  std::string text() const {
    return JsonObject()
        .raw("seconds", json_numbers(seconds))
        .raw("processor_seconds", json_numbers(processor_seconds))
        .raw("system_seconds", json_numbers(system_seconds))
        .field("extra_bytes", extra_bytes)
        .text();
  }
};

std::string text_of(const Ceiling& ceiling) {
  return JsonObject().field("rate", ceiling.rate).field("spread", ceiling.spread).text();
}

std::string text_of(const ReadCeilings& ceilings) {
  return JsonObject()
      .raw("read", text_of(ceilings.read))
      .raw("hash", text_of(ceilings.hash))
      .raw("digest", text_of(ceilings.digest))
      .raw("copy", text_of(ceilings.copy))
      .raw("first_use", text_of(ceilings.first_use))
      .field("together", ceilings.together())
      .text();
}

/// Loads into engines of the layout that saved, new ones each, and verifications without one.
struct FreshLoads {
  Loads loads, proofs;
  std::unique_ptr<EngineRun> last;  ///< holds what was saved
};

FreshLoads load_fresh(const Options& options, const std::string& root, const StateHashes& want) {
  FreshLoads fresh;
  for (int64_t turn = 0; turn < options.turns; ++turn) {
    fresh.last.reset();
    fresh.last = std::make_unique<EngineRun>(read_text(options.config));
    fresh.loads.add(load(*fresh.last, root));
    require(live_state(*fresh.last) == want, "a load left other values than were saved");
    fresh.proofs.add(verify(*fresh.last, root, false));
  }
  return fresh;
}

void run_loads(const Options& options) {
  const std::string roots[] = {options.directory + "/own", options.directory + "/other"};
  StateHashes want;
  int64_t bytes = 0;
  {
    EngineRun engine(read_text(options.config));
    engine.step();
    want = live_state(engine);
    save_and_verify(engine, roots[0]);
    bytes = state_bytes(engine, roots[0]);
  }
  const ReadCeilings ceilings = read_ceilings(step_files(roots[0]));
  FreshLoads fresh = load_fresh(options, roots[0], want);

  EngineRun other(read_text(options.last));
  Loads fresh_other;
  fresh_other.add(load(other, roots[0]));
  require(live_state(other) == want, "a load in the other layout left other values");
  save_and_verify(other, roots[1]);
  EngineRun* const engines[] = {fresh.last.get(), &other};
  for (EngineRun* engine : engines) {
    engine->step();
    require(live_state(*engine) != want, "a training step changed nothing");
    load(*engine, roots[engine == &other ? 0 : 1]);
    require(live_state(*engine) == want, "a load in another layout left other values");
  }
  Loads live[2][2];  // [engine][root]
  for (int64_t turn = 0; turn < options.turns; ++turn) {
    for (int engine = 0; engine < 2; ++engine) {
      for (int root = 0; root < 2; ++root) {
        live[engine][root].add(load(*engines[engine], roots[root]));
      }
    }
  }
  for (EngineRun* engine : engines) {
    require(live_state(*engine) == want, "a repeated load left other values");
  }
  print_line(JsonObject()
                 .field("state_bytes", bytes)
                 .field("isa", plait::isa_name(plait::detected_isa().level))
                 .raw("ceilings", text_of(ceilings))
                 .raw("fresh", fresh.loads.text())
                 .raw("verify", fresh.proofs.text())
                 .raw("fresh_other", fresh_other.text())
                 .raw("own_from_own", live[0][0].text())
                 .raw("own_from_other", live[0][1].text())
                 .raw("other_from_other", live[1][1].text())
                 .raw("other_from_own", live[1][0].text()));
}

// ---- beside training ----

double run_steps(EngineRun& engine, int64_t steps) {
  const double begin = now();
  for (int64_t i = 0; i < steps; ++i) engine.step();
  return now() - begin;
}

/// Steps that begin with a save, until all of it is done: times as JSON.
std::string run_with_save(EngineRun& engine, const std::string& root, int64_t steps) {
  const double begin = now();
  Save save(engine, root);
  run_steps(engine, steps);
  save.wait();
  const double seconds = now() - begin;
  return JsonObject()
      .field("seconds", seconds)
      .field("stall_seconds", save.stall_seconds())
      .raw("report", save.report())
      .text();
}

/// A save whose steps go on while it is written holds the values of the call.
void check_saved_beside(EngineRun& engine, const std::string& root) {
  const StateHashes want = live_state(engine);
  Save save(engine, root);
  engine.step();
  save.wait();
  require(live_state(engine) != want, "a training step changed nothing");
  require_saved(saved_state(engine, root), want);
  remove_steps(root);
}

void run_beside(const Options& options) {
  const int64_t steps = std::atoll(options.last.c_str());
  require(steps > 0, "STEPS is a number of steps");
  const std::string root = options.directory + "/root";
  EngineRun engine(read_text(options.config));
  engine.step();
  check_saved_beside(engine, root);
  std::vector<double> plain = {run_steps(engine, steps)};
  int64_t bytes = 0;
  JsonArray windows;
  for (int64_t turn = 0; turn < options.turns; ++turn) {
    windows.add(run_with_save(engine, root, steps));
    verify(engine, root, true);
    bytes = state_bytes(engine, root);
    remove_steps(root);
    settle_disk(options.directory);
    plain.push_back(run_steps(engine, steps));
  }
  print_line(JsonObject()
                 .field("state_bytes", bytes)
                 .raw("plain", json_numbers(plain))
                 .raw("saving", windows.text()));
}

Options parse(int argc, char** argv) {
  Options options;
  if (argc > 4) {
    options = {argv[1], argv[2], argv[4], argc > 5 ? argv[5] : "", std::atoll(argv[3])};
  }
  const bool is_save = options.mode == "save" && argc == 5;
  const bool is_other = (options.mode == "load" || options.mode == "beside") && argc == 6;
  if ((!is_save && !is_other) || options.turns < 1) {
    throw std::runtime_error(
        "usage: bench_checkpoint save|load|beside DIRECTORY TURNS CONFIG.json [OTHER.json|STEPS]");
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) try {
  // Large memory is given back when it is freed: what a load takes shows in what is resident, and
  // its buffers are as new as those of a process that starts with it.
  ::mallopt(M_MMAP_THRESHOLD, 1 << 20);
  const Options options = parse(argc, argv);
  if (options.mode == "save") run_saves(options);
  if (options.mode == "load") run_loads(options);
  if (options.mode == "beside") run_beside(options);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_checkpoint: %s\n", error.what());
  return 1;
}

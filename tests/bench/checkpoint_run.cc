#include "tests/bench/checkpoint_run.h"

#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <stdexcept>

#include "checkpoint/format/hash.h"
#include "tests/bench/measure.h"

namespace plait::bench {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kResidentSlack = int64_t{1} << 20;  // counters of threads that are not added yet

double seconds_of(const timeval& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
}

template <class Work>
LoadTimes timed(const Work& work) {
  LoadTimes times;
  reset_peak_resident();
  const int64_t before = peak_resident_bytes();
  const bool is_reset = before - resident_bytes() < kResidentSlack;
  rusage usage{}, usage_before{};
  ::getrusage(RUSAGE_SELF, &usage_before);
  const double begin = now();
  work();
  times.seconds = now() - begin;
  ::getrusage(RUSAGE_SELF, &usage);
  times.system_seconds = seconds_of(usage.ru_stime) - seconds_of(usage_before.ru_stime);
  times.processor_seconds =
      seconds_of(usage.ru_utime) - seconds_of(usage_before.ru_utime) + times.system_seconds;
  times.extra_bytes = is_reset ? peak_resident_bytes() - before : -1;
  return times;
}

struct OpFree {
  void operator()(plait_op* op) const { plait_op_free(op); }
};
struct CheckpointFree {
  void operator()(plait_checkpoint* checkpoint) const { plait_checkpoint_free(checkpoint); }
};
using Op = std::unique_ptr<plait_op, OpFree>;
using Checkpoint = std::unique_ptr<plait_checkpoint, CheckpointFree>;

Checkpoint open(EngineRun& engine, const std::string& root) {
  Caller call;
  plait_checkpoint* opened = nullptr;
  call.check(plait_checkpoint_open(engine.context(), root.c_str(), &opened, call));
  return Checkpoint(opened);
}

plait_entry_info entry_at(const plait_checkpoint* checkpoint, int64_t index) {
  Caller call;
  plait_entry_info info{};
  info.struct_size = sizeof info;
  call.check(plait_checkpoint_entry_at(checkpoint, index, &info, call));
  return info;
}

int64_t element_bytes(int64_t dtype) { return dtype == PLAIT_DTYPE_FLOAT32 ? 4 : 2; }

uint64_t hash_of(const void* data, int64_t bytes) {
  return xxh3_64({static_cast<const char*>(data), static_cast<size_t>(bytes)});
}

}  // namespace

Save::Save(EngineRun& engine, const std::string& root) {
  Caller call;
  begin_ = now();
  call.check(plait_checkpoint_save(engine.engine(), root.c_str(), -1, &op_, call));
  stall_seconds_ = now() - begin_;
}

Save::~Save() { plait_op_free(op_); }

double Save::wait() {
  Caller call;
  call.check(plait_op_wait(op_, -1, call));
  return now() - begin_;
}

std::string Save::report() const {
  Caller call;
  plait_bytes* bytes = nullptr;
  call.check(plait_op_result(op_, &bytes, call));
  std::string text(static_cast<const char*>(plait_bytes_data(bytes)),
                   static_cast<size_t>(plait_bytes_size(bytes)));
  plait_bytes_free(bytes);
  return text;
}

LoadTimes load(EngineRun& engine, const std::string& root) {
  return timed([&] {
    Caller call;
    plait_bytes* report = nullptr;
    call.check(plait_checkpoint_load(engine.engine(), root.c_str(), -1, &report, call));
    plait_bytes_free(report);
  });
}

LoadTimes verify(EngineRun& engine, const std::string& root, bool is_full) {
  const Checkpoint checkpoint = open(engine, root);
  return timed([&] {
    Caller call;
    plait_op* started = nullptr;
    call.check(plait_checkpoint_verify(checkpoint.get(), is_full ? 1 : 0, &started, call));
    const Op op(started);
    call.check(plait_op_wait(op.get(), -1, call));
  });
}

StateHashes live_state(EngineRun& engine) {
  StateHashes hashes;
  std::vector<char> values;
  for (int64_t i = 0; i < plait_engine_tensor_count(engine.engine()); ++i) {
    Caller call;
    plait_entry_info info{};
    info.struct_size = sizeof info;
    call.check(plait_engine_tensor_at(engine.engine(), i, &info, call));
    if (info.kind == PLAIT_KIND_GRADIENT) continue;
    const int64_t bytes = info.elements * element_bytes(info.dtype);
    values.resize(static_cast<size_t>(bytes));
    call.check(plait_engine_tensor_read(engine.engine(), info.name, static_cast<int32_t>(info.kind),
                                        static_cast<int32_t>(info.dtype), -1, values.data(), bytes,
                                        call));
    hashes[{info.name, info.kind}] = hash_of(values.data(), bytes);
  }
  return hashes;
}

StateHashes saved_state(EngineRun& engine, const std::string& root) {
  StateHashes hashes;
  const Checkpoint checkpoint = open(engine, root);
  for (int64_t i = 0; i < plait_checkpoint_entry_count(checkpoint.get()); ++i) {
    const plait_entry_info info = entry_at(checkpoint.get(), i);
    if (info.kind == 0) continue;  // a property
    Caller call;
    const void* data = nullptr;
    int64_t bytes = 0;
    call.check(plait_checkpoint_map(checkpoint.get(), info.name, static_cast<int32_t>(info.kind),
                                    &data, &bytes, call));
    hashes[{info.name, info.kind}] = hash_of(data, bytes);
  }
  return hashes;
}

void require_saved(const StateHashes& saved, const StateHashes& live) {
  for (const auto& [entry, hash] : live) {
    const auto found = saved.find(entry);
    // Weights follow from masters where there are any.
    const bool is_rounded = entry.second == PLAIT_KIND_PARAM &&
                            live.count({entry.first, int64_t{PLAIT_KIND_MASTER}}) != 0;
    if (found == saved.end() ? is_rounded : found->second == hash) continue;
    throw std::runtime_error("the step does not hold " + entry.first + " of kind " +
                             std::to_string(entry.second) + " as it was when it was saved");
  }
}

int64_t state_bytes(EngineRun& engine, const std::string& root) {
  const Checkpoint checkpoint = open(engine, root);
  int64_t bytes = 0;
  for (int64_t i = 0; i < plait_checkpoint_entry_count(checkpoint.get()); ++i) {
    const plait_entry_info info = entry_at(checkpoint.get(), i);
    if (info.kind != 0) bytes += info.elements * element_bytes(info.dtype);
  }
  return bytes;
}

std::vector<std::pair<std::string, int64_t>> step_files(const std::string& root) {
  std::vector<std::pair<std::string, int64_t>> files;
  for (const auto& step : fs::directory_iterator(root)) {
    if (!step.path().filename().string().starts_with("step-")) continue;
    for (const auto& file : fs::directory_iterator(step)) {
      files.emplace_back(file.path().string(), static_cast<int64_t>(file.file_size()));
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

void remove_steps(const std::string& root) {
  std::vector<fs::path> steps;
  for (const auto& step : fs::directory_iterator(root)) {
    if (step.path().filename().string().starts_with("step-")) steps.push_back(step.path());
  }
  for (const fs::path& step : steps) fs::remove_all(step);
}

}  // namespace plait::bench

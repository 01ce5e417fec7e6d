// What tests of saving share: files that stop at a gate, and what a step holds.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/store/root.h"
#include "checkpoint/store/step_reader.h"
#include "tests/engine/trainer/open_engine.h"
#include "tests/engine/trainer/resume_support.h"
#include "tests/support/fault_files.h"

namespace plait::test {

/// The running system with files that fail or wait on command.
class SavingFiles {
 public:
  SavingFiles() {
    files_.before_each([this](FileOperation operation, const std::string& path) {
      const bool is_value = operation == FileOperation::kWrite && path.ends_with(".plt");
      std::unique_lock lock(mutex_);
      if (!is_shut_ || !is_value) return;
      ++waiting_;
      changed_.notify_all();
      changed_.wait(lock, [&] { return !is_shut_; });
      --waiting_;
    });
  }
  Env& env() { return env_; }
  FaultFiles& files() { return files_; }

  /// From now on whoever writes into a shard waits, until `open`.
  void shut() {
    const std::lock_guard lock(mutex_);
    is_shut_ = true;
  }
  void open() {
    const std::lock_guard lock(mutex_);
    is_shut_ = false;
    changed_.notify_all();
  }
  void await_writer() {
    std::unique_lock lock(mutex_);
    REQUIRE(changed_.wait_for(lock, std::chrono::seconds(20), [&] { return waiting_ > 0; }));
  }

 private:
  FaultFiles files_{posix_env().files};
  Env env_{files_, posix_env().clock, posix_env().entropy};
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_shut_ = false;
  int waiting_ = 0;
};

/// Word of what ended an operation; "" for a success.
inline std::string ending_of(const AsyncOperation& operation) {
  if (!operation.wait(60'000)) return "still running";
  try {
    operation.result();
    return "";
  } catch (const Error& error) {
    return error.word();
  }
}

/// A step, proved whole.
inline std::unique_ptr<StepReader> open_step(const std::string& root, int64_t step) {
  auto reader = StepReader::open(posix_env().files, step_path(root, step));
  for (const Damage& damage : reader->verify(true)) {
    FAIL_CHECK(damage.file << " at " << damage.offset << ": " << damage.what);
  }
  return reader;
}

/// Bits of a step as `state_bits` gives them of an engine; weights stand for masters in float32.
inline std::vector<uint32_t> step_bits(const StepReader& reader, const std::string& compute) {
  std::vector<uint32_t> bits;
  const Manifest& manifest = reader.manifest();
  for (const TensorKind kind :
       {TensorKind::kParam, TensorKind::kMaster, TensorKind::kMoment1, TensorKind::kMoment2}) {
    const bool is_weight = kind == TensorKind::kParam || kind == TensorKind::kMaster;
    const StateKind stored = !is_weight          ? static_cast<StateKind>(kind)
                             : compute == "fp32" ? StateKind::kParam
                                                 : StateKind::kMaster;
    for (size_t i = 0; i < manifest.tensors.size(); ++i) {
      std::vector<float> values(static_cast<size_t>(manifest.tensors[i].shape.elements()));
      reader.read_whole(static_cast<int64_t>(i), stored, values.data());
      for (const float value : values) {
        const bool is_rounded = kind == TensorKind::kParam && compute == "bf16";
        bits.push_back(
            std::bit_cast<uint32_t>(is_rounded ? to_float(from_float<BFloat16>(value)) : value));
      }
    }
  }
  return bits;
}

/// Names in a root, the lock and LATEST left out.
inline std::vector<std::string> steps_in(const std::string& root) {
  std::vector<std::string> names;
  if (!std::filesystem::exists(root)) return names;
  for (const std::string& name : posix_env().files.list(root)) {
    if (name != "LOCK" && name != "LATEST") names.push_back(name);
  }
  return names;
}

/// Every file of a step but INFO.json is the same in both roots.
inline void require_equal_steps(const std::string& a, const std::string& b, int64_t step) {
  const std::vector<std::string> names = posix_env().files.list(step_path(a, step));
  REQUIRE(names == posix_env().files.list(step_path(b, step)));
  for (const std::string& name : names) {
    if (name == "INFO.json") continue;
    INFO(name);
    REQUIRE(bool(bytes_of(step_path(a, step) + "/" + name) ==
                 bytes_of(step_path(b, step) + "/" + name)));
  }
}

}  // namespace plait::test

// What tests of saving and resuming share: runs on rows that follow from the samples consumed, and
// the whole state of an engine as bits.
#pragma once

#include <bit>
#include <catch2/catch.hpp>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "kernels/base/error.h"
#include "tests/engine/data/data_support.h"
#include "tests/support/tiny_model.h"

namespace plait::test {

/// What one step showed.
struct StepRecord {
  int64_t step = 0, samples = 0, skipped = 0;
  double loss = 0, grad_norm = 0, lr = 0, loss_scale = 0;

  /// To the bit, also where a value is no number.
  bool operator==(const StepRecord& other) const {
    const auto bits = [](double value) { return std::bit_cast<uint64_t>(value); };
    return step == other.step && samples == other.samples && skipped == other.skipped &&
           bits(loss) == bits(other.loss) && bits(grad_norm) == bits(other.grad_norm) &&
           bits(lr) == bits(other.lr) && bits(loss_scale) == bits(other.loss_scale);
  }
};

/// One step: of the attached dataset, or on rows that the consumed samples name.
inline StepRecord resume_step(Engine& engine, bool has_dataset = false) {
  const BatchSpec spec = engine.batch_spec();
  std::vector<int32_t> rows;
  for (int64_t i = 0; i < spec.global_rows; ++i) {
    const std::vector<int32_t> row = random_rows(1, spec.sequence_length + 1, spec.vocab_size,
                                                 static_cast<uint64_t>(spec.first_sample + i));
    rows.insert(rows.end(), row.begin(), row.end());
  }
  const Batch batch = token_batch(rows, spec.global_rows);
  Metrics metrics;
  engine.step(has_dataset ? nullptr : &batch, -1, &metrics);
  return {metrics.step,      metrics.samples_total, metrics.skipped_total,
          metrics.loss,      metrics.grad_norm,     metrics.lr,
          metrics.loss_scale};
}

inline std::vector<StepRecord> resume_steps(Engine& engine, int64_t count,
                                            bool has_dataset = false) {
  std::vector<StepRecord> records;
  for (int64_t i = 0; i < count; ++i) records.push_back(resume_step(engine, has_dataset));
  return records;
}

/// Bits of all weights, masters and moments.
inline std::vector<uint32_t> state_bits(Engine& engine) {
  std::vector<uint32_t> bits;
  for (const TensorKind kind :
       {TensorKind::kParam, TensorKind::kMaster, TensorKind::kMoment1, TensorKind::kMoment2}) {
    for (const float value : read_all(engine, kind)) bits.push_back(std::bit_cast<uint32_t>(value));
  }
  return bits;
}

/// Saves and waits until the step is durable; its report. Any thread: asserts nothing.
inline std::string save_now(Engine& engine, const std::string& root) {
  const auto operation = engine.save(root, -1);
  if (!operation->wait(60'000)) throw Error("deadline", "a save did not end").with("root", root);
  return operation->result();
}

/// Loads; the report.
inline nlohmann::json loaded(Engine& engine, const std::string& path) {
  std::string report;
  if (engine.load(path, -1, &report) != Outcome::kDone) throw Error("cancelled", "stopped");
  return nlohmann::json::parse(report);
}

inline std::string step_path(const std::string& root, int64_t step) {
  std::string digits = std::to_string(step);
  return root + "/step-" + std::string(12 - digits.size(), '0') + digits;
}

/// Runs `call`, which must throw, and returns the error.
template <class Call>
Error thrown_by(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error;
  }
  FAIL("the call went through");
  return Error("invariant", "");
}

inline bool says(const Error& error, const std::string& text) {
  INFO(error.message());
  return (error.message() + error.details()).find(text) != std::string::npos;
}

inline std::string bytes_of(const std::string& path) {
  return read_file(posix_env().files, path, int64_t{1} << 30);
}

/// Changes one byte of a file.
inline void flip_byte(const std::string& path, size_t at) {
  std::string bytes = bytes_of(path);
  REQUIRE(at < bytes.size());
  bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
  write_text(path, bytes);
}

/// Keys of a run whose rate, masks and clipping change from step to step.
inline Keys resume_keys(const Keys& more = {}) {
  Keys keys = {{"train.dropout", "0.2"},
               {"optimizer.lr_schedule", "cosine"},
               {"optimizer.lr_warmup_steps", "2"},
               {"optimizer.lr_decay_steps", "12"},
               {"optimizer.clip_grad_norm", "0.5"}};
  keys.insert(keys.end(), more.begin(), more.end());
  return keys;
}

}  // namespace plait::test

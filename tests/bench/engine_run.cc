#include "tests/bench/engine_run.h"

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <stdexcept>

#include "kernels/base/random.h"
#include "tests/bench/measure.h"

namespace plait::bench {

void Caller::check(int32_t code) {
  if (code == PLAIT_OK) return;
  const std::string message = plait_error_message(error_);
  plait_error_free(error_);
  error_ = nullptr;
  throw std::runtime_error(message);
}

EngineRun::EngineRun(const std::string& json) {
  try {
    create(json);
  } catch (...) {
    free();
    throw;
  }
}

EngineRun::~EngineRun() { free(); }

void EngineRun::free() {
  plait_batch_free(batch_);
  plait_engine_free(engine_);
  plait_group_free(group_);
  plait_config_free(config_);
  plait_context_free(context_);
}

void EngineRun::create(const std::string& json) {
  Caller call;
  const double begin = now();
  call.check(plait_context_create(PLAIT_API_VERSION, nullptr, &context_, call));
  call.check(plait_config_create(context_, &config_, call));
  call.check(plait_config_load(config_, json.data(), static_cast<int64_t>(json.size()), call));
  const auto world = static_cast<int32_t>(ranks());
  call.check(plait_group_create(context_, config_, 0, world, world, &group_, call));
  call.check(plait_engine_create(group_, config_, -1, &engine_, call));
  creation_seconds_ = now() - begin;
  fill_batch();
}

int64_t EngineRun::ranks() const {
  int64_t world = 1;
  for (const char* key : {"layout.tensor", "layout.pipeline", "layout.data"}) {
    Caller call;
    plait_bytes* bytes = nullptr;
    call.check(plait_config_get(config_, key, &bytes, call));
    world *= std::atoll(static_cast<const char*>(plait_bytes_data(bytes)));
    plait_bytes_free(bytes);
  }
  return world;
}

void EngineRun::fill_batch() {
  Caller call;
  plait_batch_spec spec{};
  spec.struct_size = sizeof spec;
  call.check(plait_engine_batch_spec(engine_, &spec, call));
  call.check(plait_batch_create(engine_, PLAIT_BATCH_GLOBAL, &batch_, call));
  int32_t* tokens = nullptr;
  const int64_t columns = spec.sequence_length + 1;
  call.check(plait_batch_map(batch_, "tokens", spec.global_rows, columns, &tokens, call));
  const PhiloxKey key = stream_key("bench/tokens", 1);
  for (int64_t i = 0; i < spec.global_rows * columns; ++i) {
    const uint32_t word = philox(key, {static_cast<uint32_t>(i), 0, 0, 0})[0];
    tokens[i] = static_cast<int32_t>(word % static_cast<uint32_t>(spec.vocab_size));
  }
}

double EngineRun::step() {
  Caller call;
  metrics_ = {};
  metrics_.struct_size = sizeof metrics_;
  const double begin = now();
  call.check(plait_engine_step(engine_, batch_, -1, &metrics_, call));
  return now() - begin;
}

double EngineRun::counter(const char* name) const {
  Caller call;
  double value = 0;
  call.check(plait_engine_counter(engine_, name, &value, call));
  return value;
}

std::string EngineRun::report(const char* kind) const {
  Caller call;
  plait_bytes* bytes = nullptr;
  call.check(plait_engine_report(engine_, kind, &bytes, call));
  std::string text(static_cast<const char*>(plait_bytes_data(bytes)),
                   static_cast<size_t>(plait_bytes_size(bytes)));
  plait_bytes_free(bytes);
  return text;
}

void EngineRun::set(const char* key, const char* value) {
  Caller call;
  call.check(plait_engine_set(engine_, key, value, call));
}

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("cannot read " + path);
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace plait::bench

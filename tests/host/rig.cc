#include "tests/host/rig.h"

#include <stdexcept>

namespace host {
namespace {

void ensure(int32_t code, const Err& err) {
  if (code != PLAIT_OK) throw std::runtime_error(err.message());
}

constexpr char kSmall[] = R"({"model":{"family":"gpt2","layers":2,"hidden":32,"heads":4,
  "vocab_size":61,"sequence_length":16,"tied":false},"train":{"global_batch":4},
  "seed":7,"threads":1})";

}  // namespace

Config small_config(plait_context* context, const std::string& keys) {
  Config config = make_config(context, kSmall);
  Err err;
  ensure(plait_config_load(config, keys.data(), static_cast<int64_t>(keys.size()), err), err);
  return config;
}

std::vector<int32_t> make_rows(int64_t rows, int64_t columns, int64_t seed, int64_t vocabulary) {
  std::vector<int32_t> ids;
  uint64_t state = 88172645463325252u + static_cast<uint64_t>(seed) * 7919;
  for (int64_t i = 0; i < rows * columns; ++i) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    ids.push_back(static_cast<int32_t>(state % static_cast<uint64_t>(vocabulary)));
  }
  return ids;
}

Rig::Rig(const std::string& keys)
    : context(make_context()),
      config(small_config(context, keys)),
      group(make_group(context, config)) {
  Err err;
  ensure(plait_engine_create(group, config, 60000, engine.out(), err), err);
  ensure(plait_batch_create(engine, PLAIT_BATCH_GLOBAL, batch.out(), err), err);
}

void Rig::set_tokens(const std::vector<int32_t>& rows, int64_t columns) {
  Err err;
  ensure(plait_batch_set(batch, "tokens", rows.data(), static_cast<int64_t>(rows.size()) / columns,
                         columns, err),
         err);
}

double Rig::good_step(int64_t seed) {
  set_tokens(make_rows(4, 17, seed));
  Err err;
  ensure(step(err), err);
  return metrics.loss;
}

std::vector<float> Rig::read(const std::string& name, int32_t kind) {
  auto info = sized<plait_entry_info>();
  Err err;
  for (int64_t i = 0; i < plait_engine_tensor_count(engine); ++i) {
    ensure(plait_engine_tensor_at(engine, i, &info, err), err);
    if (name != info.name || kind != info.kind) continue;
    std::vector<float> values(static_cast<size_t>(info.elements));
    ensure(plait_engine_tensor_read(engine, name.c_str(), kind, PLAIT_DTYPE_FLOAT32, 60000,
                                    values.data(), info.elements * 4, err),
           err);
    return values;
  }
  throw std::runtime_error("no tensor " + name);
}

void Rig::write(const std::string& name, const std::vector<float>& values, int32_t kind) {
  Err err;
  ensure(plait_engine_tensor_write(engine, name.c_str(), kind, PLAIT_DTYPE_FLOAT32, values.data(),
                                   static_cast<int64_t>(values.size()) * 4, 60000, err),
         err);
}

std::string Rig::state() {
  std::string all;
  auto info = sized<plait_entry_info>();
  Err err;
  for (int64_t i = 0; i < plait_engine_tensor_count(engine); ++i) {
    ensure(plait_engine_tensor_at(engine, i, &info, err), err);
    if (info.kind == PLAIT_KIND_GRADIENT) continue;
    const std::vector<float> values = read(info.name, static_cast<int32_t>(info.kind));
    all.append(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  }
  return all;
}

}  // namespace host

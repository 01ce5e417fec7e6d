// The engine's keys, properties, reports and tensors.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/engine.h"
#include "capi/src/entry.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"

using plait::guard;
using plait::Held;
using plait::Use;

namespace {

void check_property_name(const std::string& name) {
  const auto is_legal = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '.' || c == '-';
  };
  if (!name.empty() && name.size() <= 128 && std::all_of(name.begin(), name.end(), is_legal) &&
      name.rfind("hf.", 0) != 0) {
    return;
  }
  throw plait::Error("argument",
                     "a property name is [a-z0-9_.-]{1,128} and does not begin with hf.")
      .with("parameter", "name")
      .with("got", name)
      .subsystem("capi");
}

plait::TensorKind kind_argument(int32_t kind) {
  if (kind == PLAIT_KIND_GRADIENT) return plait::TensorKind::kGradient;
  plait::check_range(kind, PLAIT_KIND_PARAM, PLAIT_KIND_MOMENT2, "kind");
  return static_cast<plait::TensorKind>(kind);
}

}  // namespace

int32_t plait_engine_set(plait_engine* engine, const char* key, const char* value,
                         plait_error** err) {
  return guard(err, [&] {
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    const std::string name = plait::text_argument(key, "key");
    const std::string text = plait::optional_text(value, "value");
    held->value->set(name, value == nullptr ? nullptr : text.c_str());
  });
}

int32_t plait_engine_set_property(plait_engine* engine, const char* name, int32_t type,
                                  int64_t integer, double real, const char* text,
                                  plait_error** err) {
  return guard(err, [&] {
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    plait::Property property;
    property.name = plait::text_argument(name, "name");
    check_property_name(property.name);
    plait::check_range(type, PLAIT_PROPERTY_INTEGER, PLAIT_PROPERTY_TEXT, "type");
    property.type = static_cast<plait::Property::Type>(type);
    if (type == PLAIT_PROPERTY_INTEGER) property.integer = integer;
    if (type == PLAIT_PROPERTY_REAL) property.real = real;
    if (type == PLAIT_PROPERTY_TEXT) {
      property.text = plait::text_argument(text, "text");
      plait::check_range(static_cast<int64_t>(property.text.size()), 0, 65536, "text");
    }
    held->value->set_property(std::move(property));
  });
}

int32_t plait_engine_counter(const plait_engine* engine, const char* name, double* value,
                             plait_error** err) {
  return guard(err, [&] {
    plait::check_aligned(value, "value");
    const Held<plait_engine> held(engine, "engine");
    plait::put(value, held->value->counter(plait::text_argument(name, "name")));
  });
}

int32_t plait_engine_report(const plait_engine* engine, const char* kind, plait_bytes** report,
                            plait_error** err) {
  const plait::BytesOut out(report, "report");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine");
    out.set(held->value->report(plait::text_argument(kind, "kind")));
  });
}

int64_t plait_engine_tensor_count(const plait_engine* engine) {
  if (!plait::may_answer() || !plait::is_live(engine)) return 0;
  return static_cast<int64_t>(engine->value->tensors().size());
}

int32_t plait_engine_tensor_at(const plait_engine* engine, int64_t index, plait_entry_info* info,
                               plait_error** err) {
  plait::StructOut<plait_entry_info> out(info, "plait_entry_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine");
    const std::vector<plait::TensorEntry>& entries = held->value->tensors();
    plait::check_index(index, static_cast<int64_t>(entries.size()));
    const plait::TensorEntry& entry = entries[static_cast<size_t>(index)];
    out.write(plait::tensor_info(entry.name.c_str(), static_cast<int64_t>(entry.kind), entry.dtype,
                                 entry.shape));
  });
}

int32_t plait_engine_tensor_read(plait_engine* engine, const char* name, int32_t kind,
                                 int32_t dtype, int64_t timeout_ms, void* data, int64_t bytes,
                                 plait_error** err) {
  return guard(err, [&] {
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    const std::string tensor = plait::text_argument(name, "name");
    const plait::TensorKind which = kind_argument(kind);
    const plait::DType type = plait::dtype_argument(dtype);
    plait::check_timeout(timeout_ms);
    plait::check_range(bytes, 0, INT64_MAX, "bytes");
    held->value->read_tensor(tensor, which, type, timeout_ms, data, bytes);
  });
}

int32_t plait_engine_tensor_write(plait_engine* engine, const char* name, int32_t kind,
                                  int32_t dtype, const void* data, int64_t bytes,
                                  int64_t timeout_ms, plait_error** err) {
  return guard(err, [&] {
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    const std::string tensor = plait::text_argument(name, "name");
    const plait::TensorKind which = kind_argument(kind);
    const plait::DType type = plait::dtype_argument(dtype);
    plait::bytes_argument(data, bytes, "data");
    plait::check_timeout(timeout_ms);
    held->value->write_tensor(tensor, which, type, data, bytes, timeout_ms);
  });
}

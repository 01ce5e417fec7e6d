#include "capi/src/checkpoint.h"

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/engine.h"
#include "capi/src/entry.h"
#include "capi/src/guard.h"
#include "capi/src/op.h"
#include "capi/src/sized_struct.h"
#include "engine/config/config.h"

using plait::guard;
using plait::Held;
using plait::Use;

namespace plait {
namespace {

static_assert(static_cast<int>(StateKind::kParam) == PLAIT_KIND_PARAM &&
              static_cast<int>(StateKind::kMaster) == PLAIT_KIND_MASTER &&
              static_cast<int>(StateKind::kMoment1) == PLAIT_KIND_MOMENT1 &&
              static_cast<int>(StateKind::kMoment2) == PLAIT_KIND_MOMENT2 &&
              static_cast<int>(StateKind::kExtra) == PLAIT_KIND_EXTRA);
static_assert(static_cast<int>(SavedProperty::Type::kInteger) == PLAIT_PROPERTY_INTEGER &&
              static_cast<int>(SavedProperty::Type::kReal) == PLAIT_PROPERTY_REAL &&
              static_cast<int>(SavedProperty::Type::kText) == PLAIT_PROPERTY_TEXT);

plait_entry_info source_entry_info(const SourceEntry& entry, bool has_digest) {
  plait_entry_info info =
      tensor_info(entry.name.c_str(), static_cast<int64_t>(entry.kind), entry.dtype, entry.shape);
  if (!has_digest) return info;
  info.valid |= PLAIT_ENTRY_DIGEST;
  info.digest = static_cast<int64_t>(entry.digest);
  return info;
}

plait_entry_info property_info(const SavedProperty& property) {
  plait_entry_info info{};
  info.valid = PLAIT_ENTRY_PROPERTY;
  info.name = property.name.c_str();
  info.type = static_cast<int64_t>(property.type);
  info.integer = property.integer;
  info.real = property.real;
  info.text = property.text.c_str();
  return info;
}

}  // namespace
}  // namespace plait

int32_t plait_checkpoint_save(plait_engine* engine, const char* root, int64_t timeout_ms,
                              plait_op** op, plait_error** err) {
  const plait::HandleOut<plait_op> out(op, "op");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    const std::string directory = plait::text_argument(root, "root");
    plait::check_timeout(timeout_ms);
    out.set(new plait_op(held->group->context, held->value->save(directory, timeout_ms)));
  });
}

int32_t plait_checkpoint_load(plait_engine* engine, const char* path, int64_t timeout_ms,
                              plait_bytes** report, plait_error** err) {
  const plait::BytesOut out(report, "report");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    const std::string directory = plait::text_argument(path, "path");
    plait::check_timeout(timeout_ms);
    std::string text;
    if (held->value->load(directory, timeout_ms, &text) == plait::Outcome::kStopped) {
      return plait::Code::kStopped;
    }
    out.set(std::move(text));
    return plait::Code::kOk;
  });
}

int32_t plait_checkpoint_list(plait_context* context, const char* root, plait_bytes** report,
                              plait_error** err) {
  const plait::BytesOut out(report, "report");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    out.set(plait::list_checkpoints(held->env.files, plait::text_argument(root, "root")));
  });
}

int32_t plait_checkpoint_open(plait_context* context, const char* path,
                              plait_checkpoint** checkpoint, plait_error** err) {
  const plait::HandleOut<plait_checkpoint> out(checkpoint, "checkpoint");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    const std::string directory = plait::text_argument(path, "path");
    out.set(new plait_checkpoint(held.ref(), directory,
                                 plait::open_checkpoint_source(held->env.files, directory)));
  });
}

int32_t plait_checkpoint_report(const plait_checkpoint* checkpoint, plait_bytes** report,
                                plait_error** err) {
  const plait::BytesOut out(report, "report");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    out.set(held->source->report());
  });
}

int64_t plait_checkpoint_entry_count(const plait_checkpoint* checkpoint) {
  if (!plait::may_answer() || !plait::is_live(checkpoint)) return 0;
  const plait::CheckpointSource& source = *checkpoint->source;
  return static_cast<int64_t>(source.entries().size() + source.properties().size());
}

int32_t plait_checkpoint_entry_at(const plait_checkpoint* checkpoint, int64_t index,
                                  plait_entry_info* info, plait_error** err) {
  plait::StructOut<plait_entry_info> out(info, "plait_entry_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    const plait::CheckpointSource& source = *held->source;
    const auto tensors = static_cast<int64_t>(source.entries().size());
    plait::check_index(index, tensors + static_cast<int64_t>(source.properties().size()));
    if (index < tensors) {
      const plait::SourceEntry& entry = source.entries()[static_cast<size_t>(index)];
      return out.write(plait::source_entry_info(entry, source.manifest() != nullptr));
    }
    out.write(plait::property_info(source.properties()[static_cast<size_t>(index - tensors)]));
  });
}

int32_t plait_checkpoint_set(plait_checkpoint* checkpoint, const char* key, const char* value,
                             plait_error** err) {
  return guard(err, [&] {
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    const std::string name = plait::text_argument(key, "key");
    const std::string text = plait::optional_text(value, "value");
    plait::check_choice(name, "checkpoint.mmap", "key");
    plait::Config config;
    config.set(name, value == nullptr ? nullptr : text.c_str());
    held->may_map = config.get_boolean(name);
  });
}

int32_t plait_checkpoint_map(plait_checkpoint* checkpoint, const char* name, int32_t kind,
                             const void** data, int64_t* bytes, plait_error** err) {
  return guard(err, [&] {
    plait::check_aligned(data, "data");
    plait::check_aligned(bytes, "bytes");
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    const std::string tensor = plait::text_argument(name, "name");
    const bool is_kind = kind >= PLAIT_KIND_PARAM && kind <= PLAIT_KIND_EXTRA;
    const plait::SourceEntry* entry =
        is_kind ? held->source->find(tensor, static_cast<plait::StateKind>(kind)) : nullptr;
    if (entry == nullptr) {
      throw plait::Error("argument", "the checkpoint has no such entry")
          .with("tensor", tensor)
          .with("kind", kind)
          .subsystem("capi");
    }
    const int64_t size = entry->shape.elements() * plait::dtype_size(entry->dtype);
    auto found = held->shown.find(entry);
    if (found == held->shown.end()) {
      plait_checkpoint::Shown shown;
      if (held->may_map) shown.mapping = held->source->map_entry(*entry);
      if (shown.mapping == nullptr) {
        shown.values.resize(static_cast<size_t>(size));
        held->source->read_entry(*entry, shown.values.data());
      }
      found = held->shown.emplace(entry, std::move(shown)).first;
    }
    plait::put(data, found->second.data());
    plait::put(bytes, size);
  });
}

void plait_checkpoint_free(plait_checkpoint* checkpoint) {
  plait::guard_void([&] { plait::free_handle(checkpoint); });
}

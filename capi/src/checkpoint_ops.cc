// Background work over an open checkpoint.
#include <string>
#include <utility>
#include <vector>

#include "capi/src/arguments.h"
#include "capi/src/checkpoint.h"
#include "capi/src/config.h"
#include "capi/src/guard.h"
#include "capi/src/op.h"
#include "checkpoint/hf_export.h"
#include "engine/config/settings.h"
#include "engine/trainer/convert_step.h"
#include "kernels/base/json_text.h"

using plait::guard;
using plait::Held;
using plait::Use;

namespace plait {
namespace {

/// What is damaged, the first of it as fields of its own, all of it as a list.
Error damage_error(const std::string& path, const std::vector<Damage>& damage) {
  JsonArray list;
  for (const Damage& one : damage) {
    list.add(JsonObject()
                 .field("file", one.file)
                 .field("offset", one.offset)
                 .field("what", one.what)
                 .text());
  }
  return Error("corrupt", "the checkpoint is damaged")
      .with("path", path)
      .with("file", damage.front().file)
      .with("offset", damage.front().offset)
      .with("what", damage.front().what)
      .with("count", damage.size())
      .with_raw("damage", list.text());
}

std::string verify(const plait_checkpoint& checkpoint, bool is_full, AsyncOperation& operation) {
  const CheckpointSource& source = *checkpoint.source;
  operation.set_progress(0, source.data_bytes());
  const std::vector<Damage> damage =
      source.verify(is_full, &operation.done_bytes(), &operation.cancel_flag());
  if (!damage.empty()) throw damage_error(checkpoint.path, damage);
  const Manifest* manifest = source.manifest();
  JsonObject report;
  report.field("path", checkpoint.path);
  if (manifest != nullptr) report.field("step", manifest->progress.step);
  return report.field("entries", source.entries().size())
      .field("bytes", source.data_bytes())
      .field("has_hashes", manifest != nullptr)
      .field("is_full", is_full)
      .text();
}

std::string export_checkpoint(const plait_checkpoint& checkpoint, const ExportConfig& keys,
                              const std::string& target, AsyncOperation& operation) {
  const CheckpointSource& source = *checkpoint.source;
  HfExportOptions run;
  run.dtype = keys.dtype;
  run.max_shard_bytes = keys.max_shard_bytes;
  run.original_config = source.hf_config();
  run.on_progress = [&](int64_t done, int64_t total) { operation.set_progress(done, total); };
  run.cancel = &operation.cancel_flag();
  const auto read = [&](const CheckpointTensor& tensor, float* values) {
    source.read_weights(tensor.name, values);
  };
  const HfExportResult result =
      export_hf(checkpoint.context->env, source.facts(), read, run, target);
  return JsonObject()
      .field("path", target)
      .field("weight_files", result.weight_files)
      .field("tensors", result.tensors)
      .field("bytes", result.bytes)
      .text();
}

}  // namespace
}  // namespace plait

int32_t plait_checkpoint_verify(const plait_checkpoint* checkpoint, int32_t is_full, plait_op** op,
                                plait_error** err) {
  const plait::HandleOut<plait_op> out(op, "op");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    auto body = [open = held.ref(), is_full](plait::AsyncOperation& operation) {
      return plait::verify(*open, is_full != 0, operation);
    };
    out.set(plait::start_op(held->context, "plait-verify", std::move(body)).release());
  });
}

int32_t plait_checkpoint_convert(const plait_checkpoint* checkpoint, const plait_config* layout,
                                 const char* root, plait_op** op, plait_error** err) {
  const plait::HandleOut<plait_op> out(op, "op");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    plait::Config copy = plait::copy_config(layout, "layout");
    const std::string target = plait::text_argument(root, "root");
    auto body = [open = held.ref(), copy = std::move(copy),
                 target](plait::AsyncOperation& operation) {
      plait_context& context = *open->context;
      return plait::convert_checkpoint(context.env, &context.log(), *open->source, copy, target,
                                       operation);
    };
    out.set(plait::start_op(held->context, "plait-convert", std::move(body)).release());
  });
}

int32_t plait_checkpoint_export_hf(const plait_checkpoint* checkpoint, const plait_config* options,
                                   const char* directory, plait_op** op, plait_error** err) {
  const plait::HandleOut<plait_op> out(op, "op");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    const plait::ExportConfig keys =
        plait::make_export(plait::copy_config_or_default(options, "options"));
    const std::string target = plait::text_argument(directory, "directory");
    auto body = [open = held.ref(), keys, target](plait::AsyncOperation& operation) {
      return plait::export_checkpoint(*open, keys, target, operation);
    };
    out.set(plait::start_op(held->context, "plait-export", std::move(body)).release());
  });
}

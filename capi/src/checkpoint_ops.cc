// Background work over an open checkpoint.
#include <memory>
#include <string>
#include <utility>

#include "capi/src/arguments.h"
#include "capi/src/checkpoint.h"
#include "capi/src/config.h"
#include "capi/src/guard.h"
#include "capi/src/op.h"
#include "checkpoint/hf_export.h"
#include "engine/config/settings.h"
#include "kernels/base/box.h"
#include "kernels/base/json_text.h"

using plait::guard;
using plait::Held;
using plait::Use;

int32_t plait_checkpoint_verify(const plait_checkpoint* checkpoint, int32_t, plait_op** op,
                                plait_error** err) {
  const plait::HandleOut<plait_op> out(op, "op");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    throw plait::not_built("verify", "verifying is not in this build");
  });
}

int32_t plait_checkpoint_convert(const plait_checkpoint* checkpoint, const plait_config* layout,
                                 const char* root, plait_op** op, plait_error** err) {
  const plait::HandleOut<plait_op> out(op, "op");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    const plait::Config copy = plait::copy_config(layout, "layout");
    plait::text_argument(root, "root");
    throw plait::not_built("convert", "converting is not in this build");
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
    auto body = [source = held.ref(), keys, target](plait::AsyncOperation& operation) {
      plait::HfExportOptions run;
      run.dtype = keys.dtype;
      run.max_shard_bytes = keys.max_shard_bytes;
      run.original_config = source->directory.config().text;
      run.on_progress = [&](int64_t done, int64_t total) { operation.set_progress(done, total); };
      run.cancel = &operation.cancel_flag();
      const auto read = [&](const plait::CheckpointTensor& tensor, float* values) {
        source->directory.read(tensor.name, plait::Box::whole(tensor.shape), values);
      };
      const plait::HfExportResult result =
          plait::export_hf(source->context->env, source->directory.facts(), read, run, target);
      return plait::JsonObject()
          .field("path", target)
          .field("weight_files", result.weight_files)
          .field("tensors", result.tensors)
          .field("bytes", result.bytes)
          .text();
    };
    out.set(plait::start_op(held->context, "plait-export", std::move(body)).release());
  });
}

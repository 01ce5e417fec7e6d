#include "capi/src/checkpoint.h"

#include <memory>
#include <utility>
#include <vector>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/config.h"
#include "capi/src/engine.h"
#include "capi/src/entry.h"
#include "capi/src/guard.h"
#include "capi/src/sized_struct.h"
#include "kernels/base/box.h"
#include "kernels/base/json_text.h"

using plait::guard;
using plait::Held;
using plait::Use;

namespace plait {

void check_is_hugging_face(Files& files, const std::string& path) {
  if (files.stat(path).kind != FileInfo::Kind::kDirectory) {
    throw Error("no_checkpoint", "a checkpoint is a directory").with("path", path);
  }
  if (files.exists(join_path(path, "config.json"))) return;
  for (const std::string& name : files.list(path)) {
    if (name == "MANIFEST" || name.rfind("step-", 0) == 0) {
      throw not_built("checkpoint", "Plait's own checkpoints are not in this build")
          .with("path", path);
    }
  }
  throw Error("no_checkpoint", "the directory holds no checkpoint").with("path", path);
}

namespace {

/// Element type of an entry. What the ABI has no number for is read as float32.
DType stored_dtype(const HfDirectory& directory, const std::string& name) {
  const std::string type = directory.type_name(name);
  if (type == "BF16") return DType::kBFloat16;
  return type == "F16" ? DType::kFloat16 : DType::kFloat32;
}

/// The whole tensor as bytes of its stored type. The values came from that type: exact.
std::string read_whole(const HfDirectory& directory, const CheckpointTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  directory.read(tensor.name, Box::whole(tensor.shape), values.data());
  const DType dtype = stored_dtype(directory, tensor.name);
  std::string bytes(values.size() * static_cast<size_t>(dtype_size(dtype)), '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    if (dtype == DType::kBFloat16) {
      reinterpret_cast<BFloat16*>(bytes.data())[i] = to_bfloat16(values[i]);
    } else if (dtype == DType::kFloat16) {
      reinterpret_cast<Float16*>(bytes.data())[i] = to_float16(values[i]);
    } else {
      reinterpret_cast<float*>(bytes.data())[i] = values[i];
    }
  }
  return bytes;
}

std::string json_list(const std::vector<std::string>& texts) {
  JsonArray list;
  for (const std::string& text : texts) list.add(json_string(text));
  return list.text();
}

std::string describe(const plait_checkpoint& checkpoint) {
  const HfDirectory& directory = checkpoint.directory;
  JsonObject model;
  for (const auto& [key, value] : directory.config().keys) model.field(key, value);
  return JsonObject()
      .field("format", "hugging_face")
      .field("path", checkpoint.path)
      .field("family", family_name(directory.facts().family))
      .raw("model", model.text())
      .field("tensors", directory.tensors().size())
      .field("weight_files", directory.file_count())
      .field("bytes", directory.data_bytes())
      .raw("warnings", json_list(directory.warnings()))
      .raw("notes", json_list(directory.config().notes))
      .text();
}

}  // namespace
}  // namespace plait

int32_t plait_checkpoint_save(plait_engine* engine, const char* root, int64_t timeout_ms,
                              plait_op** op, plait_error** err) {
  const plait::HandleOut<plait_op> out(op, "op");
  return guard(err, [&] {
    out.check();
    const Held<plait_engine> held(engine, "engine", Use::kExclusive);
    plait::text_argument(root, "root");
    plait::check_timeout(timeout_ms);
    throw plait::not_built("checkpoint", "saving is not in this build");
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
    plait::check_is_hugging_face(held->group->context->env.files, directory);
    out.set(held->value->load_weights(directory, timeout_ms));
  });
}

int32_t plait_checkpoint_list(plait_context* context, const char* root, plait_bytes** report,
                              plait_error** err) {
  const plait::BytesOut out(report, "report");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    plait::text_argument(root, "root");
    throw plait::not_built("checkpoint", "Plait's own checkpoints are not in this build");
  });
}

int32_t plait_checkpoint_open(plait_context* context, const char* path,
                              plait_checkpoint** checkpoint, plait_error** err) {
  const plait::HandleOut<plait_checkpoint> out(checkpoint, "checkpoint");
  return guard(err, [&] {
    out.check();
    const Held<plait_context> held(context, "context");
    const std::string directory = plait::text_argument(path, "path");
    plait::check_is_hugging_face(held->env.files, directory);
    out.set(new plait_checkpoint(held.ref(), directory,
                                 plait::HfDirectory::open(held->env.files, directory)));
  });
}

int32_t plait_checkpoint_report(const plait_checkpoint* checkpoint, plait_bytes** report,
                                plait_error** err) {
  const plait::BytesOut out(report, "report");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    out.set(plait::describe(*held));
  });
}

int64_t plait_checkpoint_entry_count(const plait_checkpoint* checkpoint) {
  if (!plait::may_answer() || !plait::is_live(checkpoint)) return 0;
  return static_cast<int64_t>(checkpoint->entries.size());
}

int32_t plait_checkpoint_entry_at(const plait_checkpoint* checkpoint, int64_t index,
                                  plait_entry_info* info, plait_error** err) {
  plait::StructOut<plait_entry_info> out(info, "plait_entry_info");
  return guard(err, [&] {
    out.check();
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    plait::check_index(index, static_cast<int64_t>(held->entries.size()));
    const plait::CheckpointTensor& tensor = *held->entries[static_cast<size_t>(index)];
    out.write(plait::tensor_info(tensor.name.c_str(), PLAIT_KIND_PARAM,
                                 plait::stored_dtype(held->directory, tensor.name), tensor.shape));
  });
}

int32_t plait_checkpoint_map(plait_checkpoint* checkpoint, const char* name, int32_t kind,
                             const void** data, int64_t* bytes, plait_error** err) {
  return guard(err, [&] {
    plait::check_aligned(data, "data");
    plait::check_aligned(bytes, "bytes");
    const Held<plait_checkpoint> held(checkpoint, "checkpoint", Use::kExclusive);
    const std::string tensor = plait::text_argument(name, "name");
    const plait::CheckpointTensor* entry = held->directory.find(tensor);
    if (entry == nullptr || kind != PLAIT_KIND_PARAM) {
      throw plait::Error("argument", "the checkpoint has no such entry")
          .with("tensor", tensor)
          .with("kind", kind)
          .subsystem("capi");
    }
    auto found = held->mapped.find(tensor);
    if (found == held->mapped.end()) {
      found = held->mapped.emplace(tensor, plait::read_whole(held->directory, *entry)).first;
    }
    plait::put(data, static_cast<const void*>(found->second.data()));
    plait::put(bytes, static_cast<int64_t>(found->second.size()));
  });
}

void plait_checkpoint_free(plait_checkpoint* checkpoint) {
  plait::guard_void([&] { plait::free_handle(checkpoint); });
}

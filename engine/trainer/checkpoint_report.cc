#include "engine/trainer/checkpoint_report.h"

#include <cstdio>

#include "kernels/base/json_text.h"

namespace plait {
namespace {

std::string layout_json(const SavedLayout& layout) {
  JsonArray stages;
  for (const int64_t layers : layout.stage_layers) stages.add(std::to_string(layers));
  return JsonObject()
      .field("tensor", layout.tensor)
      .field("pipeline", layout.pipeline)
      .field("data", layout.data)
      .field("interleave", layout.interleave)
      .field("zero", layout.zero)
      .field("sequence_parallel", layout.sequence_parallel)
      .raw("stage_layers", stages.text())
      .text();
}

std::string progress_json(const SavedProgress& progress) {
  return JsonObject()
      .field("step", progress.step)
      .field("updates", progress.updates)
      .field("samples", progress.samples)
      .field("tokens", progress.tokens)
      .field("skipped", progress.skipped)
      .field("overflows", progress.overflows)
      .field("lr", progress.lr)
      .text();
}

std::string scaler_json(const SavedScaler& scaler) {
  if (!scaler.is_present) return "null";
  return JsonObject()
      .field("scale", scaler.scale)
      .field("good_steps", scaler.good_steps)
      .field("hysteresis_left", scaler.hysteresis_left)
      .text();
}

std::string data_json(const SavedData& data) {
  JsonArray parts;
  for (const SavedDataset& part : data.parts) {
    parts.add(JsonObject()
                  .field("fingerprint", part.fingerprint)
                  .field("tokens", part.tokens)
                  .field("drawn", part.drawn)
                  .field("weight", part.weight)
                  .field("credit", part.credit)
                  .text());
  }
  return JsonObject()
      .field("order", data.order)
      .field("order_version", data.order_version)
      .field("seed", data.seed)
      .raw("parts", parts.text())
      .text();
}

std::string groups_json(const std::vector<SavedGroup>& groups) {
  JsonArray list;
  for (const SavedGroup& group : groups) {
    list.add(JsonObject()
                 .field("name", group.name)
                 .field("algorithm", group.algorithm)
                 .field("lr_scale", group.lr_scale)
                 .field("weight_decay", group.weight_decay)
                 .field("beta1", group.beta1)
                 .field("beta2", group.beta2)
                 .field("epsilon", group.epsilon)
                 .text());
  }
  return list.text();
}

/// The keys of a configuration, or those that begin with `prefix`.
std::string keys_json(const Manifest& file, std::string_view prefix) {
  JsonObject keys;
  for (const auto& [key, value] : file.config) {
    if (key.starts_with(prefix)) keys.field(key, value);
  }
  return keys.text();
}

std::string skipped_json(const std::vector<SkippedStep>& skipped) {
  JsonArray list;
  for (const SkippedStep& step : skipped) {
    list.add(JsonObject()
                 .field("name", step.name)
                 .field("word", step.word)
                 .field("reason", step.reason)
                 .text());
  }
  return list.text();
}

std::string text_list(const std::vector<std::string>& texts) {
  JsonArray list;
  for (const std::string& text : texts) list.add(json_string(text));
  return list.text();
}

/// 32 hexadecimal digits, high half first.
std::string hash128_text(const Hash128& hash) {
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high),
                static_cast<unsigned long long>(hash.low));
  return text;
}

}  // namespace

std::string step_report(const StepReader& reader, const std::vector<SkippedStep>& skipped) {
  const Manifest& file = reader.manifest();
  const std::string format =
      std::to_string(file.format.major) + "." + std::to_string(file.format.minor);
  return JsonObject()
      .field("format", "plait")
      .field("format_version", format)
      .field("path", reader.directory())
      .field("step", file.progress.step)
      .field("sequence", reader.sequence())
      .field("writer", file.format.writer)
      .field("tensors", file.tensors.size())
      .field("weight_files", file.files.size())
      .field("bytes", reader.data_bytes())
      .field("save_id", hash128_text(file.save_id))
      .field("state_digest", hash128_text(file.state_digest))
      .raw("layout", layout_json(file.layout))
      .raw("progress", progress_json(file.progress))
      .raw("scaler", scaler_json(file.scaler))
      .raw("random", JsonObject()
                         .field("algorithm", file.random.algorithm)
                         .field("key_version", file.random.key_version)
                         .field("seed", file.random.seed)
                         .text())
      .raw("data", data_json(file.data))
      .raw("optimizer", groups_json(file.groups))
      .field("numerics", file.format.numerics)
      .raw("model", keys_json(file, "model."))
      .raw("config", keys_json(file, ""))
      .raw("skipped", skipped_json(skipped))
      .text();
}

std::string hugging_face_report(const std::string& path, const HfDirectory& directory) {
  JsonObject model;
  for (const auto& [key, value] : directory.config().keys) model.field(key, value);
  return JsonObject()
      .field("format", "hugging_face")
      .field("path", path)
      .field("family", family_name(directory.facts().family))
      .raw("model", model.text())
      .field("tensors", directory.tensors().size())
      .field("weight_files", directory.file_count())
      .field("bytes", directory.data_bytes())
      .raw("warnings", text_list(directory.warnings()))
      .raw("notes", text_list(directory.config().notes))
      .text();
}

}  // namespace plait

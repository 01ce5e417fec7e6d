// Tensors, generation, weights from outside, counters and reports.
#include <algorithm>
#include <cmath>

#include "checkpoint/hf_directory.h"
#include "engine/trainer/local_engine.h"
#include "engine/trainer/model_facts.h"
#include "engine/trainer/tensor_access.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {

void LocalEngine::check_tensor(std::string_view name, DType dtype, const void* data, int64_t bytes,
                               int64_t* tensor) const {
  check_usable();
  *tensor = find_tensor(*rank_, name);
  const bool is_float =
      dtype == DType::kFloat32 || dtype == DType::kBFloat16 || dtype == DType::kFloat16;
  const Shape& shape = rank_->tensors()[static_cast<size_t>(*tensor)].shape;
  const int64_t want = shape.elements() * dtype_size(dtype);
  if (is_float && (data == nullptr || bytes == want)) return;
  throw Error("argument", "a tensor is read and written whole, as float32, bfloat16 or float16")
      .with("tensor", name)
      .with("dtype", dtype_name(dtype))
      .with("bytes", bytes)
      .with("want", want);
}

void LocalEngine::read_tensor(std::string_view name, TensorKind kind, DType dtype,
                              int64_t timeout_ms, void* data, int64_t bytes) {
  int64_t tensor = 0;
  check_tensor(name, dtype, data, bytes, &tensor);
  double factor = 1.0;
  if (kind == TensorKind::kGradient) {
    if (!pending_.has_gradients) {
      throw Error("mid_step", "gradients can be read between forward_backward and optimizer_step")
          .with("tensor", name);
    }
    factor = pending_.sum.targets == 0 ? 0.0 : rank_->gradient_factor(pending_.sum.targets);
  }
  if (data == nullptr) return;
  call([&, factor] { read_logical(*rank_, tensor, kind, dtype, factor, data); }, timeout_ms);
}

void LocalEngine::write_tensor(std::string_view name, TensorKind kind, DType dtype,
                               const void* data, int64_t bytes, int64_t timeout_ms) {
  int64_t tensor = 0;
  check_tensor(name, dtype, data, bytes, &tensor);
  if (data == nullptr) throw Error("argument", "no data to write").with("tensor", name);
  if (kind == TensorKind::kGradient) {
    throw Error("argument", "gradients can be read but not written").with("tensor", name);
  }
  call(
      [&] {
        write_logical(*rank_, tensor, kind, dtype, data);
        rank_->masters_changed();
      },
      timeout_ms);
}

/// On the rank's thread: appends up to request_.count ids to *request_.generated.
void LocalEngine::run_generation() {
  std::vector<int32_t>& ids = *request_.generated;
  std::vector<float> logits(static_cast<size_t>(rank_->stage().padded_vocabulary()));
  for (int64_t i = 0; i < request_.count; ++i) {
    if (is_stop_requested_.load()) {
      request_.is_stopped = true;
      return;
    }
    const auto length = static_cast<int64_t>(ids.size());
    const int64_t window = std::min(length, rank_->longest_window());
    rank_->next_logits(ids.data() + (length - window), window, logits.data());
    const int32_t id =
        generator_->choose(settings_.generate, logits.data(), settings_.model.vocab_size, i);
    if (id == settings_.generate.stop_token) return;
    ids.push_back(id);
  }
}

Outcome LocalEngine::generate(const int32_t* prompt, int64_t prompt_count, int64_t max_tokens,
                              int64_t timeout_ms, std::vector<int32_t>* tokens) {
  check_usable();
  if (prompt == nullptr || prompt_count < 1) {
    throw Error("argument", "the prompt is empty").with("prompt_count", prompt_count);
  }
  if (max_tokens < 0) {
    throw Error("argument", "max_tokens is negative").with("max_tokens", max_tokens);
  }
  for (int64_t i = 0; i < prompt_count; ++i) {
    if (prompt[i] >= 0 && prompt[i] < settings_.model.vocab_size) continue;
    throw Error("token_range", "an id lies outside the vocabulary")
        .with("tensor", "prompt")
        .with("position", i)
        .with("value", prompt[i])
        .with("vocabulary", settings_.model.vocab_size);
  }
  std::vector<int32_t> ids(prompt, prompt + prompt_count);
  request_ = {};
  request_.generated = &ids;
  request_.count = max_tokens;
  call([this] { run_generation(); }, timeout_ms);
  if (request_.is_stopped) {
    take_stop();
    return Outcome::kStopped;
  }
  tokens->assign(ids.begin() + prompt_count, ids.end());
  return Outcome::kDone;
}

std::string LocalEngine::load_weights(const std::string& directory, int64_t timeout_ms) {
  check_usable();
  check_no_pending("load");
  const HfDirectory source = HfDirectory::open(options_.env->files, directory);
  source.check_matches(model_facts(settings_.model));
  // Read everything before anything changes: a file that fails half-way leaves the state as it was.
  std::vector<std::vector<float>> values;
  for (const LogicalTensor& tensor : rank_->tensors()) {
    values.emplace_back(static_cast<size_t>(tensor.shape.elements()));
    source.read(tensor.name, Box::whole(tensor.shape), values.back().data());
    if (!settings_.checkpoint.check_finite) continue;
    for (size_t i = 0; i < values.back().size(); ++i) {
      if (std::isfinite(values.back()[i])) continue;
      throw Error("nonfinite_weights", "a weight is not finite")
          .with("path", directory)
          .with("tensor", tensor.name)
          .with("index", i);
    }
  }
  call(
      [&] {
        for (size_t i = 0; i < values.size(); ++i) {
          write_logical(*rank_, static_cast<int64_t>(i), TensorKind::kMaster, DType::kFloat32,
                        values[i].data());
        }
        rank_->reset_optimizer();
        rank_->masters_changed();
      },
      timeout_ms);
  {
    const std::lock_guard lock(mutex_);
    totals_ = {};
  }
  JsonArray warnings;
  for (const std::string& warning : source.warnings()) {
    warnings.add(json_string(warning));
    options_.log->write(LogLevel::kWarning, options_.rank, "checkpoint", warning);
  }
  return JsonObject()
      .field("path", directory)
      .field("format", "huggingface")
      .field("weights_only", true)
      .field("tensors", rank_->tensors().size())
      .field("files", source.file_count())
      .field("bytes", source.data_bytes())
      .raw("warnings", warnings.text())
      .text();
}

double LocalEngine::counter(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  const std::pair<std::string_view, double> counters[] = {
      {"steps", static_cast<double>(totals_.step)},
      {"samples", static_cast<double>(totals_.samples)},
      {"tokens", static_cast<double>(totals_.tokens)},
      {"skipped", static_cast<double>(totals_.skipped)},
      {"operations", static_cast<double>(progress_.load())},
      {"step_seconds", totals_.step_seconds},
      {"forward_seconds", totals_.forward_seconds},
      {"backward_seconds", totals_.backward_seconds},
      {"optimizer_seconds", totals_.optimizer_seconds},
      {"memory_bytes", static_cast<double>(rank_->ledger().total())},
      {"memory_peak_bytes", static_cast<double>(rank_->ledger().peak())},
  };
  for (const auto& [known, value] : counters) {
    if (known == name) return value;
  }
  throw Error("argument", "no such counter").with("counter", name);
}

std::string LocalEngine::counters_report() const {
  JsonObject object;
  for (const char* name :
       {"steps", "samples", "tokens", "skipped", "operations", "step_seconds", "forward_seconds",
        "backward_seconds", "optimizer_seconds", "memory_bytes", "memory_peak_bytes"}) {
    object.field(name, counter(name));
  }
  return object.text();
}

std::string LocalEngine::operations_report() const {
  JsonArray rows;
  for (const ExecutedInstruction& entry : rank_->executor().recent()) {
    rows.add(JsonObject()
                 .field("number", entry.number)
                 .field("operation", instruction_text(entry.instruction))
                 .field("begin_ns", entry.begin_ns)
                 .field("end_ns", entry.end_ns)
                 .field("state", entry.is_complete ? "done" : "open")
                 .text());
  }
  const std::string rank =
      JsonObject().field("rank", options_.rank).raw("operations", rows.text()).text();
  return JsonObject().raw("ranks", JsonArray().add(rank).text()).text();
}

std::string LocalEngine::properties_report() const {
  const std::lock_guard lock(mutex_);
  JsonObject object;
  for (const auto& [name, property] : properties_) {
    switch (property.type) {
      case Property::Type::kInteger:
        object.field(name, property.integer);
        break;
      case Property::Type::kReal:
        object.field(name, property.real);
        break;
      case Property::Type::kText:
        object.field(name, property.text);
        break;
    }
  }
  return object.text();
}

/// Reports that never change are made once, so that any thread may ask for them.
void LocalEngine::make_reports() {
  JsonObject memory;
  for (int i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    memory.field(std::string(memory_category_name(category)) + "_bytes",
                 rank_->ledger().bytes(category));
  }
  memory.field("total_bytes", rank_->ledger().total());
  const std::string bytes = memory.text();
  const JsonObject rank = JsonObject()
                              .field("rank", options_.rank)
                              .field("tensor", 0)
                              .field("pipeline", 0)
                              .field("data", 0)
                              .field("first_layer", 0)
                              .field("layers", settings_.model.layers)
                              .raw("memory", bytes);
  fixed_reports_["ranks"] = JsonObject().raw("ranks", JsonArray().add(rank.text()).text()).text();
  const JsonObject rank_memory = JsonObject().field("rank", options_.rank).raw("memory", bytes);
  fixed_reports_["memory"] =
      JsonObject().raw("ranks", JsonArray().add(rank_memory.text()).text()).text();
  JsonObject ops;
  for (const auto& [op, implementation] : rank_->kernel_names()) ops.field(op, implementation);
  fixed_reports_["kernels"] = JsonObject()
                                  .field("device", settings_.device.device)
                                  .field("isa", isa_name(rank_->device().isa()))
                                  .field("isa_detected", isa_name(detected_isa().level))
                                  .field("amx", detected_isa().amx)
                                  .field("threads", rank_->device().pool().threads())
                                  .field("compute", dtype_name(settings_.precision.compute))
                                  .field("residual", dtype_name(settings_.precision.residual))
                                  .raw("ops", ops.text())
                                  .text();
  fixed_reports_["schedule"] = JsonObject().field("text", schedule_text(rank_->schedule())).text();
}

std::string LocalEngine::report(std::string_view kind) const {
  if (kind == "config") {
    const std::lock_guard lock(mutex_);
    return config_.dump_json(true);
  }
  if (kind == "counters") return counters_report();
  if (kind == "operations") return operations_report();
  if (kind == "properties") return properties_report();
  const auto fixed = fixed_reports_.find(kind);
  if (fixed != fixed_reports_.end()) return fixed->second;
  throw Error("argument", "no such report").with("kind", kind);
}

}  // namespace plait

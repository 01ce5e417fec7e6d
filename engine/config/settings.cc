#include "engine/config/settings.h"

#include <string_view>

#include "kernels/base/error.h"

namespace plait {
namespace {

/// The enumerator whose place among the choices of `key` is that of its value.
template <class Choice>
Choice choice(const Config& config, std::string_view key) {
  return static_cast<Choice>(choice_index(key_info(key).choices, config.get(key)));
}

std::string required_text(const Config& config, std::string_view key) {
  std::string text = config.get(key);
  if (text.empty()) {
    throw Error("argument", "a required configuration key is missing")
        .with("key", key)
        .subsystem("config");
  }
  return text;
}

DType dtype_of(std::string_view word) {
  if (word == "bf16" || word == "bfloat16") return DType::kBFloat16;
  if (word == "fp16" || word == "float16") return DType::kFloat16;
  return DType::kFloat32;
}

std::vector<double> weights_of(const Config& config, std::string_view key, size_t paths) {
  std::vector<double> weights = config.get_reals(key);
  if (weights.empty()) weights.assign(paths, 1.0);
  return weights;
}

}  // namespace

ModelConfig make_model(const Config& config) {
  required_text(config, "model.family");
  for (const char* key : {"model.layers", "model.hidden", "model.heads", "model.vocab_size",
                          "model.sequence_length"}) {
    required_text(config, key);
  }
  if (config.get("model.head_size").empty()) {
    throw Error("argument", "model.hidden is no multiple of model.heads and no head size is given")
        .with("key", "model.head_size")
        .with("model.hidden", config.get_integer("model.hidden"))
        .with("model.heads", config.get_integer("model.heads"))
        .subsystem("config");
  }
  return {.family = choice<FamilyChoice>(config, "model.family"),
          .layers = config.get_integer("model.layers"),
          .hidden = config.get_integer("model.hidden"),
          .heads = config.get_integer("model.heads"),
          .key_value_heads = config.get_integer("model.key_value_heads"),
          .head_size = config.get_integer("model.head_size"),
          .feed_forward = config.get_integer("model.feed_forward"),
          .vocab_size = config.get_integer("model.vocab_size"),
          .sequence_length = config.get_integer("model.sequence_length"),
          .tied = config.get_boolean("model.tied"),
          .norm_epsilon = config.get_real("model.norm_epsilon"),
          .rope_base = config.get_real("model.rope_base"),
          .initial_std = config.get_real("model.initial_std")};
}

LayoutConfig make_layout(const Config& config) {
  Config filled = config;
  LayoutConfig layout;
  for (const KeyInfo& info : all_keys()) {
    if (!std::string_view(info.name).starts_with("layout.") || !config.is_auto(info.name)) continue;
    layout.auto_keys.emplace_back(info.name);
    filled.set(info.name, nullptr);
  }
  layout.tensor = filled.get_integer("layout.tensor");
  layout.pipeline = filled.get_integer("layout.pipeline");
  layout.data = filled.get_integer("layout.data");
  layout.interleave = filled.get_integer("layout.interleave");
  layout.micro_batch = filled.get_integer("layout.micro_batch");
  layout.schedule = choice<ScheduleChoice>(filled, "layout.schedule");
  layout.zero = filled.get_integer("layout.zero");
  layout.sequence_parallel = filled.get_boolean("layout.sequence_parallel");
  layout.recompute = choice<RecomputeChoice>(filled, "layout.recompute");
  layout.recompute_layers = filled.get_integer("layout.recompute_layers");
  layout.stage_layers = filled.get_integers("layout.stage_layers");
  layout.scatter_gather = filled.get_boolean("layout.scatter_gather");
  layout.overlap = filled.get_boolean("layout.overlap");
  return layout;
}

PrecisionConfig make_precision(const Config& config) {
  PrecisionConfig precision{
      .compute = dtype_of(config.get("precision.compute")),
      .residual = DType::kFloat32,
      .matmul = choice<MatmulChoice>(config, "precision.matmul"),
      .flush_to_zero = config.get_boolean("precision.flush_to_zero"),
      .reduction = choice<ReductionChoice>(config, "precision.reduction"),
      .canonical_tensor = 1,
      .canonical_data = 1,
      .constant_loss_scale = std::nullopt,
      .loss_scale_start = config.get_real("precision.loss_scale_start"),
      .loss_scale_window = config.get_integer("precision.loss_scale_window"),
      .loss_scale_hysteresis = config.get_integer("precision.loss_scale_hysteresis"),
      .loss_scale_min = config.get_real("precision.loss_scale_min"),
      .loss_scale_max = config.get_real("precision.loss_scale_max")};
  if (precision.reduction == ReductionChoice::kCanonical) {
    precision.canonical_tensor = config.get_integer("precision.canonical_tensor");
    precision.canonical_data = config.get_integer("precision.canonical_data");
  }
  if (config.get("precision.residual") == "compute") precision.residual = precision.compute;
  if (config.get("precision.loss_scale") != "dynamic") {
    precision.constant_loss_scale = config.get_real("precision.loss_scale");
  }
  return precision;
}

OptimizerConfig make_optimizer(const Config& config) {
  return {.lr = config.get_real("optimizer.lr"),
          .min_lr = config.get_real("optimizer.min_lr"),
          .weight_decay = config.get_real("optimizer.weight_decay"),
          .beta1 = config.get_real("optimizer.beta1"),
          .beta2 = config.get_real("optimizer.beta2"),
          .epsilon = config.get_real("optimizer.epsilon"),
          .clip_grad_norm = config.get_real("optimizer.clip_grad_norm"),
          .lr_schedule = choice<LrScheduleChoice>(config, "optimizer.lr_schedule"),
          .lr_tail_shape = choice<LrTailChoice>(config, "optimizer.lr_tail_shape"),
          .lr_warmup_steps = config.get_integer("optimizer.lr_warmup_steps"),
          .lr_decay_steps = config.get_integer("optimizer.lr_decay_steps"),
          .lr_tail_steps = config.get_integer("optimizer.lr_tail_steps")};
}

TrainConfig make_train(const Config& config) {
  required_text(config, "train.global_batch");
  required_text(config, "train.sequence_length");
  TrainConfig train{.global_batch = config.get_integer("train.global_batch"),
                    .sequence_length = config.get_integer("train.sequence_length"),
                    .batch_ramp = std::nullopt,
                    .dropout = config.get_real("train.dropout"),
                    .attention_dropout = config.get_real("train.attention_dropout"),
                    .on_nonfinite = choice<NonfiniteChoice>(config, "train.on_nonfinite"),
                    .on_divergence = choice<DivergenceChoice>(config, "train.on_divergence"),
                    .replica_check_every = config.get_integer("train.replica_check_every")};
  const std::vector<int64_t> ramp = config.get_integers("train.batch_ramp");
  if (!ramp.empty() && ramp.size() != 3) {
    throw Error("argument", "a batch ramp is a list of three numbers: first, increment, samples")
        .with("key", "train.batch_ramp")
        .with("value", config.get("train.batch_ramp"))
        .with("count", ramp.size())
        .subsystem("config");
  }
  if (!ramp.empty()) train.batch_ramp = BatchRamp{ramp[0], ramp[1], ramp[2]};
  return train;
}

int64_t TrainConfig::batch_at(int64_t samples) const {
  if (!batch_ramp || batch_ramp->first >= global_batch) return global_batch;
  const int64_t increments = samples / batch_ramp->samples;
  const int64_t missing = global_batch - batch_ramp->first;
  if (increments > (missing - 1) / batch_ramp->increment) return global_batch;
  return batch_ramp->first + increments * batch_ramp->increment;
}

DataConfig make_data(const Config& config) {
  DataConfig data;
  data.train = config.get_texts("data.train");
  data.evaluate = config.get_texts("data.evaluate");
  data.train_weights = weights_of(config, "data.train_weights", data.train.size());
  data.evaluate_weights = weights_of(config, "data.evaluate_weights", data.evaluate.size());
  data.split = config.get_reals("data.split");
  data.shuffle = config.get_boolean("data.shuffle");
  data.isolate_documents = config.get_boolean("data.isolate_documents");
  data.token_type = choice<TokenTypeChoice>(config, "data.token_type");
  return data;
}

EvaluateConfig make_evaluate(const Config& config) {
  return {.batches = config.get_integer("evaluate.batches")};
}

GenerateConfig make_generate(const Config& config) {
  return {.temperature = config.get_real("generate.temperature"),
          .top_k = config.get_integer("generate.top_k"),
          .top_p = config.get_real("generate.top_p"),
          .stop_token = config.get_integer("generate.stop_token"),
          .seed = config.get_integer("generate.seed"),
          .max_tokens = config.get_integer("generate.max_tokens")};
}

TimeoutConfig make_timeout(const Config& config) {
  return {.init_ms = config.get_integer("timeout.init_ms"),
          .heartbeat_ms = config.get_integer("timeout.heartbeat_ms"),
          .frozen_ms = config.get_integer("timeout.frozen_ms"),
          .stall_min_ms = config.get_integer("timeout.stall_min_ms"),
          .first_steps_ms = config.get_integer("timeout.first_steps_ms"),
          .control_ms = config.get_integer("timeout.control_ms"),
          .desync_ms = config.get_integer("timeout.desync_ms"),
          .close_ms = config.get_integer("timeout.close_ms"),
          .stall_warn = config.get_real("timeout.stall_warn"),
          .stall_fail = config.get_real("timeout.stall_fail")};
}

CheckpointConfig make_checkpoint(const Config& config) {
  CheckpointConfig checkpoint{
      .verify = choice<VerifyChoice>(config, "checkpoint.verify"),
      .fallback = config.get_boolean("checkpoint.fallback"),
      .on_busy = choice<BusyChoice>(config, "checkpoint.on_busy"),
      .on_existing = choice<ExistingChoice>(config, "checkpoint.on_existing"),
      .commit = choice<CommitChoice>(config, "checkpoint.commit"),
      .numerics = choice<NumericsChoice>(config, "checkpoint.numerics"),
      .max_staged = config.get_integer("checkpoint.max_staged"),
      .keep_last = config.get_integer("checkpoint.keep_last"),
      .keep_every = config.get_integer("checkpoint.keep_every"),
      .io_threads = config.get_integer("checkpoint.io_threads"),
      .write_minor = std::nullopt,
      .save_timeout_ms = config.get_integer("checkpoint.save_timeout_ms"),
      .load_timeout_ms = config.get_integer("checkpoint.load_timeout_ms"),
      .weights_only = config.get_boolean("checkpoint.weights_only"),
      .check_finite = config.get_boolean("checkpoint.check_finite"),
      .mmap = config.get_boolean("checkpoint.mmap"),
      .allow_change = config.get_texts("checkpoint.allow_change")};
  if (config.get("checkpoint.write_minor") != "current") {
    checkpoint.write_minor = config.get_integer("checkpoint.write_minor");
  }
  return checkpoint;
}

DeviceConfig make_device(const Config& config) {
  return {.device = config.get("device"),
          .devices = config.get_integers("devices"),
          .threads = config.is_auto("threads") ? 0 : config.get_integer("threads"),
          .isa = config.get("isa")};
}

NetworkConfig make_network(const Config& config) {
  return {.transport = choice<TransportChoice>(config, "network.transport"),
          .token = config.get("network.token")};
}

TraceConfig make_trace(const Config& config) {
  return {.directory = config.get("trace.directory"), .steps = config.get_integer("trace.steps")};
}

ExportConfig make_export(const Config& config) {
  return {.dtype = dtype_of(config.get("export.dtype")),
          .max_shard_bytes = config.get_integer("export.max_shard_bytes")};
}

TokenizeConfig make_tokenize(const Config& config) {
  return {.format = choice<TokenFormatChoice>(config, "tokenize.format"),
          .documents = choice<DocumentsChoice>(config, "tokenize.documents"),
          .special = config.get_boolean("tokenize.special")};
}

PlannerConfig make_planner(const Config& config) {
  return {.tokens = config.get_integer("planner.tokens"),
          .top = config.get_integer("planner.top"),
          .profile = config.get("planner.profile"),
          .search = config.get_texts("planner.search")};
}

Settings make_settings(const Config& config) {
  return {.model = make_model(config),
          .layout = make_layout(config),
          .precision = make_precision(config),
          .optimizer = make_optimizer(config),
          .train = make_train(config),
          .data = make_data(config),
          .evaluate = make_evaluate(config),
          .generate = make_generate(config),
          .timeout = make_timeout(config),
          .checkpoint = make_checkpoint(config),
          .device = make_device(config),
          .network = make_network(config),
          .trace = make_trace(config),
          .export_hf = make_export(config),
          .tokenize = make_tokenize(config),
          .seed = static_cast<uint64_t>(config.get_integer("seed"))};
}

int64_t padded_vocabulary(int64_t vocabulary, int64_t tensor) {
  const int64_t unit = 128 * tensor;
  return (vocabulary + unit - 1) / unit * unit;
}

}  // namespace plait

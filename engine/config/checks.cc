#include "engine/config/checks.h"

#include <string_view>
#include <utility>

#include "engine/config/rule.h"

namespace plait {

Error rule_error(const Config& config, std::string sentence,
                 std::initializer_list<std::string_view> keys) {
  Error error = Error("argument", std::move(sentence)).subsystem("config");
  for (const std::string_view key : keys) {
    const std::string value = config.get(key);
    const KeyType type = key_info(key).type;
    const bool is_number = (type == KeyType::kInteger || type == KeyType::kReal) &&
                           !has_choice(key_info(key).choices, value) && !value.empty();
    Error longer = is_number ? std::move(error).with_raw(key, value)
                             : std::move(error).with(key, std::string_view(value));
    error = std::move(longer);
  }
  return error;
}

void require_multiple(const Config& config, std::string_view whole, std::string_view part) {
  if (any_auto(config, {whole, part})) return;
  if (config.get_integer(whole) % config.get_integer(part) != 0) {
    throw rule_error(config, std::string(whole) + " is no multiple of " + std::string(part),
                     {whole, part});
  }
}

void require_order(const Config& config, std::string_view low, std::string_view high) {
  if (config.get_real(low) > config.get_real(high)) {
    throw rule_error(config, std::string(low) + " is above " + std::string(high), {low, high});
  }
}

void require_built(const Config& config, std::string_view key, std::string_view built) {
  const std::string value = config.get(key);
  if (value == built) return;
  throw Error("not_built", "this build does not have the option yet")
      .with("key", key)
      .with("value", value)
      .with("built", built)
      .subsystem("config");
}

bool any_auto(const Config& config, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (config.is_auto(key)) return true;
  }
  return false;
}

int64_t count_parameters(const ModelConfig& model) {
  using Wide = unsigned __int128;
  const bool is_gpt2 = model.family == FamilyChoice::kGpt2;
  const Wide h = model.hidden, f = model.feed_forward, vocabulary = model.vocab_size;
  const Wide query = Wide(model.heads) * model.head_size;
  const Wide key_value = 2 * Wide(model.key_value_heads) * model.head_size;
  const Wide matrices = h * (2 * query + key_value) + (is_gpt2 ? 2 : 3) * h * f;
  // Biases of the four linear layers (query, key and value count as one) and of two norms.
  const Wide vectors = is_gpt2 ? query + key_value + h + f + h + 4 * h : 2 * h;
  Wide total = model.layers * (matrices + vectors);
  total += (model.tied ? 1 : 2) * vocabulary * h;
  total += is_gpt2 ? model.sequence_length * h + 2 * h : h;
  constexpr Wide kMost = Wide{1} << 60;
  if (total > kMost) {
    throw Error("argument", "the model has too many weights")
        .with("model.layers", model.layers)
        .with("model.hidden", model.hidden)
        .with("model.feed_forward", model.feed_forward)
        .with("model.vocab_size", model.vocab_size)
        .with("limit", static_cast<int64_t>(kMost))
        .subsystem("config");
  }
  return static_cast<int64_t>(total);
}

void check(const Config& config) {
  check_model(config);
  check_train(config);
  check_layout(config);
  check_precision(config);
  check_optimizer(config);
  check_data(config);
  check_system(config);
}

void check_model(const Config& config) {
  const ModelConfig model = make_model(config);
  require_multiple(config, "model.heads", "model.key_value_heads");
  if (model.family == FamilyChoice::kLlama && model.head_size % 2 != 0) {
    throw rule_error(config, "rotary positions need an even model.head_size",
                     {"model.family", "model.head_size"});
  }
  count_parameters(model);
}

void check_precision(const Config& config) {
  if (config.get("device") == "cpu") require_built(config, "precision.matmul", "native");
  require_order(config, "precision.loss_scale_min", "precision.loss_scale_start");
  require_order(config, "precision.loss_scale_start", "precision.loss_scale_max");
}

void check_optimizer(const Config& config) {
  const OptimizerConfig optimizer = make_optimizer(config);
  if (optimizer.lr_schedule == LrScheduleChoice::kConstant) return;
  require_order(config, "optimizer.min_lr", "optimizer.lr");
  if (optimizer.lr_decay_steps <= optimizer.lr_warmup_steps) {
    throw rule_error(
        config, "the schedule needs optimizer.lr_decay_steps above optimizer.lr_warmup_steps",
        {"optimizer.lr_schedule", "optimizer.lr_decay_steps", "optimizer.lr_warmup_steps"});
  }
  if (optimizer.lr_schedule != LrScheduleChoice::kWsd) return;
  const int64_t longest = optimizer.lr_decay_steps - optimizer.lr_warmup_steps;
  if (optimizer.lr_tail_steps < 1 || optimizer.lr_tail_steps > longest) {
    throw rule_error(
        config, "optimizer.lr_tail_steps must lie between 1 and decay less warm-up",
        {"optimizer.lr_tail_steps", "optimizer.lr_decay_steps", "optimizer.lr_warmup_steps"})
        .with("maximum", longest);
  }
}

void check_train(const Config& config) {
  const TrainConfig train = make_train(config);
  require_order(config, "train.sequence_length", "model.sequence_length");
  if (train.batch_ramp && train.batch_ramp->first > train.global_batch) {
    throw rule_error(config, "train.batch_ramp starts above train.global_batch",
                     {"train.batch_ramp", "train.global_batch"})
        .with("first", train.batch_ramp->first);
  }
}

namespace {

void check_weights(const Config& config, std::string_view paths, std::string_view weights) {
  const size_t given = config.get_reals(weights).size();
  const size_t files = config.get_texts(paths).size();
  if (given == 0 || given == files) return;
  throw rule_error(config, "a blend needs one weight for each path", {weights, paths})
      .with("weights", given)
      .with("paths", files);
}

void check_split(const Config& config) {
  const std::vector<double> split = config.get_reals("data.split");
  constexpr double kRounding = 1e-9;
  double sum = 0;
  for (const double share : split) sum += share;
  const bool is_whole = split.size() < 3 || sum > 1 - kRounding;
  if (!split.empty() && split.size() <= 3 && sum <= 1 + kRounding && is_whole) return;
  throw rule_error(config,
                   "data.split holds one to three shares of a whole; three must add up to 1",
                   {"data.split"})
      .with("count", split.size())
      .with("sum", sum);
}

void check_allowed_keys(const Config& config) {
  for (const std::string& name : config.get_texts("checkpoint.allow_change")) {
    bool is_known = false, is_open = false;
    for (const KeyInfo& info : all_keys()) {
      const std::string_view key = info.name;
      if (key != name && !key.starts_with(name + '.')) continue;
      is_known = true;
      is_open = is_open || info.resume != Resume::kSame;
    }
    if (!is_known) {
      throw Error("argument", "checkpoint.allow_change names no configuration key")
          .with("checkpoint.allow_change", name)
          .with("nearest", nearest_key(name).name)
          .subsystem("config");
    }
    if (!is_open) {
      throw Error("argument", "a resume can never change this key")
          .with("checkpoint.allow_change", name)
          .with("resume", resume_name(Resume::kSame))
          .subsystem("config");
    }
  }
}

}  // namespace

void check_data(const Config& config) {
  check_weights(config, "data.train", "data.train_weights");
  check_weights(config, "data.evaluate", "data.evaluate_weights");
  check_split(config);
  constexpr int64_t kUint16Ids = 65536;
  const bool is_narrow = config.get("data.token_type") == "uint16";
  const bool has_vocabulary = !config.get("model.vocab_size").empty();
  if (is_narrow && has_vocabulary && config.get_integer("model.vocab_size") > kUint16Ids) {
    throw rule_error(config, "uint16 token files cannot hold every id of model.vocab_size",
                     {"data.token_type", "model.vocab_size"})
        .with("maximum", kUint16Ids);
  }
}

void check_system(const Config& config) {
  if (config.get_integer("timeout.heartbeat_ms") >= config.get_integer("timeout.frozen_ms")) {
    throw rule_error(config, "timeout.frozen_ms must be above timeout.heartbeat_ms",
                     {"timeout.frozen_ms", "timeout.heartbeat_ms"});
  }
  require_order(config, "timeout.stall_warn", "timeout.stall_fail");
  const bool has_vocabulary = !config.get("model.vocab_size").empty();
  if (has_vocabulary &&
      config.get_integer("generate.stop_token") >= config.get_integer("model.vocab_size")) {
    throw rule_error(config, "generate.stop_token is no token id of the model",
                     {"generate.stop_token", "model.vocab_size"});
  }
  check_allowed_keys(config);
}

}  // namespace plait

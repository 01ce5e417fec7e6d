#include "engine/trainer/rank.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/names.h"
#include "kernels/ops/span.h"

namespace plait {
namespace {

DeviceOptions device_options(const Settings& settings, const ThreadHooks& hooks) {
  DeviceOptions options;
  options.kind = settings.device.device;
  options.isa = settings.device.isa;
  options.threads = static_cast<int>(settings.device.threads);
  options.is_flushing = settings.precision.flush_to_zero;
  options.hooks = hooks;
  return options;
}

ScheduleKind schedule_kind(ScheduleChoice choice) {
  switch (choice) {
    case ScheduleChoice::kGpipe:
      return ScheduleKind::kGpipe;
    case ScheduleChoice::kInterleaved:
      return ScheduleKind::kInterleaved;
    case ScheduleChoice::kZeroBubble:
      return ScheduleKind::kZeroBubble;
    case ScheduleChoice::kOneForwardOneBackward:
      break;
  }
  return ScheduleKind::kOneForwardOneBackward;
}

ScheduleShape schedule_shape(const Settings& settings) {
  const LayoutConfig& layout = settings.layout;
  return {schedule_kind(layout.schedule), layout.pipeline, layout.interleave,
          settings.train.global_batch / (layout.data * layout.micro_batch), layout.zero};
}

LossScale::Options loss_scale_options(const PrecisionConfig& precision) {
  LossScale::Options options;
  if (precision.compute != DType::kFloat16) return options;
  options.is_dynamic = !precision.constant_loss_scale.has_value();
  options.start = precision.constant_loss_scale.value_or(precision.loss_scale_start);
  options.window = precision.loss_scale_window;
  options.hysteresis = precision.loss_scale_hysteresis;
  options.minimum = precision.loss_scale_min;
  options.maximum = precision.loss_scale_max;
  return options;
}

LearningRate make_learning_rate(const OptimizerConfig& config) {
  LearningRate rate;
  rate.kind = static_cast<LearningRate::Kind>(config.lr_schedule);
  rate.tail = static_cast<LearningRate::Tail>(config.lr_tail_shape);
  rate.lr = config.lr;
  rate.min_lr = config.min_lr;
  rate.warmup_steps = config.lr_warmup_steps;
  rate.decay_steps = config.lr_decay_steps;
  rate.tail_steps = config.lr_tail_steps;
  return rate;
}

/// The source of a measuring pass: no value is read there.
class NoRows final : public MicroSource {
 public:
  bool fill(int64_t, const MicroBuffers&) const override { return true; }
};

/// N₀ = 2^⌈log₂ s⌉: keeps gradient sums near the size of means.
double seed_divisor(int64_t sequence) {
  return static_cast<double>(std::bit_ceil(static_cast<uint64_t>(sequence)));
}

}  // namespace

Rank::Rank(const Settings& settings, Clock& clock, const ThreadHooks& hooks, const Flags& flags)
    : settings_(settings),
      device_(make_device(device_options(settings, hooks))),
      kernels_(cpu_kernels()),
      context_{*device_, kernels_, workspace_, flags.is_aborted, flags.progress},
      shape_(schedule_shape(settings)),
      schedule_(make_schedule(shape_)),
      forward_schedule_(make_forward_schedule(shape_)),
      loss_scale_(loss_scale_options(settings.precision)),
      learning_rate_(make_learning_rate(settings.optimizer)),
      tensors_(logical_tensors(settings.model)) {
  check_stream_keys(settings.model, settings.seed);
  StageOptions options;
  options.model = {settings.model, settings.precision, settings.train, settings.seed};
  options.layout = settings.layout;
  options.layers = settings.model.layers;
  options.slots = peak_alive(schedule_.lists[0]);
  options.max_rows = settings.layout.micro_batch * settings.train.sequence_length;
  options.is_split = shape_.kind == ScheduleKind::kZeroBubble;
  if (shape_.kind == ScheduleKind::kGpipe) most_micro_batches_ = shape_.micro_batches;
  longest_window_ = std::min(settings.model.sequence_length, options.max_rows);
  stage_ = std::make_unique<Stage>(options, *device_);
  build_optimizer();
  executor_ = std::make_unique<Executor>(*stage_, clock, options.slots, options.max_rows);
  stage_->prepare(context_);
  measure();
}

void Rank::build_optimizer() {
  std::unordered_map<std::string, int64_t> index;
  std::vector<bool> decays;
  for (const LogicalTensor& tensor : tensors_) {
    index[tensor.name] = static_cast<int64_t>(decays.size());
    decays.push_back(tensor.shape.dims() >= 2);
  }
  places_.resize(tensors_.size());
  std::vector<OptimizerUnit> units;
  for (const auto& unit : stage_->units()) {
    OptimizerUnit flat{unit->weights(), unit->gradients(), {}};
    for (const auto& parameter : unit->parameters()) {
      for (const Segment& segment : parameter->segments) {
        const auto [first, count] = parameter->range(segment);
        const int64_t tensor = index.at(segment.name);
        flat.spans.push_back({tensor, parameter->offset + first, count});
        places_[static_cast<size_t>(tensor)].push_back(
            {static_cast<int64_t>(units.size()), parameter.get(), &segment});
      }
    }
    units.push_back(std::move(flat));
  }
  const AdamWOptions options{settings_.optimizer.beta1, settings_.optimizer.beta2,
                             settings_.optimizer.epsilon, settings_.optimizer.weight_decay};
  optimizer_ = std::make_unique<Optimizer>(options, std::move(units), std::move(decays), *device_);
}

/// Runs every kind of pass without computing, to learn how much workspace they take.
void Rank::measure() {
  const NoRows rows;
  RunArguments arguments;
  arguments.source = &rows;
  arguments.batch = settings_.layout.micro_batch;
  arguments.sequence = settings_.train.sequence_length;
  arguments.gradient_scale = 1.0f;
  arguments.is_training = true;
  executor_->run(context_, schedule_.lists[0], arguments);
  {
    Workspace::Frame frame(workspace_);
    Pass pass{context_, 1, longest_window_};
    stage_->logits(pass, 0, 0, frame.tensor(DType::kFloat32, {1, stage_->padded_vocabulary()}));
  }
  stage_->weights_changed(context_);
  optimizer_->sum_squares(context_);
  workspace_.allocate(&device_->ledger());
}

void Rank::draw_weights() {
  for (size_t i = 0; i < stage_->units().size(); ++i) {
    fill_initial_weights(*stage_->units()[i], settings_.seed, device_->pool(),
                         optimizer_->master(static_cast<int64_t>(i)).as<float>());
  }
  masters_changed();
}

void Rank::masters_changed() {
  optimizer_->round_weights(context_);
  stage_->weights_changed(context_);
}

const std::vector<Instruction>& Rank::list(int64_t micro_batches) {
  if (schedule_.shape.micro_batches != micro_batches) {
    shape_.micro_batches = micro_batches;
    schedule_ = make_schedule(shape_);
  }
  return schedule_.lists[0];
}

RunResult Rank::accumulate(const RunArguments& arguments, int64_t micro_batches) {
  return executor_->run(context_, list(micro_batches), arguments);
}

RunResult Rank::evaluate(const RunArguments& arguments, int64_t micro_batches) {
  if (forward_schedule_.shape.micro_batches != micro_batches) {
    ScheduleShape shape = shape_;
    shape.micro_batches = micro_batches;
    forward_schedule_ = make_forward_schedule(shape);
  }
  return executor_->run(context_, forward_schedule_.lists[0], arguments);
}

float Rank::gradient_seed() const {
  return static_cast<float>(loss_scale_.scale() / seed_divisor(settings_.train.sequence_length));
}

double Rank::gradient_factor(int64_t targets) const {
  return seed_divisor(settings_.train.sequence_length) /
         (static_cast<double>(targets) * loss_scale_.scale());
}

Update Rank::update(const LossSum& sum) {
  Update result;
  result.lr = learning_rate_.at(applied_ + 1);
  if (sum.targets == 0) {
    result.kind = Update::Kind::kSkipped;
    return result;
  }
  for (const auto& unit : stage_->units()) {
    for (const auto& parameter : unit->parameters()) {
      if (!parameter->second_gradient.is_present()) continue;
      const Shape flat{parameter->shape.elements()};
      add_span(context_, parameter->second_gradient.reshaped(flat),
               parameter->gradient.reshaped(flat));
    }
  }
  const double squares = optimizer_->sum_squares(context_);
  const double factor = gradient_factor(sum.targets);
  result.grad_norm = factor * std::sqrt(squares);
  if (!std::isfinite(squares) || !std::isfinite(sum.loss)) {
    result.nonfinite_tensor = optimizer_->first_nonfinite();
    if (settings_.precision.compute == DType::kFloat16) {
      result.kind = loss_scale_.overflow() ? Update::Kind::kSkipped : Update::Kind::kScaleExhausted;
    } else {
      result.kind = settings_.train.on_nonfinite == NonfiniteChoice::kSkip
                        ? Update::Kind::kSkipped
                        : Update::Kind::kNonfinite;
    }
    return result;
  }
  const double limit = settings_.optimizer.clip_grad_norm;
  const double clip = limit > 0 ? std::min(1.0, limit / (result.grad_norm + 1e-6)) : 1.0;
  optimizer_->update(context_, static_cast<float>(factor * clip), result.lr);
  stage_->weights_changed(context_);
  loss_scale_.clean_step();
  ++applied_;
  return result;
}

void Rank::next_logits(const int32_t* tokens, int64_t count, float* logits) {
  class Window final : public MicroSource {
   public:
    Window(const int32_t* tokens, int64_t count) : tokens_(tokens), count_(count) {}
    bool fill(int64_t, const MicroBuffers& buffers) const override {
      std::copy_n(tokens_, count_, buffers.tokens);
      return false;
    }

   private:
    const int32_t* tokens_;
    int64_t count_;
  };
  const Window window(tokens, count);
  RunArguments arguments;
  arguments.source = &window;
  arguments.batch = 1;
  arguments.sequence = count;
  arguments.is_headless = true;
  evaluate(arguments, 1);
  const Pass pass{context_, 1, count};
  stage_->logits(pass, 0, count - 1, {logits, DType::kFloat32, {1, stage_->padded_vocabulary()}});
}

/// Layers are alike, so a linear is named without its layer: "attention.query.weight".
std::vector<std::pair<std::string, std::string>> Rank::kernel_names() {
  KernelNeeds needs;
  needs.compute = settings_.precision.compute;
  needs.residual = settings_.precision.residual;
  const int64_t rows = settings_.layout.micro_batch * settings_.train.sequence_length;
  for (const auto& unit : stage_->units()) {
    for (const auto& parameter : unit->parameters()) {
      const std::string& name = parameter->segments[0].name;
      const bool is_head = settings_.model.tied && name == "embedding.token.weight";
      if (parameter->shape.dims() != 2 || (name.rfind("embedding.", 0) == 0 && !is_head)) continue;
      const bool is_layer = name.rfind("layers.", 0) == 0;
      needs.linears.emplace_back(
          is_layer ? name.substr(name.find('.', 7) + 1) : name,
          LinearShape{parameter->shape[0], parameter->shape[1], needs.compute, rows});
    }
  }
  const ModelConfig& m = settings_.model;
  needs.attention = {settings_.layout.micro_batch,
                     settings_.train.sequence_length,
                     m.heads,
                     m.key_value_heads,
                     m.head_size,
                     0};
  return chosen_kernels(context_, needs);
}

}  // namespace plait

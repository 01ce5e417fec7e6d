#include "engine/trainer/rank.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>

#include "engine/comm/endpoint.h"
#include "engine/planner/flops.h"
#include "engine/trainer/layer_split.h"
#include "engine/trainer/tensor_access.h"
#include "kernels/base/error.h"
#include "kernels/base/mutation.h"
#include "kernels/cpu/cpu_kernels.h"
#include "kernels/ops/names.h"

namespace plait {
namespace {

DeviceOptions device_options(const Settings& settings, const ThreadHooks& hooks, int threads) {
  DeviceOptions options;
  options.kind = settings.device.device;
  options.isa = settings.device.isa;
  options.threads = threads;
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

Rank::Rank(const Settings& settings, Fabric& fabric, const Place& place, Clock& clock,
           const ThreadHooks& hooks, const Flags& flags)
    : settings_(settings),
      place_(place),
      at_(place.mesh.coordinates(place.rank)),
      flags_(flags),
      device_(make_device(device_options(settings, hooks, place.threads))),
      kernels_(cpu_kernels()),
      context_{*device_, kernels_, workspace_, flags.is_aborted, flags.progress},
      endpoint_(fabric.endpoint(place.rank)),
      shape_(schedule_shape(settings)),
      schedule_(make_schedule(shape_)),
      forward_schedule_(make_forward_schedule(shape_)),
      tensors_(logical_tensors(settings.model)),
      loss_scale_(loss_scale_options(settings.precision)),
      learning_rate_(make_learning_rate(settings.optimizer)) {
  check_stream_keys(settings.model, settings.seed);
  validate(schedule_);
  build_groups(fabric);
  build_stages();
  build_optimizer();
  build_executor(clock);
  build_watches();
  for (const auto& stage : stages_) stage->prepare(context_);
  measure();
}

Rank::~Rank() = default;

void Rank::build_groups(Fabric&) {
  const bool is_canonical = settings_.precision.reduction == ReductionChoice::kCanonical;
  for (const Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
    const auto index = static_cast<size_t>(axis);
    const bool is_tree = is_canonical && axis != Axis::kPipeline;
    groups_[index] = std::make_unique<Communicator>(
        endpoint_, axis_name(axis), place_.first_group + static_cast<uint32_t>(index),
        place_.mesh.group(axis, place_.rank), &device_->pool(),
        is_tree ? SumOrder::kTree : SumOrder::kAscending);
  }
}

void Rank::build_stages() {
  const LayoutConfig& layout = settings_.layout;
  const auto runs = split_layers(settings_.model, layout);
  const auto stages = static_cast<int64_t>(runs.size());
  for (int64_t chunk = 0; chunk < layout.interleave; ++chunk) {
    const int64_t index = chunk * layout.pipeline + at_.pipeline;
    layers_.push_back(runs[static_cast<size_t>(index)]);
    slots_.push_back(peak_alive(schedule_.lists[static_cast<size_t>(at_.pipeline)], index));
    StageOptions options;
    options.model = {settings_.model, settings_.precision, settings_.train, settings_.seed};
    options.layout = layout;
    options.first_layer = layers_.back().first;
    options.layers = layers_.back().second;
    options.is_first = index == 0;
    options.is_last = index + 1 == stages;
    options.slots = slots_.back();
    options.max_rows = layout.micro_batch * settings_.train.sequence_length;
    options.is_split = shape_.kind == ScheduleKind::kZeroBubble;
    options.tensor = tensor_group();
    holds_loss_ = holds_loss_ || options.is_last;
    stages_.push_back(std::make_unique<Stage>(options, *device_));
  }
  const int64_t t = layout.sequence_parallel ? layout.tensor : 1;
  const int64_t most = std::min(settings_.model.sequence_length,
                                layout.micro_batch * settings_.train.sequence_length);
  longest_window_ = most / t * t;
}

TensorGroup Rank::tensor_group() const {
  TensorGroup group = plait::tensor_group(settings_, at_);
  if (group.size > 1) group.communicator = groups_[static_cast<size_t>(Axis::kTensor)].get();
  return group;
}

void Rank::note_place(int64_t chunk, int64_t unit, const Parameter& parameter) {
  const bool is_tied_end = settings_.model.tied && settings_.layout.pipeline > 1 &&
                           parameter.segments[0].name == "embedding.token.weight";
  for (const Segment& segment : parameter.segments) {
    TensorPlace place;
    place.chunk = chunk;
    place.unit = unit;
    place.parameter = &parameter;
    place.segment = &segment;
    place.is_first_holder = segment.first_holder == at_.tensor;
    place.is_tied_end = is_tied_end;
    place.is_tied_copy = is_tied_end && at_.pipeline > 0;
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].name == segment.name) places_[i].push_back(place);
    }
  }
}

void Rank::build_optimizer() {
  places_.resize(tensors_.size());
  OptimizerOptions options;
  options.adamw = {settings_.optimizer.beta1, settings_.optimizer.beta2,
                   settings_.optimizer.epsilon, settings_.optimizer.weight_decay};
  options.zero = settings_.layout.zero;
  options.is_overlapping = settings_.layout.overlap;
  options.batch_parts =
      std::max<int64_t>(settings_.precision.canonical_data / settings_.layout.data, 1);
  for (const LogicalTensor& tensor : tensors_) {
    options.tensors.push_back(tensor.name);
    options.decays.push_back(tensor.shape.dims() >= 2);
  }
  const int64_t last = settings_.layout.pipeline - 1;
  if (settings_.model.tied && last > 0) {
    if (at_.pipeline == 0) options.tied_peer = last;
    if (at_.pipeline == last) options.tied_peer = 0;
    options.is_tied_owner = at_.pipeline == 0;
  }
  std::vector<std::vector<Unit*>> chunks;
  for (size_t chunk = 0; chunk < stages_.size(); ++chunk) {
    chunks.emplace_back();
    for (const auto& unit : stages_[chunk]->units()) {
      for (const auto& parameter : unit->parameters()) {
        note_place(static_cast<int64_t>(chunk), static_cast<int64_t>(chunks.back().size()),
                   *parameter);
      }
      chunks.back().push_back(unit.get());
    }
  }
  optimizer_ = std::make_unique<Optimizer>(options, step_groups(), std::move(chunks), *device_);
  for (size_t chunk = 0; chunk < stages_.size(); ++chunk) {
    stages_[chunk]->set_hooks(optimizer_->hooks(static_cast<int64_t>(chunk)));
  }
}

void Rank::build_executor(Clock& clock) {
  const int64_t rows = settings_.layout.micro_batch * settings_.train.sequence_length;
  Transfers::Options transfers;
  transfers.pipeline = groups_[static_cast<size_t>(Axis::kPipeline)].get();
  transfers.tensor = tensor_group();
  transfers.is_scattering = settings_.layout.scatter_gather;
  transfers.dtype = settings_.precision.residual;
  transfers.elements = transfers.tensor.local_rows(rows) * settings_.model.hidden;
  transfers_ = std::make_unique<Transfers>(transfers, *device_);
  Executor::Options options;
  for (const auto& stage : stages_) options.chunks.push_back(stage.get());
  options.slots = slots_;
  options.transfers = transfers_.get();
  options.handler = this;
  options.ring = &endpoint_.ring();
  options.clock = &clock;
  options.pipeline = settings_.layout.pipeline;
  options.max_rows = rows;
  executor_ = std::make_unique<Executor>(options);
}

StepGroups Rank::step_groups() const {
  const auto group = [this](Axis axis) { return groups_[static_cast<size_t>(axis)].get(); };
  return {group(Axis::kTensor), group(Axis::kPipeline), group(Axis::kData)};
}

void Rank::build_watches() {
  double work = holds_loss_ ? head_flops(settings_.model, settings_.train.sequence_length) : 0;
  for (const auto& [first, count] : layers_) {
    work +=
        static_cast<double>(count) * layer_flops(settings_.model, settings_.train.sequence_length);
  }
  pace_ = std::make_unique<PaceMeter>(step_groups(), work);
  const LayoutConfig& layout = settings_.layout;
  const bool has_tied_ends = settings_.model.tied && layout.pipeline > 1;
  const bool has_copies =
      layout.tensor > 1 || (layout.data > 1 && layout.zero < 3) || has_tied_ends;
  if (settings_.train.replica_check_every == 0 || !has_copies) return;
  replicas_ = std::make_unique<ReplicaCheck>(step_groups(), list_replicas(*this), has_tied_ends);
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
  executor_->run(context_, list(shape_.micro_batches), arguments);
  arguments.gradient_scale = 0.0f;
  executor_->run(context_, forward_schedule_.lists[static_cast<size_t>(at_.pipeline)], arguments);
  if (holds_loss_) {
    Workspace::Frame frame(workspace_);
    Pass pass{context_, 1, longest_window_};
    Stage& stage = *stages_.back();
    stage.logits(pass, 0, 0, frame.tensor(DType::kFloat32, {1, stage.vocabulary_shard_width()}));
  }
  masters_changed();
  workspace_.allocate(&device_->ledger());
}

void Rank::draw_weights() {
  for (size_t chunk = 0; chunk < stages_.size(); ++chunk) {
    const auto& units = stages_[chunk]->units();
    for (size_t unit = 0; unit < units.size(); ++unit) {
      const auto c = static_cast<int64_t>(chunk), u = static_cast<int64_t>(unit);
      const UnitRange range = optimizer_->state_range(c, u);
      fill_initial_weights(context_, *units[unit], settings_.seed, range.first, range.count,
                           optimizer_->master(c, u).as<float>());
    }
  }
  masters_changed();
}

void Rank::resume(int64_t updates, const std::optional<LossScale::State>& scale) {
  applied_ = updates;
  optimizer_->set_updates(updates);
  loss_scale_.restart();
  if (scale) loss_scale_.restore(*scale);
}

void Rank::restart() {
  optimizer_->reset();
  resume(0, std::nullopt);
}

void Rank::masters_changed() {
  optimizer_->masters_changed(context_);
  for (size_t chunk = 0; chunk < stages_.size(); ++chunk) {
    weights_changed(static_cast<int64_t>(chunk));
  }
}

/// Where weights come and go with each use, the stage takes the change then.
void Rank::weights_changed(int64_t chunk) {
  if (settings_.layout.zero == 3 && settings_.layout.data > 1) return;
  stages_[static_cast<size_t>(chunk)]->weights_changed(context_);
}

Schedule Rank::make_lists(int64_t micro_batches) const {
  ScheduleShape shape = shape_;
  shape.micro_batches = micro_batches;
  return make_schedule(shape);
}

const std::vector<Instruction>& Rank::list(int64_t micro_batches) {
  if (schedule_.shape.micro_batches != micro_batches) schedule_ = make_lists(micro_batches);
  return schedule_.lists[static_cast<size_t>(at_.pipeline)];
}

void Rank::check_micro_batches(int64_t micro_batches) const {
  if (micro_batches == shape_.micro_batches) return;
  const Schedule lists = make_lists(micro_batches);
  for (size_t chunk = 0; chunk < slots_.size(); ++chunk) {
    const int64_t stage = static_cast<int64_t>(chunk) * settings_.layout.pipeline + at_.pipeline;
    const int64_t alive = peak_alive(lists.lists[static_cast<size_t>(at_.pipeline)], stage);
    if (alive <= slots_[chunk]) continue;
    throw Error("argument",
                "the schedule would hold more micro-batches at once than the global "
                "batch does")
        .with("micro_batches", micro_batches)
        .with("rows", micro_batches * settings_.layout.micro_batch * settings_.layout.data)
        .with("limit", settings_.train.global_batch)
        .with("alive", alive)
        .with("slots", slots_[chunk]);
  }
}

RunResult Rank::run(RunArguments arguments, int64_t micro_batches, int64_t compared_step) {
  if (!has_pending_) {
    pending_ = {};
    optimizer_->begin_step(micro_batches);
  }
  arguments.is_accumulating = has_pending_;
  arguments.start = pending_;
  if (arguments.part != ListPart::kClose) has_pending_ = true;
  compared_step_ = compared_step;
  const auto waited = [this] { return communication_ns() + waited_ns(Axis::kPipeline); };
  const int64_t before = waited();
  const RunResult result = executor_->run(context_, list(micro_batches), arguments);
  pace_->add(result.forward_ns + result.backward_ns + result.bubble_ns + result.step_ns -
             (waited() - before));
  pending_ = result.sum;
  if (arguments.part == ListPart::kAccumulate) {
    optimizer_->finish_reductions(context_);  // gradients may be read now
  } else {
    pace_->end_step();
    drop_pending();
  }
  return result;
}

void Rank::drop_pending() {
  has_pending_ = false;
  pending_ = {};
}

GlobalSums Rank::pending_sums() { return add_up({pending_.loss, pending_.targets, 0}); }

void Rank::evaluate(const RunArguments& arguments, int64_t micro_batches, LossSum* sum) {
  if (forward_schedule_.shape.micro_batches != micro_batches) {
    ScheduleShape shape = shape_;
    shape.micro_batches = micro_batches;
    forward_schedule_ = make_forward_schedule(shape);
  }
  RunArguments forward = arguments;
  forward.start = *sum;
  *sum =
      executor_->run(context_, forward_schedule_.lists[static_cast<size_t>(at_.pipeline)], forward)
          .sum;
}

float Rank::gradient_seed() const {
  const double seed = loss_scale_.scale() / seed_divisor(settings_.train.sequence_length);
  const bool is_divided = is_mutated(Mutation::kGradientDividedByCount);
  return static_cast<float>(is_divided ? seed / static_cast<double>(shape_.micro_batches) : seed);
}

double Rank::gradient_factor(int64_t targets) const {
  return seed_divisor(settings_.train.sequence_length) /
         (static_cast<double>(targets) * loss_scale_.scale());
}

void Rank::reduce(int64_t chunk) { optimizer_->reduce(context_, chunk); }

void Rank::gather(int64_t chunk) {
  if (settings_.layout.zero == 3) return;  // units come in with their use
  optimizer_->gather(context_, chunk);
  weights_changed(chunk);
}

void Rank::release(int64_t) {}

Update::Kind Rank::decide(const GlobalSums& sums) {
  if (sums.targets == 0) return Update::Kind::kSkipped;
  if (std::isfinite(sums.squares) && std::isfinite(sums.loss)) return Update::Kind::kApplied;
  if (settings_.precision.compute == DType::kFloat16) {
    return loss_scale_.overflow() ? Update::Kind::kSkipped : Update::Kind::kScaleExhausted;
  }
  return settings_.train.on_nonfinite == NonfiniteChoice::kSkip ? Update::Kind::kSkipped
                                                                : Update::Kind::kNonfinite;
}

std::optional<Divergence> Rank::find_divergence() {
  if (replicas_ == nullptr) return std::nullopt;
  return replicas_->run(context_);
}

/// Before the update, because the gathers of stages 1 and 2 overwrite copies of weights.
void Rank::compare_replicas() {
  if (replicas_ == nullptr || (compared_step_ == 0 && !context_.is_measuring())) return;
  const std::optional<Divergence> found = find_divergence();
  update_.is_compared = true;
  if (!found) return;
  Error error =
      divergence_error(*found, tensors_[static_cast<size_t>(found->tensor)].name, compared_step_);
  if (settings_.train.on_divergence == DivergenceChoice::kError) throw error;
  update_.divergence = std::move(error);
}

void Rank::step(const LossSum& sum) {
  update_ = {};
  update_.lr = learning_rate_.at(applied_ + 1);
  update_.loss_scale = loss_scale_.scale();
  const bool wants_stop = flags_.is_stop_requested != nullptr && flags_.is_stop_requested->load();
  update_.sums = optimizer_->close(context_, {sum.loss, sum.targets, wants_stop ? 1 : 0});
  compare_replicas();
  if (context_.is_measuring()) {
    optimizer_->apply(context_, 1.0f, 0.0);
    for (size_t chunk = 0; chunk < stages_.size(); ++chunk) {
      weights_changed(static_cast<int64_t>(chunk));
    }
    return;
  }
  update_.has_paces = pace_->exchange();
  const GlobalSums& sums = update_.sums;
  const double factor = sums.targets == 0 ? 0.0 : gradient_factor(sums.targets);
  update_.grad_norm = sums.targets == 0 ? 0.0 : factor * std::sqrt(sums.squares);
  update_.kind = decide(sums);
  if (update_.kind != Update::Kind::kApplied) return;
  const double limit = settings_.optimizer.clip_grad_norm;
  const double clip = limit > 0 ? std::min(1.0, limit / (update_.grad_norm + 1e-6)) : 1.0;
  optimizer_->apply(context_, static_cast<float>(factor * clip), update_.lr);
  // Stages 1 and 2 hold the new weights only after the gathers that follow.
  const bool is_gathered_next = settings_.layout.zero == 1 || settings_.layout.zero == 2;
  for (size_t chunk = 0; !is_gathered_next && chunk < stages_.size(); ++chunk) {
    weights_changed(static_cast<int64_t>(chunk));
  }
  loss_scale_.clean_step();
  ++applied_;
}

bool Rank::next_logits(const int32_t* tokens, int64_t count, float* logits) {
  class Window final : public MicroSource {
   public:
    Window(const int32_t* tokens, int64_t count, int64_t padded)
        : tokens_(tokens), count_(count), padded_(padded) {}
    bool fill(int64_t, const MicroBuffers& buffers) const override {
      std::copy_n(tokens_, count_, buffers.tokens);
      std::fill(buffers.tokens + count_, buffers.tokens + padded_, 0);
      return false;
    }

   private:
    const int32_t* tokens_;
    int64_t count_, padded_;
  };
  // Rows after the last are never looked at; they fill the last part of a cut sequence.
  const TensorGroup group = tensor_group();
  const int64_t unit = group.is_sequence_parallel ? group.size : 1;
  const int64_t padded = (count + unit - 1) / unit * unit;
  const Window window(tokens, count, padded);
  RunArguments arguments;
  arguments.source = &window;
  arguments.batch = 1;
  arguments.sequence = padded;
  arguments.is_headless = true;
  LossSum none;
  evaluate(arguments, 1, &none);
  if (!holds_loss_) return false;
  const Pass pass{context_, 1, padded};
  Stage& stage = *stages_.back();
  const int64_t width = stage.vocabulary_shard_width();
  const TensorView all{logits, DType::kFloat32, {width * group.size}};
  const TensorView own = all.slice_rows(width * group.index, width);
  stage.logits(pass, 0, count - 1, own.reshaped({1, width}));
  if (group.communicator != nullptr) group.communicator->all_gather(own, all);
  return true;
}

int32_t Rank::share_token(int32_t id) {
  Communicator& pipeline = *groups_[static_cast<size_t>(Axis::kPipeline)];
  pipeline.broadcast_bytes(&id, sizeof id, pipeline.size() - 1);
  return id;
}

const OperationRing& Rank::ring() const { return endpoint_.ring(); }

int64_t Rank::waited_ns(Axis axis) const {
  int64_t sum = 0;
  for (int kind = 0; kind < kCollectiveKinds; ++kind) {
    sum += group(axis).traffic(static_cast<CollectiveKind>(kind)).wait_ns;
  }
  return sum;
}

int64_t Rank::communication_ns() const { return waited_ns(Axis::kTensor) + waited_ns(Axis::kData); }

/// Layers are alike, so a linear is named without its layer: "attention.query.weight".
std::vector<std::pair<std::string, std::string>> Rank::kernel_names() {
  KernelNeeds needs;
  needs.compute = settings_.precision.compute;
  needs.residual = settings_.precision.residual;
  const int64_t rows = settings_.layout.micro_batch * settings_.train.sequence_length;
  const int64_t lanes = tensor_group().lanes, parts = settings_.layout.tensor * lanes;
  for (const auto& stage : stages_) {
    for (const auto& unit : stage->units()) {
      for (const auto& parameter : unit->parameters()) {
        const std::string& name = parameter->segments[0].name;
        const bool is_head = settings_.model.tied && name == "embedding.token.weight";
        if (parameter->shape.dims() != 2 || (name.rfind("embedding.", 0) == 0 && !is_head))
          continue;
        const bool is_layer = name.rfind("layers.", 0) == 0;
        needs.linears.emplace_back(is_layer ? name.substr(name.find('.', 7) + 1) : name,
                                   LinearShape{parameter->shape[0] / (is_layer ? 1 : lanes),
                                               parameter->shape[1], needs.compute, rows});
      }
    }
  }
  const ModelConfig& m = settings_.model;
  needs.attention = {settings_.layout.micro_batch,
                     settings_.train.sequence_length,
                     m.heads / parts,
                     std::max<int64_t>(m.key_value_heads / parts, 1),
                     m.head_size,
                     0};
  return chosen_kernels(context_, needs);
}

}  // namespace plait

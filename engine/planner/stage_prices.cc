#include "engine/planner/stage_prices.h"

#include <algorithm>

#include "engine/planner/cost.h"
#include "engine/planner/rank_share.h"
#include "engine/planner/work.h"

namespace plait {
namespace {

double seconds_factor(int64_t count) { return static_cast<double>(count); }

/// Seconds of work lists on the ranks of one tensor group.
class WorkPricer {
 public:
  WorkPricer(const Job& job, const LayoutConfig& layout)
      : hardware_(job.hardware),
        dtype_(job.precision.compute),
        tensor_(group_shape(job.hardware, layout.tensor, 1)) {}

  struct Sum {
    double compute = 0;
    double tensor = 0;  ///< exposed collectives
    double whole() const { return compute + tensor; }
  };
  Sum forward(const WorkList& list) const {
    return add(list, hardware_.attention_forward_efficiency);
  }
  /// Collectives that have something to run beside are left to `beside`.
  Sum backward(const WorkList& list) const {
    return add(list, hardware_.attention_backward_efficiency);
  }
  /// What collectives of `input` add to the products of a backward pass beside which they run.
  double beside(const WorkList& input, const WorkList& weight) const;

 private:
  Sum add(const WorkList& list, double attention_efficiency) const;
  double seconds(const Work& work, double attention_efficiency) const;

  const Hardware& hardware_;
  DType dtype_;
  GroupShape tensor_;
};

bool is_collective(const Work& work) {
  return work.kind == WorkKind::kAllReduce || work.kind == WorkKind::kAllGather ||
         work.kind == WorkKind::kReduceScatter;
}

/// Of one call.
double WorkPricer::seconds(const Work& work, double attention_efficiency) const {
  switch (work.kind) {
    case WorkKind::kProduct:
      return product_seconds(hardware_, dtype_, work.m, work.n, work.k, work.batch);
    case WorkKind::kStream:
      return stream_seconds(hardware_, work.bytes);
    case WorkKind::kAttention:
      return work.flops /
             (attention_efficiency * hardware_.product_efficiency * hardware_.peak(dtype_));
    case WorkKind::kAllReduce:
      return hardware_.collective_seconds + all_reduce_seconds(hardware_, tensor_, work.bytes);
    case WorkKind::kAllGather:
    case WorkKind::kReduceScatter:
      return hardware_.collective_seconds + half_collective_seconds(hardware_, tensor_, work.bytes);
  }
  return 0;
}

WorkPricer::Sum WorkPricer::add(const WorkList& list, double attention_efficiency) const {
  Sum sum;
  for (const Work& work : list) {
    if (work.beside != Beside::kNothing) continue;
    const double all = seconds(work, attention_efficiency) * seconds_factor(work.count);
    (is_collective(work) ? sum.tensor : sum.compute) += all;
  }
  return sum;
}

double WorkPricer::beside(const WorkList& input, const WorkList& weight) const {
  double sum = 0;
  for (const Work& work : input) {
    if (work.beside == Beside::kNothing) continue;
    const WorkList& list = work.beside == Beside::kInputGradient ? input : weight;
    double compute = 0;
    for (const Work& product : list) {
      if (product.kind != WorkKind::kProduct || product.name != work.name) continue;
      compute += seconds(product, 1) * seconds_factor(product.count) / seconds_factor(work.count);
    }
    const double one = both_seconds(hardware_, compute, seconds(work, 1)) - compute;
    sum += one * seconds_factor(work.count);
  }
  return sum;
}

/// Passes alone.
StageTimes price_passes(const Job& job, const LayoutConfig& layout, int64_t stage) {
  const StageWork work = stage_work(job, layout, stage);
  const WorkPricer pricer(job, layout);
  const WorkPricer::Sum forward = pricer.forward(work.forward);
  const WorkPricer::Sum replay = pricer.forward(work.replay);
  const WorkPricer::Sum input = pricer.backward(work.backward_input);
  const WorkPricer::Sum weight = pricer.backward(work.backward_weight);
  const double beside = pricer.beside(work.backward_input, work.backward_weight);
  StageTimes times;
  times.price.forward = forward.whole();
  times.price.backward_input = replay.whole() + input.whole() + beside;
  times.price.backward_weight = weight.whole();
  times.price.backward = times.price.backward_input + times.price.backward_weight;
  times.replay = replay.compute;
  times.tensor_forward = forward.tensor;
  times.tensor_backward = replay.tensor + input.tensor + weight.tensor + beside;
  return times;
}

/// Whether all ranks of two coordinates of the pipeline share nodes with their peers.
bool is_within_node(const Hardware& hardware, const LayoutConfig& layout, int64_t one,
                    int64_t other) {
  const int64_t block = layout.tensor * layout.data;
  const int64_t first = std::min(one, other) * block, end = (std::max(one, other) + 1) * block;
  return first / hardware.node_devices == (end - 1) / hardware.node_devices;
}

/// A boundary tensor on its way to a neighbour.
class HopPricer {
 public:
  HopPricer(const Job& job, const LayoutConfig& layout) : job_(job), layout_(layout) {
    const int64_t elements = layout.micro_batch * job.train.sequence_length * job.model.hidden;
    const double whole = seconds_factor(elements * residual_bytes(job));
    const bool is_cut = layout.sequence_parallel && layout.tensor > 1;
    const bool is_scattered = !is_cut && layout.scatter_gather && layout.tensor > 1;
    bytes_ = is_cut || is_scattered ? whole / seconds_factor(layout.tensor) : whole;
    if (!is_scattered) return;
    const GroupShape tensor = group_shape(job.hardware, layout.tensor, 1);
    gather_ = half_collective_seconds(job.hardware, tensor, whole);
  }

  double seconds(int64_t from, int64_t to) const {
    const bool is_near = is_within_node(job_.hardware, layout_, from, to);
    return transfer_seconds(job_.hardware, is_near, bytes_) + gather_;
  }

 private:
  const Job& job_;
  const LayoutConfig& layout_;
  double bytes_ = 0, gather_ = 0;
};

void price_hops(const Job& job, const LayoutConfig& layout, std::vector<StageTimes>* stages) {
  const int64_t p = layout.pipeline;
  if (p == 1) return;
  const HopPricer pricer(job, layout);
  std::vector<double> hops;  // between a coordinate and the next one
  for (int64_t c = 0; c < p; ++c) hops.push_back(pricer.seconds(c, (c + 1) % p));
  const auto last = static_cast<int64_t>(stages->size()) - 1;
  for (int64_t stage = 0; stage <= last; ++stage) {
    StageHops& own = (*stages)[static_cast<size_t>(stage)].hops;
    if (stage < last) own.forward = hops[static_cast<size_t>(stage % p)];
    if (stage > 0) own.backward = hops[static_cast<size_t>((stage - 1) % p)];
  }
}

/// Parameters of one virtual stage, of one rank.
struct StageParameters {
  double elements = 0;
  double accumulated = 0;  ///< as often as they have accumulators
  double units = 0;
  double backward = 0, backward_units = 0;  ///< gathered for a backward pass in ZeRO 3
};

StageParameters stage_parameters(const RankShare& share, int64_t chunk) {
  const StageShare stage = share.stage(chunk);
  StageParameters sum;
  for (const UnitShare& unit : share.units) {
    int64_t count = unit.count;
    int64_t again = 0;  // gathers of a backward pass
    switch (unit.kind) {
      case UnitKind::kToken:
        count *= stage.is_first || (stage.is_last && share.is_last) ? 1 : 0;
        break;
      case UnitKind::kPosition:
        count *= stage.is_first ? 1 : 0;
        break;
      case UnitKind::kLayer: {
        count = stage.layers;
        const int64_t run = share.layout.recompute_layers;
        again = share.is_replaying ? 2 * count - (count + run - 1) / run : count;
        break;
      }
      case UnitKind::kFinalNorm:
      case UnitKind::kHead:
        count *= stage.is_last ? 1 : 0;
        again = unit.kind == UnitKind::kFinalNorm ? count : 0;
        break;
    }
    const double elements = seconds_factor(unit.elements);
    sum.elements += seconds_factor(count) * elements;
    sum.accumulated += seconds_factor(count * unit.uses) * elements;
    sum.backward += seconds_factor(again) * elements;
    sum.units += seconds_factor(count);
    sum.backward_units += seconds_factor(again);
  }
  return sum;
}

/// Exchanges over the data axis.
class DataPricer {
 public:
  DataPricer(const Job& job, const LayoutConfig& layout)
      : job_(job),
        layout_(layout),
        group_(group_shape(job.hardware, layout.data, layout.tensor)),
        weight_bytes_(seconds_factor(compute_bytes(job))),
        gradient_bytes_(job.profile.gradient_bytes) {}

  StageData price(const StageParameters& parameters) const {
    StageData data;
    const int64_t zero = layout_.zero;
    const bool is_engine = job_.profile.is_engine();
    const double gradients =
        gradient_bytes_ * (is_engine ? parameters.accumulated : parameters.elements);
    data.reduce = zero == 0 && !job_.profile.reduces_by_scatter
                      ? all_reduce_seconds(job_.hardware, group_, gradients)
                      : half(gradients, parameters.units);
    const double weights = half(weight_bytes_ * parameters.elements, parameters.units);
    if (zero == 1 || zero == 2) data.gather_after = weights;
    if (zero < 3) return data;
    data.gather_forward = weights;
    data.gather_backward =
        is_engine ? half(weight_bytes_ * parameters.backward, parameters.backward_units) : weights;
    return data;
  }

  /// Gradients that the engine reduced by slices come together again before its optimizer, ZeRO 0.
  double slices(const StageParameters& parameters) const {
    if (layout_.zero != 0 || !job_.profile.reduces_by_scatter) return 0;
    return half(gradient_bytes_ * parameters.elements, parameters.units);
  }

 private:
  /// A reduce-scatter or all-gather of `bytes` in all: the engine's unit by unit, others' at once.
  double half(double bytes, double units) const {
    const double rate = job_.profile.gather_bytes_per_second;
    const double d = seconds_factor(layout_.data);
    if (rate > 0) return bytes * (d - 1) / d / rate;
    const double calls = job_.profile.is_engine() ? units : 1;
    if (calls == 0) return 0;
    return calls * half_collective_seconds(job_.hardware, group_, bytes / calls);
  }

  const Job& job_;
  const LayoutConfig& layout_;
  GroupShape group_;
  double weight_bytes_, gradient_bytes_;
};

/// First and last rank of a pipeline exchange the gradients of the table that both hold.
double tied_seconds(const Job& job, const LayoutConfig& layout) {
  if (!job.model.tied || layout.pipeline == 1) return 0;
  const int64_t elements =
      padded_vocabulary(job.model, layout.tensor) / layout.tensor * job.model.hidden;
  const double bytes = job.profile.gradient_bytes * seconds_factor(elements);
  const bool is_near = is_within_node(job.hardware, layout, 0, layout.pipeline - 1);
  if (job.profile.swaps_tied_slices) {
    return transfer_seconds(job.hardware, is_near, bytes / seconds_factor(layout.data));
  }
  const GroupShape ends = is_near ? GroupShape{2, 2, 1} : GroupShape{2, 1, 2};
  return all_reduce_seconds(job.hardware, ends, bytes);
}

}  // namespace

std::vector<StageTimes> price_stages(const Job& job, const LayoutConfig& layout) {
  const std::vector<int64_t> layers = stage_layers(job.model, layout);
  std::vector<StageTimes> stages(layers.size());
  const auto has_end = [&](size_t stage) { return stage == 0 || stage + 1 == layers.size(); };
  for (size_t stage = 0; stage < layers.size(); ++stage) {
    size_t like = has_end(stage) ? stage : 1;
    while (like < stage && layers[like] != layers[stage]) ++like;
    stages[stage] =
        like < stage ? stages[like] : price_passes(job, layout, static_cast<int64_t>(stage));
  }
  price_hops(job, layout, &stages);
  return stages;
}

StepTimes price_step(const Job& job, const LayoutConfig& layout, std::vector<StageTimes>* stages) {
  const DataPricer pricer(job, layout);
  StepTimes step;
  double most = 0;
  for (int64_t coordinate = 0; coordinate < layout.pipeline; ++coordinate) {
    const RankShare share(job, layout, coordinate);
    double elements = 0, slices = 0, gathers = 0;
    for (int64_t chunk = 0; chunk < layout.interleave; ++chunk) {
      const StageParameters parameters = stage_parameters(share, chunk);
      elements += parameters.elements;
      if (layout.data == 1) continue;
      StageData& data = (*stages)[static_cast<size_t>(chunk * layout.pipeline + coordinate)].data;
      data = pricer.price(parameters);
      slices += pricer.slices(parameters);
      gathers += data.gather_after;
    }
    most = std::max(most, elements);
    step.slices = std::max(step.slices, slices);
    step.gathers = std::max(step.gathers, gathers);
  }
  const double owned = most / seconds_factor(layout.zero >= 1 ? layout.data : 1);
  step.optimizer = stream_seconds(job.hardware, job.profile.optimizer_bytes * owned);
  step.tied = tied_seconds(job, layout);
  step.host = job.hardware.step_seconds;
  return step;
}

}  // namespace plait

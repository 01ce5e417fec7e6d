#include "tests/engine/tensor_parallel/stage_rig.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "engine/layers/initial_weights.h"
#include "engine/model/logical_tensors.h"
#include "kernels/ops/span.h"

namespace plait::test {
namespace {

constexpr float kSeed = 1.0f / 16;

/// Values of a view of any floating dtype.
std::vector<float> values_of(const TensorView& view) {
  std::vector<float> out;
  for (int64_t i = 0; i < view.elements(); ++i) {
    out.push_back(view.dtype == DType::kFloat32    ? view.as<float>()[i]
                  : view.dtype == DType::kBFloat16 ? to_float(view.as<BFloat16>()[i])
                                                   : to_float(view.as<Float16>()[i]));
  }
  return out;
}

/// Ids, targets and documents of all micro-batches.
struct StageData {
  explicit StageData(const StageCase& c)
      : tokens(random_ids(c.micros * c.rows(), 0, c.model.model.vocab_size, 11)),
        targets(random_ids(c.micros * c.rows(), c.first_target, c.model.model.vocab_size, 12)) {
    for (int64_t i = 0; i < c.micros * c.rows(); ++i) {
      const int64_t place = i % c.sequence, start = place >= c.sequence / 3 ? c.sequence / 3 : 0;
      first_visible.push_back(static_cast<int32_t>(start));
      positions.push_back(static_cast<int32_t>(place - start));
      if (i % 7 == 3) targets[static_cast<size_t>(i)] = -1;
    }
  }
  std::vector<int32_t> tokens, targets, positions, first_visible;
};

/// One rank's stages with their memory, and the passes of a step over them.
class RankStages {
 public:
  RankStages(const StageCase& c, const TensorGroup& group, Device& device)
      : case_(c), group_(group), device_(device), data_(c) {
    const int64_t layers = c.model.model.layers / c.stages;
    for (int64_t i = 0; i < c.stages; ++i) {
      StageOptions options;
      options.model = c.model;
      options.layout.recompute = c.recompute;
      options.first_layer = i * layers;
      options.layers = layers;
      options.is_first = i == 0;
      options.is_last = i + 1 == c.stages;
      options.max_rows = c.rows();
      options.is_split = c.is_split;
      options.tensor = group;
      stages_.push_back(std::make_unique<Stage>(options, device));
      for (const auto& unit : stages_.back()->units()) {
        memory_.push_back(std::make_unique<UnitMemory>(*unit, device));
      }
    }
    losses_.resize(static_cast<size_t>(c.micros * c.rows()));
  }

  void run(OpContext& context) {
    if (context.is_measuring()) {
      for (const auto& stage : stages_) stage->prepare(context);
    } else {
      fill_weights(context);
    }
    for (const auto& stage : stages_) stage->weights_changed(context);
    sum_ = {};
    for (int64_t micro = 0; micro < case_.micros; ++micro) run_micro(context, micro);
    const Stage& last = *stages_.back();
    Workspace::Frame frame(context.workspace);
    const TensorView logits = frame.tensor(DType::kFloat32, {1, last.vocabulary_shard_width()});
    stages_.back()->logits(pass_of(context, 0), 0, case_.rows() - 1, logits);
    if (!context.is_measuring()) logits_ = values_of(logits);
  }

  std::vector<HeldSegment> gradients(size_t stage) const {
    std::vector<HeldSegment> out;
    for (const auto& unit : stages_[stage]->units()) {
      for (const auto& parameter : unit->parameters()) {
        const std::vector<float> all = gradient_of(*parameter);
        for (const Segment& segment : parameter->segments) {
          const auto [first, count] = parameter->range(segment);
          out.push_back({segment, {all.begin() + first, all.begin() + first + count}});
        }
      }
    }
    return out;
  }

  /// Largest |gradient| of parameter rows that no segment covers.
  double padding_gradient() const {
    double largest = 0;
    for (const auto& stage : stages_) {
      for (const auto& unit : stage->units()) {
        for (const auto& parameter : unit->parameters()) {
          const std::vector<float> all = gradient_of(*parameter);
          for (int64_t i = end_of_segments(*parameter); i < parameter->shape.elements(); ++i) {
            largest = std::max(largest, std::fabs(double{all[static_cast<size_t>(i)]}));
          }
        }
      }
    }
    return largest;
  }

  const Stage& first() const { return *stages_.front(); }
  const Stage& last() const { return *stages_.back(); }
  const LossSum& sum() const { return sum_; }
  const std::vector<float>& losses() const { return losses_; }
  const std::vector<float>& logits() const { return logits_; }

 private:
  static int64_t end_of_segments(const Parameter& parameter) {
    int64_t end = 0;
    for (const Segment& segment : parameter.segments) {
      const auto [first, count] = parameter.range(segment);
      end = std::max(end, first + count);
    }
    return end;
  }

  static std::vector<float> gradient_of(const Parameter& parameter) {
    std::vector<float> all = values_of(parameter.gradient);
    if (!parameter.second_gradient.is_present()) return all;
    const std::vector<float> second = values_of(parameter.second_gradient);
    for (size_t i = 0; i < all.size(); ++i) all[i] += second[i];
    return all;
  }

  void fill_weights(OpContext& context) {
    for (const auto& stage : stages_) {
      for (const auto& unit : stage->units()) {
        std::vector<float> master(static_cast<size_t>(unit->elements()));
        fill_initial_weights(context, *unit, case_.model.seed, 0, unit->elements(), master.data());
        for (const auto& parameter : unit->parameters()) {
          float* values = master.data() + parameter->offset;
          std::fill(values + end_of_segments(*parameter), values + parameter->shape.elements(),
                    case_.padding);
        }
        const Shape flat{unit->elements()};
        convert_span(context, {master.data(), DType::kFloat32, flat}, unit->weights());
      }
    }
  }

  Pass pass_of(OpContext& context, int64_t micro) const {
    Pass pass{context, case_.batch, case_.sequence};
    const auto first = static_cast<size_t>(micro * case_.rows());
    if (case_.has_documents) {
      pass.positions = data_.positions.data() + first;
      pass.first_visible = data_.first_visible.data() + first;
    }
    pass.first_sample = case_.first_sample + micro * case_.batch;
    pass.is_training = true;
    pass.mode = micro == 0 ? GradientMode::kOverwrite : GradientMode::kAccumulate;
    return pass;
  }

  void run_micro(OpContext& context, int64_t micro) {
    const Pass pass = pass_of(context, micro);
    const auto first = static_cast<size_t>(micro * case_.rows());
    const MicroBatch batch{data_.tokens.data() + first, data_.targets.data() + first, kSeed,
                           losses_.data() + first};
    for (size_t i = 0; i < stages_.size(); ++i) {
      if (i > 0 && !context.is_measuring()) copy(stages_[i - 1]->output(0), stages_[i]->input(0));
      const LossSum sum = stages_[i]->forward(pass, 0, batch);
      sum_.loss += sum.loss;
      sum_.targets += sum.targets;
    }
    for (size_t i = stages_.size(); i-- > 0;) {
      if (case_.is_split) {
        stages_[i]->backward_input(pass, 0, batch);
        stages_[i]->backward_weight(pass, 0, batch);
      } else {
        stages_[i]->backward(pass, 0, batch);
      }
      if (i > 0 && !context.is_measuring()) {
        copy(stages_[i]->gradient(0), stages_[i - 1]->gradient(0));
      }
    }
  }

  static void copy(const TensorView& from, const TensorView& to) {
    std::memcpy(to.data, from.data, static_cast<size_t>(to.bytes()));
  }

  const StageCase& case_;
  TensorGroup group_;
  Device& device_;
  StageData data_;
  std::vector<std::unique_ptr<UnitMemory>> memory_;
  std::vector<std::unique_ptr<Stage>> stages_;
  LossSum sum_;
  std::vector<float> losses_, logits_;
};

/// One rank's share of a StageResult.
struct RankResult {
  LossSum sum;
  std::vector<float> losses, output, input_gradient, logits;
  std::vector<std::vector<HeldSegment>> gradients;  // by stage
  double padding_gradient = 0;
};

/// Rows that ranks hold: the whole on each, or cut.
std::vector<float> join_rows(const std::vector<RankResult>& ranks, const GroupLayout& layout,
                             std::vector<float> RankResult::*field,
                             std::vector<std::string>* problems) {
  std::vector<float> out;
  for (const RankResult& rank : ranks) {
    const std::vector<float>& rows = rank.*field;
    if (layout.is_sequence_parallel) {
      out.insert(out.end(), rows.begin(), rows.end());
    } else if (out.empty()) {
      out = rows;
    } else if (!same_bits(out, rows)) {
      problems->push_back("rows of the residual stream differ between ranks");
    }
  }
  return out;
}

StageResult join(const StageCase& c, const GroupLayout& layout,
                 const std::vector<RankResult>& ranks) {
  StageResult out;
  out.losses = ranks[0].losses;
  out.loss = ranks[0].sum.loss;
  out.targets = ranks[0].sum.targets;
  for (const RankResult& rank : ranks) {
    if (!same_bits(rank.losses, out.losses) || rank.sum.loss != out.loss ||
        rank.sum.targets != out.targets) {
      out.problems.push_back("losses differ between ranks");
    }
    out.padding_gradient = std::max(out.padding_gradient, rank.padding_gradient);
    out.logits.insert(out.logits.end(), rank.logits.begin(), rank.logits.end());
  }
  out.logits.resize(static_cast<size_t>(c.model.model.vocab_size));
  out.output = join_rows(ranks, layout, &RankResult::output, &out.problems);
  out.input_gradient = join_rows(ranks, layout, &RankResult::input_gradient, &out.problems);
  for (size_t stage = 0; stage < ranks[0].gradients.size(); ++stage) {
    std::vector<std::vector<HeldSegment>> held;
    for (const RankResult& rank : ranks) held.push_back(rank.gradients[stage]);
    LogicalValues whole;
    const std::string problem = assemble(held, &whole);
    if (!problem.empty()) out.problems.push_back(problem);
    for (const auto& [name, values] : whole) {  // a tied table is in two stages
      std::vector<float>& to = out.gradients[name];
      to.resize(values.size());
      for (size_t i = 0; i < values.size(); ++i) to[i] += values[i];
    }
  }
  return out;
}

}  // namespace

StageCase gpt2_case() {
  StageCase c;
  c.name = "gpt2";
  ModelConfig& m = c.model.model;
  m.family = FamilyChoice::kGpt2;
  m.layers = 2;
  m.hidden = 45;
  m.heads = m.key_value_heads = 4;
  m.head_size = 11;
  m.feed_forward = 52;
  m.vocab_size = 300;
  m.sequence_length = 19;
  m.tied = true;
  m.norm_epsilon = 1e-5;
  m.initial_std = 0.2;
  c.model.train.dropout = 0.3;
  c.model.train.attention_dropout = 0.2;
  c.model.seed = 1234;
  c.has_documents = true;
  return c;
}

StageCase llama_case() {
  StageCase c = gpt2_case();
  c.name = "llama";
  ModelConfig& m = c.model.model;
  m.family = FamilyChoice::kLlama;
  m.hidden = 38;
  m.heads = 8;
  m.key_value_heads = 2;
  m.head_size = 6;
  m.feed_forward = 60;
  m.vocab_size = 65;
  m.tied = false;
  m.rope_base = 10000;
  c.sequence = 10;
  return c;
}

StageResult run_stages(const StageCase& c, const GroupLayout& layout) {
  std::vector<RankResult> ranks(static_cast<size_t>(layout.size));
  run_group(layout, [&](const TensorGroup& group, Device& device) {
    RankStages stages(c, group, device);
    run_measured(device, [&](OpContext& context) { stages.run(context); });
    RankResult& result = ranks[static_cast<size_t>(group.index)];
    result.sum = stages.sum();
    result.losses = stages.losses();
    result.logits = stages.logits();
    result.output = values_of(stages.last().output(0));
    result.input_gradient = values_of(stages.first().gradient(0));
    for (int64_t i = 0; i < c.stages; ++i) {
      result.gradients.push_back(stages.gradients(static_cast<size_t>(i)));
    }
    result.padding_gradient = stages.padding_gradient();
  });
  return join(c, layout, ranks);
}

std::string differences(const StageResult& got, const StageResult& want, double bound,
                        double floor) {
  std::string out;
  const auto compare = [&](const std::string& name, const std::vector<float>& a,
                           const std::vector<float>& b, double least) {
    const double difference = relative_difference(a, b, least);
    if (!(difference <= bound)) out += name + " by " + std::to_string(difference) + "; ";
  };
  for (const std::string& problem : got.problems) out += problem + "; ";
  if (got.targets != want.targets) out += "targets; ";
  if (!(std::fabs(got.loss - want.loss) <= bound * std::fabs(want.loss))) out += "loss; ";
  compare("losses", got.losses, want.losses, 0);
  compare("output", got.output, want.output, 0);
  compare("input gradient", got.input_gradient, want.input_gradient, 0);
  compare("logits", got.logits, want.logits, 0);
  // Gradients that are nothing but rounding (of a key bias always, of queries and keys where a row
  // sees one key) are measured by the others.
  double largest = 0;
  for (const auto& [name, values] : want.gradients) {
    largest = std::max(largest, relative_difference(values, std::vector<float>(values.size()), 1));
  }
  if (got.gradients.size() != want.gradients.size()) out += "number of gradients; ";
  for (const auto& [name, values] : want.gradients) {
    const auto found = got.gradients.find(name);
    if (found == got.gradients.end()) {
      out += name + " is missing; ";
    } else {
      const bool is_rounding = name.find("key.bias") != std::string::npos;
      compare(name, found->second, values, (is_rounding ? 1.0 : floor) * largest);
    }
  }
  return out;
}

std::string bit_differences(const StageResult& got, const StageResult& want) {
  std::string out;
  for (const std::string& problem : got.problems) out += problem + "; ";
  if (got.loss != want.loss || got.targets != want.targets) out += "loss; ";
  if (!same_bits(got.losses, want.losses)) out += "losses; ";
  if (!same_bits(got.output, want.output)) out += "output; ";
  if (!same_bits(got.input_gradient, want.input_gradient)) out += "input gradient; ";
  if (!same_bits(got.logits, want.logits)) out += "logits; ";
  if (got.gradients.size() != want.gradients.size()) out += "number of gradients; ";
  for (const auto& [name, values] : want.gradients) {
    const auto found = got.gradients.find(name);
    if (found == got.gradients.end() || !same_bits(found->second, values)) out += name + "; ";
  }
  return out;
}

}  // namespace plait::test

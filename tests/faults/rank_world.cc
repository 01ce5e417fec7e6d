#include "tests/faults/rank_world.h"

#include <cstring>
#include <map>
#include <sstream>

#include "engine/config/checks.h"
#include "engine/trainer/host_rows.h"
#include "kernels/base/error.h"
#include "tests/engine/optimizer/toy_model.h"

namespace plait::test {
namespace {

constexpr int64_t kLimitMs = 60'000, kGraceMs = 10'000;

bool same(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

float value_at(const TensorView& view, int64_t index) {
  switch (view.dtype) {
    case DType::kBFloat16:
      return to_float(view.as<BFloat16>()[index]);
    case DType::kFloat16:
      return to_float(view.as<Float16>()[index]);
    default:
      return view.as<float>()[index];
  }
}

float rounded(float value, DType dtype) {
  if (dtype == DType::kBFloat16) return to_float(from_float<BFloat16>(value));
  if (dtype == DType::kFloat16) return to_float(from_float<Float16>(value));
  return value;
}

/// Joins the parts of logical tensors; whoever comes second must bring the same bits.
class Assembly {
 public:
  Assembly(const std::vector<LogicalTensor>& tensors, const char* kind)
      : tensors_(tensors), kind_(kind) {
    for (const LogicalTensor& tensor : tensors) {
      values_.emplace_back(static_cast<size_t>(tensor.shape.elements()));
      is_there_.emplace_back(values_.back().size(), false);
    }
  }

  /// `view` holds the elements `range` of the place's unit.
  void add(int64_t tensor, const TensorPlace& place, UnitRange range, const TensorView& view) {
    const auto t = static_cast<size_t>(tensor);
    for_each_element(*place.parameter, *place.segment, [&](int64_t local, int64_t logical) {
      if (local < range.first || local >= range.first + range.count) return;
      const float value = value_at(view, local - range.first);
      float& known = values_[t][static_cast<size_t>(logical)];
      if (!is_there_[t][static_cast<size_t>(logical)]) {
        known = value;
        is_there_[t][static_cast<size_t>(logical)] = true;
      } else if (std::memcmp(&known, &value, sizeof value) != 0 && fault_.empty()) {
        std::ostringstream text;
        text << kind_ << " of " << tensors_[t].name << "[" << logical << "]: " << known << " and "
             << value;
        fault_ = text.str();
      }
    });
  }

  std::string fault() const {
    for (size_t t = 0; t < values_.size() && fault_.empty(); ++t) {
      for (const bool is_there : is_there_[t]) {
        if (!is_there) return std::string(kind_) + " of " + tensors_[t].name + ": nobody has it";
      }
    }
    return fault_;
  }
  const std::vector<std::vector<float>>& values() const { return values_; }

 private:
  const std::vector<LogicalTensor>& tensors_;
  const char* kind_;
  std::vector<std::vector<float>> values_;
  std::vector<std::vector<bool>> is_there_;
  std::string fault_;
};

/// visit(chunk, number, unit) for each unit of a rank.
template <class Visit>
void each_unit(const Rank& rank, Visit visit) {
  for (size_t chunk = 0; chunk < rank.stages().size(); ++chunk) {
    const auto& units = rank.stages()[chunk]->units();
    for (size_t unit = 0; unit < units.size(); ++unit) {
      visit(static_cast<int64_t>(chunk), static_cast<int64_t>(unit), *units[unit]);
    }
  }
}

/// Elements of a unit that belong to no logical tensor stay zero. Empty: they are.
std::string bad_padding(const Rank& rank) {
  std::string fault;
  each_unit(rank, [&](int64_t chunk, int64_t number, const Unit& unit) {
    std::vector<bool> is_padding(static_cast<size_t>(unit.elements()), true);
    for (const auto& parameter : unit.parameters()) {
      for (const Segment& segment : parameter->segments) {
        for_each_element(*parameter, segment, [&](int64_t local, int64_t) {
          is_padding[static_cast<size_t>(local)] = false;
        });
      }
    }
    const UnitRange range = rank.optimizer().state_range(chunk, number);
    const float* master = rank.optimizer().master(chunk, number).as<float>();
    for (int64_t i = 0; i < range.count; ++i) {
      if (!is_padding[static_cast<size_t>(range.first + i)] || master[i] == 0.0f) continue;
      fault = "padding of " + unit.name() + " on rank " + std::to_string(rank.rank());
    }
  });
  return fault;
}

/// All kinds of state of a world.
struct Assemblies {
  explicit Assemblies(const std::vector<LogicalTensor>& all)
      : tensors(all),
        masters(all, "master"),
        moment1(all, "first moment"),
        moment2(all, "second moment"),
        weights(all, "weight") {}

  void add(const Rank& rank, bool has_weights) {
    const Optimizer& optimizer = rank.optimizer();
    for (size_t i = 0; i < tensors.size(); ++i) {
      const auto tensor = static_cast<int64_t>(i);
      for (const TensorPlace& place : rank.places(tensor)) {
        const UnitRange range = optimizer.state_range(place.chunk, place.unit);
        masters.add(tensor, place, range, optimizer.master(place.chunk, place.unit));
        moment1.add(tensor, place, range, optimizer.moment1(place.chunk, place.unit));
        moment2.add(tensor, place, range, optimizer.moment2(place.chunk, place.unit));
        const auto& units = rank.stages()[static_cast<size_t>(place.chunk)]->units();
        const Unit& unit = *units[static_cast<size_t>(place.unit)];
        if (has_weights) weights.add(tensor, place, {0, unit.elements()}, unit.weights());
      }
    }
  }
  std::string bad_rounding(const PrecisionConfig& precision) const {
    for (size_t t = 0; t < tensors.size(); ++t) {
      for (size_t i = 0; i < masters.values()[t].size(); ++i) {
        if (weights.values()[t][i] == rounded(masters.values()[t][i], precision.compute)) continue;
        return "rounding of " + tensors[t].name;
      }
    }
    return "";
  }

  const std::vector<LogicalTensor>& tensors;
  Assembly masters, moment1, moment2, weights;
};

void append(const TensorView& view, std::string* bytes) {
  bytes->append(static_cast<const char*>(view.data), static_cast<size_t>(view.bytes()));
}

}  // namespace

/// Between a stage and the owner of its units' memory.
class RankWorld::Spy final : public UnitHooks {
 public:
  Spy(const RankWorld& world, Rank& rank, int64_t chunk)
      : world_(world), rank_(rank), chunk_(chunk), inner_(rank.optimizer().hooks(chunk)) {}

  int64_t rank() const { return rank_.rank(); }
  void begin_step() { micros_.clear(); }
  bool weights_needed(OpContext& context, Unit& unit) override {
    return inner_.weights_needed(context, unit);
  }
  void weights_done(Unit& unit) override { inner_.weights_done(unit); }
  GradientMode gradients_begin(OpContext& context, Unit& unit, GradientUse use,
                               GradientMode mode) override {
    const GradientMode own = inner_.gradients_begin(context, unit, use, mode);
    if (own == GradientMode::kOverwrite && world_.on_overwrite_) {
      world_.on_overwrite_(event(unit, use));
    }
    return own;
  }
  void gradients_end(OpContext& context, Unit& unit, GradientUse use) override {
    if (world_.on_gradient_) world_.on_gradient_(event(unit, use));
    ++micros_[{&unit, use}];
    inner_.gradients_end(context, unit, use);
  }

 private:
  GradientEvent event(Unit& unit, GradientUse use) {
    return {rank_, chunk_, micros_[{&unit, use}], unit, use};
  }

  const RankWorld& world_;
  Rank& rank_;
  const int64_t chunk_;
  UnitHooks& inner_;
  std::map<std::pair<const Unit*, GradientUse>, int64_t> micros_;  // that have ended
};

RankWorld::RankWorld(const Config& config)
    : settings_(make_settings(config)),
      mesh_(settings_.layout.tensor, settings_.layout.pipeline, settings_.layout.data) {
  plait::check(config);
  const int64_t world = mesh_.world();
  fabric_ = std::make_unique<Fabric>(Fabric::Options{world, 0, world, kLimitMs, false, 0},
                                     posix_env().clock);
  ranks_.resize(static_cast<size_t>(world));
  RankCrew::Options options;
  options.local_ranks = world;
  options.on_failure = [this](int64_t, const std::exception_ptr&) {
    is_aborted_ = true;
    fabric_->abort(Error("aborted", "another rank of the test failed"));
  };
  crew_ = std::make_unique<RankCrew>(options, posix_env().clock);
  const uint32_t first_group = fabric_->take_group_ids(kAxes);
  run([&](int64_t index) {
    Rank::Place place;
    place.mesh = mesh_;
    place.rank = index;
    place.first_group = first_group;
    auto rank = std::make_unique<Rank>(settings_, *fabric_, place, posix_env().clock, hooks_,
                                       Rank::Flags{&is_aborted_, &progress_, nullptr});
    rank->draw_weights();
    ranks_[static_cast<size_t>(index)] = std::move(rank);
  });
  for (const auto& rank : ranks_) {
    for (size_t chunk = 0; chunk < rank->stages().size(); ++chunk) {
      spies_.push_back(std::make_unique<Spy>(*this, *rank, static_cast<int64_t>(chunk)));
      rank->stages()[chunk]->set_hooks(*spies_.back());
    }
  }
}

RankWorld::~RankWorld() = default;

void RankWorld::run(const std::function<void(int64_t index)>& body) {
  RankCrew::Limits limits;
  limits.timeout_ms = kLimitMs;
  const RankCrew::End end = crew_->run(body, limits);
  if (end != RankCrew::End::kDone) {
    is_aborted_ = true;
    fabric_->abort(Error("deadline", "the ranks of a test did not end"));
    crew_->wait(kGraceMs);
    throw Error("deadline", "the ranks of a test did not end");
  }
  if (crew_->failure() != nullptr) std::rethrow_exception(crew_->failure());
}

std::vector<RankWorld::Result> RankWorld::step(const Batch& batch) {
  const int64_t s = settings_.train.sequence_length, b = settings_.layout.micro_batch;
  const int64_t share = settings_.train.global_batch / settings_.layout.data;
  check_batch(batch, {settings_.train.global_batch, 1, s, settings_.model.vocab_size});
  std::vector<Result> results(ranks_.size());
  for (const auto& spy : spies_) spy->begin_step();
  run([&](int64_t index) {
    Rank& rank = *ranks_[static_cast<size_t>(index)];
    const int64_t first = rank.at().data * share;
    const HostRows rows(batch, first, b, s);
    RunArguments arguments;
    arguments.source = &rows;
    arguments.batch = b;
    arguments.sequence = s;
    arguments.first_sample = samples_ + first;
    arguments.gradient_scale = rank.gradient_seed();
    arguments.is_training = true;
    Result& result = results[static_cast<size_t>(index)];
    result.sum = rank.run(arguments, share / b).sum;
    result.update = rank.update();
  });
  samples_ += settings_.train.global_batch;
  return results;
}

std::string RankWorld::disagreement(const std::vector<Result>& results) const {
  std::ostringstream text;
  const Update& first = results[0].update;
  for (size_t i = 1; i < results.size(); ++i) {
    const Update& other = results[i].update;
    const Rank &a = *ranks_[0], &b = *ranks_[i];
    if (other.kind != first.kind) text << " decision";
    if (!same(other.sums.loss, first.sums.loss)) text << " loss";
    if (other.sums.targets != first.sums.targets) text << " targets";
    if (!same(other.sums.squares, first.sums.squares)) text << " squares";
    if (other.sums.first_nonfinite != first.sums.first_nonfinite) text << " tensor";
    if (!same(other.grad_norm, first.grad_norm)) text << " norm";
    if (!same(other.lr, first.lr)) text << " rate";
    if (!same(other.loss_scale, first.loss_scale)) text << " scale";
    if (!same(a.loss_scale(), b.loss_scale())) text << " next scale";
    if (a.updates() != b.updates()) text << " updates";
    for (size_t tensor = 0; tensor < a.tensors().size(); ++tensor) {
      const auto t = static_cast<int64_t>(tensor);
      if (a.optimizer().updates(t) != b.optimizer().updates(t)) {
        text << " updates of " << a.tensors()[tensor].name;
      }
    }
    if (!text.str().empty()) return "rank " + std::to_string(i) + ":" + text.str();
  }
  return "";
}

WorldState RankWorld::state() const {
  const bool has_weights = settings_.layout.zero < 3 || settings_.layout.data == 1;
  Assemblies all(ranks_[0]->tensors());
  WorldState state;
  for (const auto& rank : ranks_) {
    all.add(*rank, has_weights);
    if (state.fault.empty()) state.fault = bad_padding(*rank);
  }
  for (const Assembly* assembly : {&all.masters, &all.moment1, &all.moment2, &all.weights}) {
    if (assembly == &all.weights && !has_weights) continue;
    if (state.fault.empty()) state.fault = assembly->fault();
  }
  if (has_weights && state.fault.empty()) state.fault = all.bad_rounding(settings_.precision);
  state.masters = all.masters.values();
  state.moment1 = all.moment1.values();
  state.moment2 = all.moment2.values();
  return state;
}

std::vector<std::string> RankWorld::bits() const {
  std::vector<std::string> all;
  for (const auto& rank : ranks_) {
    std::string& bytes = all.emplace_back();
    const Optimizer& optimizer = rank->optimizer();
    each_unit(*rank, [&](int64_t chunk, int64_t number, const Unit& unit) {
      append(optimizer.master(chunk, number), &bytes);
      append(optimizer.moment1(chunk, number), &bytes);
      append(optimizer.moment2(chunk, number), &bytes);
      const bool is_whole = settings_.layout.zero < 3 || settings_.layout.data == 1;
      if (is_whole) append(unit.weights(), &bytes);
    });
    bytes += " " + std::to_string(rank->updates());
    for (size_t i = 0; i < rank->tensors().size(); ++i) {
      bytes += " " + std::to_string(optimizer.updates(static_cast<int64_t>(i)));
    }
  }
  return all;
}

}  // namespace plait::test

#include "tests/engine/optimizer/toy_world.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>

#include "kernels/base/error.h"
#include "kernels/cpu/cpu_kernels.h"

namespace plait::test {
namespace {

constexpr int64_t kWaitLimitMs = 60000;

std::unique_ptr<Device> one_thread_device() {
  DeviceOptions options;
  options.threads = 1;
  return make_device(options);
}

Mesh mesh_of(const ToyOptions& toy) { return {toy.tensor, toy.pipeline, toy.data}; }

/// Logical tensors put together from what ranks hold.
class Assembly {
 public:
  explicit Assembly(const ToyOptions& toy) {
    for (const ToyTensor& tensor : toy_tensors(toy)) {
      values_.emplace_back(static_cast<size_t>(tensor.shape.elements()), std::nanf(""));
      names_.push_back(tensor.name);
    }
  }

  /// `flat` holds the elements `range` of the unit.
  void add(ToyRank& rank, const Unit& unit, UnitRange range, const TensorView& flat) {
    for (const auto& parameter : unit.parameters()) {
      for (const Segment& segment : parameter->segments) {
        auto& values = values_[static_cast<size_t>(rank.tensor_index(segment.name))];
        for_each_element(*parameter, segment, [&](int64_t local, int64_t logical) {
          if (local < range.first || local >= range.first + range.count) return;
          const float value = flat.as<float>()[local - range.first];
          float& place = values[static_cast<size_t>(logical)];
          if (!std::isnan(place) && std::memcmp(&place, &value, sizeof(value)) != 0) {
            throw Error("invariant", "two holders disagree").with("tensor", segment.name);
          }
          place = value;
        });
      }
    }
  }

  std::vector<std::vector<float>> take() {
    for (size_t i = 0; i < values_.size(); ++i) {
      for (float value : values_[i]) {
        if (std::isnan(value)) {
          throw Error("invariant", "an element has no holder").with("tensor", names_[i]);
        }
      }
    }
    return std::move(values_);
  }

 private:
  std::vector<std::vector<float>> values_;
  std::vector<std::string> names_;
};

}  // namespace

ToyRank::ToyRank(const WorldCase& world, Fabric& fabric, int64_t rank)
    : world_(world),
      gradient_(
          [is_exact = world.toy.is_exact](int64_t tensor, int64_t element, const GradientKey& key) {
            return gradient_value(is_exact, tensor, element, key);
          }),
      rank_(rank),
      at_(mesh_of(world.toy).coordinates(rank)),
      tensors_(toy_tensors(world.toy)),
      device_(one_thread_device()),
      kernels_(cpu_kernels()),
      context_{*device_, kernels_, workspace_} {
  const Mesh mesh = mesh_of(world.toy);
  for (Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
    const auto index = static_cast<uint32_t>(axis);
    groups_[index] = std::make_unique<Communicator>(fabric.endpoint(rank), axis_name(axis),
                                                    index + 1, mesh.group(axis, rank), nullptr);
  }
  std::vector<std::vector<Unit*>> chunks;
  for (int64_t chunk = 0; chunk < world.toy.chunks; ++chunk) {
    units_.push_back(toy_units(world.toy, chunk * world.toy.pipeline + at_.pipeline, at_.tensor));
    auto& list = chunks.emplace_back();
    for (const auto& unit : units_.back()) list.push_back(unit.get());
  }
  OptimizerOptions options;
  options.zero = world.zero;
  options.is_overlapping = world.is_overlapping;
  for (const ToyTensor& tensor : tensors_) {
    options.tensors.push_back(tensor.name);
    options.decays.push_back(tensor.decays());
  }
  const int64_t last = world.toy.pipeline - 1;
  if (world.toy.is_tied && last > 0 && (at_.pipeline == 0 || at_.pipeline == last)) {
    options.tied_peer = at_.pipeline == 0 ? last : 0;
    options.is_tied_owner = at_.pipeline == 0;
  }
  optimizer_ = std::make_unique<Optimizer>(
      options, StepGroups{&group(Axis::kTensor), &group(Axis::kPipeline), &group(Axis::kData)},
      chunks, *device_);
}

bool ToyRank::is_head_copy(const Unit& unit) const {
  return unit.name() == "embedding.token" && at_.pipeline > 0;
}

int64_t ToyRank::tensor_index(const std::string& name) const {
  const auto found = std::find_if(tensors_.begin(), tensors_.end(),
                                  [&](const ToyTensor& tensor) { return tensor.name == name; });
  return found - tensors_.begin();
}

void ToyRank::measure() {
  optimizer_->masters_changed(context_);
  gather_gradients(0);
  apply();
  workspace_.allocate(&device_->ledger());
}

void ToyRank::load() {
  for (int64_t chunk = 0; chunk < chunk_count(); ++chunk) {
    for (size_t i = 0; i < units(chunk).size(); ++i) {
      const auto unit = static_cast<int64_t>(i);
      const UnitRange range = optimizer_->state_range(chunk, unit);
      float* master = optimizer_->master(chunk, unit).as<float>();
      for (const auto& parameter : units(chunk)[i]->parameters()) {
        for (const Segment& segment : parameter->segments) {
          const int64_t tensor = tensor_index(segment.name);
          for_each_element(*parameter, segment, [&](int64_t local, int64_t logical) {
            if (local < range.first || local >= range.first + range.count) return;
            master[local - range.first] = initial_value(tensor, logical);
          });
        }
      }
    }
  }
  optimizer_->masters_changed(context_);
}

void ToyRank::write(Unit& unit, GradientUse use, const When& when, GradientMode mode) {
  if (context_.is_measuring()) return;
  const bool is_second = use == GradientUse::kSecond;
  const TensorView flat = is_second ? unit.second_gradients() : unit.gradients();
  float* gradients = flat.as<float>();
  GradientKey key{when.step, when.micro, at_.data, is_second || is_head_copy(unit) ? 1 : 0, 0};
  for (const auto& parameter : unit.parameters()) {
    if (mode == GradientMode::kOverwrite) {
      std::fill_n(gradients + parameter->offset, parameter->shape.elements(), 0.0f);
    }
    for (const Segment& segment : parameter->segments) {
      const int64_t tensor = tensor_index(segment.name);
      key.term = segment.is_partial ? at_.tensor - segment.first_holder : 0;
      for_each_element(*parameter, segment, [&](int64_t local, int64_t logical) {
        gradients[local] += gradient_(tensor, logical, key);
      });
    }
  }
}

void ToyRank::run_unit(int64_t chunk, Unit& unit, const When& when) {
  UnitHooks& hooks = optimizer_->hooks(chunk);
  hooks.weights_needed(context_, unit);
  const GradientMode actual =
      hooks.gradients_begin(context_, unit, GradientUse::kFirst, when.mode());
  write(unit, GradientUse::kFirst, when, actual);
  hooks.gradients_end(context_, unit, GradientUse::kFirst);
  hooks.weights_done(unit);
}

void ToyRank::accumulate(int64_t step, int64_t micro) {
  const When when{step, micro};
  for (int64_t chunk = 0; chunk < chunk_count(); ++chunk) {
    UnitHooks& hooks = optimizer_->hooks(chunk);
    for (const auto& unit : units(chunk)) {
      hooks.weights_needed(context_, *unit);
      hooks.weights_done(*unit);
      if (!unit->has_second_gradient()) continue;  // the head takes its gradient going forward
      const GradientMode actual =
          hooks.gradients_begin(context_, *unit, GradientUse::kSecond, when.mode());
      write(*unit, GradientUse::kSecond, when, actual);
      hooks.gradients_end(context_, *unit, GradientUse::kSecond);
    }
  }
  for (int64_t chunk = chunk_count() - 1; chunk >= 0; --chunk) {
    for (auto unit = units(chunk).rbegin(); unit != units(chunk).rend(); ++unit) {
      run_unit(chunk, **unit, when);
    }
    if (world_.zero >= 2 || micro == world_.micro_batches - 1) {
      optimizer_->reduce(context_, chunk);
    }
  }
}

GlobalSums ToyRank::gather_gradients(int64_t step) {
  optimizer_->begin_step(world_.micro_batches);
  for (int64_t micro = 0; micro < world_.micro_batches; ++micro) accumulate(step, micro);
  LocalSums sums;
  if (at_.pipeline == world_.toy.pipeline - 1) {
    sums.loss = 1.5 + static_cast<double>(at_.data) + static_cast<double>(step);
    sums.targets = 3 + at_.data;
  }
  return optimizer_->close(context_, sums);
}

void ToyRank::apply() {
  optimizer_->apply(context_, kGradientScale, kLearningRate);
  for (int64_t chunk = 0; chunk < chunk_count(); ++chunk) optimizer_->gather(context_, chunk);
}

std::vector<GlobalSums> ToyRank::train() {
  std::vector<GlobalSums> sums;
  for (int64_t step = 0; step < world_.steps; ++step) {
    sums.push_back(gather_gradients(step));
    apply();
  }
  return sums;
}

std::vector<std::vector<float>> ToyRank::whole_weights() {
  std::vector<std::vector<float>> result;
  for (int64_t chunk = 0; chunk < chunk_count(); ++chunk) {
    for (const auto& unit : units(chunk)) {
      optimizer_->hooks(chunk).weights_needed(context_, *unit);
      auto& values = result.emplace_back(static_cast<size_t>(unit->elements()));
      for (size_t i = 0; i < values.size(); ++i) {
        values[i] = unit->dtype() == DType::kFloat32 ? unit->weights().as<float>()[i]
                                                     : to_float(unit->weights().as<BFloat16>()[i]);
      }
      optimizer_->hooks(chunk).weights_done(*unit);
    }
  }
  return result;
}

void run_world(const WorldCase& world, const std::function<void(ToyRank&)>& body) {
  const int64_t count = mesh_of(world.toy).world();
  Fabric::Options options;
  options.world = count;
  options.local_ranks = count;
  options.wait_limit_ms = kWaitLimitMs;
  Fabric fabric(options, posix_env().clock);
  std::mutex mutex;
  std::exception_ptr first;
  std::vector<std::unique_ptr<ToyRank>> ranks(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int64_t rank = 0; rank < count; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        auto& own = ranks[static_cast<size_t>(rank)];
        own = std::make_unique<ToyRank>(world, fabric, rank);
        body(*own);
      } catch (const Error& error) {
        {
          const std::lock_guard<std::mutex> lock(mutex);
          if (!first) first = std::current_exception();
        }
        fabric.abort(error);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

namespace {

/// Padding of weights stays zero.
void check_gaps(const Unit& unit, const std::vector<float>& weights) {
  std::vector<bool> is_covered(weights.size(), false);
  for (const auto& parameter : unit.parameters()) {
    for (const Segment& segment : parameter->segments) {
      for_each_element(*parameter, segment, [&](int64_t local, int64_t) {
        is_covered[static_cast<size_t>(local)] = true;
      });
    }
  }
  for (size_t i = 0; i < weights.size(); ++i) {
    check(is_covered[i] || weights[i] == 0.0f, "padding is zero");
  }
}

}  // namespace

Trained train_world(const WorldCase& world) {
  Trained result;
  Assembly masters(world.toy), moment1(world.toy), moment2(world.toy), weights(world.toy);
  std::mutex mutex;
  run_world(world, [&](ToyRank& rank) {
    rank.measure();
    rank.load();
    const std::vector<GlobalSums> sums = rank.train();
    std::vector<std::vector<float>> whole = rank.whole_weights();
    const std::lock_guard<std::mutex> lock(mutex);
    if (result.sums.empty()) result.sums = sums;
    check(same_sums(result.sums, sums), "all ranks see the same sums");
    size_t number = 0;
    for (int64_t chunk = 0; chunk < rank.chunk_count(); ++chunk) {
      for (size_t i = 0; i < rank.units(chunk).size(); ++i) {
        const auto unit = static_cast<int64_t>(i);
        const Unit& shape = *rank.units(chunk)[i];
        const Optimizer& optimizer = rank.optimizer();
        const UnitRange range = optimizer.state_range(chunk, unit);
        masters.add(rank, shape, range, optimizer.master(chunk, unit));
        moment1.add(rank, shape, range, optimizer.moment1(chunk, unit));
        moment2.add(rank, shape, range, optimizer.moment2(chunk, unit));
        std::vector<float>& values = whole[number++];
        check_gaps(shape, values);
        weights.add(rank, shape, {0, shape.elements()},
                    {values.data(), DType::kFloat32, {shape.elements()}});
      }
    }
  });
  result.masters = masters.take();
  result.moment1 = moment1.take();
  result.moment2 = moment2.take();
  result.weights = weights.take();
  return result;
}

bool same_bits(const std::vector<std::vector<float>>& a, const std::vector<std::vector<float>>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    if (std::memcmp(a[i].data(), b[i].data(), a[i].size() * sizeof(float)) != 0) return false;
  }
  return true;
}

bool same_end(const Trained& a, const Trained& b) {
  return same_sums(a.sums, b.sums) && same_bits(a.masters, b.masters) &&
         same_bits(a.moment1, b.moment1) && same_bits(a.moment2, b.moment2) &&
         same_bits(a.weights, b.weights);
}

bool same_sums(const std::vector<GlobalSums>& a, const std::vector<GlobalSums>& b) {
  return a.size() == b.size() &&
         std::equal(a.begin(), a.end(), b.begin(), [](const GlobalSums& x, const GlobalSums& y) {
           return x.loss == y.loss && x.targets == y.targets && x.stop == y.stop &&
                  x.squares == y.squares && x.first_nonfinite == y.first_nonfinite;
         });
}

}  // namespace plait::test

#include "engine/optimizer/sharding/window_hooks.h"

#include <algorithm>
#include <cstring>

#include "kernels/base/error.h"
#include "kernels/base/mutation.h"
#include "kernels/ops/span.h"

namespace plait {
namespace {

Error no_window(const char* what, const Unit& unit) {
  return Error("invariant", "more units than there are windows are open at once")
      .with("of", what)
      .with("unit", unit.name())
      .with("limit", Windows::kMost)
      .subsystem("engine/optimizer");
}

}  // namespace

Windows::Windows(Device& device, int64_t wanted, int64_t bytes) {
  for (int64_t i = 0; i < std::min<int64_t>(wanted, kMost); ++i) {
    buffers_.push_back(device.allocate(bytes, MemoryCategory::kCommunication));
  }
}

int Windows::take() {
  for (size_t i = 0; i < buffers_.size(); ++i) {
    if (is_taken_[i]) continue;
    is_taken_[i] = true;
    return static_cast<int>(i);
  }
  return kNone;
}

WindowHooks::WindowHooks(const Options& options, ShardedChunks& chunks, Communicator& data,
                         Device& device)
    : options_(options), data_(data), parts_(options.batch_parts, chunks, device) {
  check(options.batch_parts == 1 || options.whole.gradients, "parts are of whole gradients");
  int64_t uses = 0, weight_bytes = 0, gradient_bytes = 0;
  for (auto& units : chunks) {
    for (ShardedUnit& sharded : units) {
      const Unit& unit = sharded.unit();
      index_[&unit] = entries_.size();
      entries_.emplace_back().unit = &sharded;
      uses += unit.has_second_gradient() ? 2 : 1;
      weight_bytes = std::max(weight_bytes, unit.elements() * dtype_size(unit.dtype()));
      gradient_bytes = std::max(gradient_bytes, unit.elements() * dtype_size(DType::kFloat32));
    }
  }
  const auto count = static_cast<int64_t>(entries_.size());
  if (!options.whole.weights) weights_ = Windows(device, count, weight_bytes);
  if (!options.whole.gradients) gradients_ = Windows(device, uses, gradient_bytes);
  for (Entry& entry : entries_) {
    Unit& unit = entry.unit->unit();
    if (!options.whole.weights) {
      unit.bind_weights(weights_.view(0, unit.dtype(), unit.elements()));
    }
    if (options.whole.gradients) continue;
    bind(entry, GradientUse::kFirst, 0);
    if (unit.has_second_gradient()) bind(entry, GradientUse::kSecond, 1);
  }
}

TensorView WindowHooks::gradient_window(const Entry& entry, int window) const {
  return gradients_.view(window, DType::kFloat32, entry.unit->unit().elements());
}

TensorView WindowHooks::window_slice(const Entry& entry, int window) const {
  const UnitRange slice = entry.unit->slice();
  return gradient_window(entry, window).slice_rows(slice.first, slice.count);
}

void WindowHooks::bind(Entry& entry, GradientUse use, int window) {
  Unit& unit = entry.unit->unit();
  const TensorView view = gradient_window(entry, window);
  use == GradientUse::kFirst ? unit.bind_gradients(view) : unit.bind_second_gradients(view);
}

bool WindowHooks::weights_needed(OpContext& context, Unit& unit) {
  if (options_.whole.weights) return false;
  if (context.is_measuring()) return true;
  Entry& entry = this->entry(unit);
  if (entry.readers++ > 0) return false;
  entry.weight_window = weights_.take();
  if (entry.weight_window == Windows::kNone) throw no_window("weights", unit);
  const TensorView window = weights_.view(entry.weight_window, unit.dtype(), unit.elements());
  finish(context);
  data_.all_gather(entry.unit->slice_weights(), window);
  unit.bind_weights(window);
  return true;
}

void WindowHooks::weights_done(Unit& unit) {
  if (options_.whole.weights) return;
  Entry& entry = this->entry(unit);
  if (entry.readers == 0 || --entry.readers > 0) return;  // 0: a measuring pass
  weights_.give_back(entry.weight_window);
  entry.weight_window = Windows::kNone;
}

GradientMode WindowHooks::gradients_begin(OpContext& context, Unit& unit, GradientUse use,
                                          GradientMode mode) {
  Entry& entry = this->entry(unit);
  if (options_.whole.gradients) return parts_.begin(context, *entry.unit, use, mode);
  if (context.is_measuring()) return GradientMode::kOverwrite;
  Use& own = entry.uses[static_cast<size_t>(use)];
  check(own.window == Windows::kNone, "gradients of a use end before they begin again");
  int window = gradients_.take();
  if (window == Windows::kNone) {
    finish(context);
    window = gradients_.take();
  }
  if (window == Windows::kNone) throw no_window("gradients", unit);
  own.window = window;
  bind(entry, use, window);
  float* data = gradient_window(entry, window).as<float>();
  for (const UnitRange& gap : entry.unit->gaps()) std::fill_n(data + gap.first, gap.count, 0.0f);
  return GradientMode::kOverwrite;
}

void WindowHooks::gradients_end(OpContext& context, Unit& unit, GradientUse use) {
  if (options_.whole.gradients || context.is_measuring()) return;
  finish(context);
  Entry& entry = this->entry(unit);
  Use& own = entry.uses[static_cast<size_t>(use)];
  check(own.window != Windows::kNone, "gradients of a use begin before they end");
  own.is_fresh = own.is_fresh || is_mutated(Mutation::kSliceOverwritten);
  data_.start_reduce_scatter(
      gradient_window(entry, own.window),
      own.is_fresh ? entry.unit->slice_gradient(use) : window_slice(entry, own.window));
  reduction_ = {&entry, use, own.window, true};
  own.window = Windows::kNone;
  if (!options_.is_overlapping) finish(context);
}

void WindowHooks::complete() {
  if (!reduction_.is_posted) return;
  data_.finish();
  reduction_.is_posted = false;
}

void WindowHooks::finish(OpContext& context) {
  if (reduction_.entry == nullptr || context.is_measuring()) return;
  complete();
  Entry& entry = *reduction_.entry;
  Use& own = entry.uses[static_cast<size_t>(reduction_.use)];
  if (!own.is_fresh) {
    add_span(context, window_slice(entry, reduction_.window),
             entry.unit->slice_gradient(reduction_.use));
  }
  own.is_fresh = false;
  gradients_.give_back(reduction_.window);
  reduction_.entry = nullptr;
}

void WindowHooks::begin_step(int64_t micro_batches) {
  parts_.begin_step(micro_batches);
  complete();
  if (reduction_.entry != nullptr) gradients_.give_back(reduction_.window);
  reduction_.entry = nullptr;
  for (Entry& entry : entries_) {
    for (Use& use : entry.uses) use.is_fresh = true;
  }
}

void WindowHooks::clear_unused() {
  if (options_.whole.gradients) return;
  for (Entry& entry : entries_) {
    for (GradientUse use : {GradientUse::kFirst, GradientUse::kSecond}) {
      if (!entry.uses[static_cast<size_t>(use)].is_fresh) continue;
      const TensorView slice = entry.unit->slice_gradient(use);
      if (slice.is_present()) std::memset(slice.data, 0, static_cast<size_t>(slice.bytes()));
    }
  }
}

}  // namespace plait

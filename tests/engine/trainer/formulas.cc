#include "tests/engine/trainer/formulas.h"

#include <algorithm>

#include "engine/schedule/schedule.h"

namespace plait::test {
namespace {

int64_t round_up(int64_t count, int64_t unit) { return (count + unit - 1) / unit * unit; }

ScheduleKind kind_of(const Layout& layout) {
  if (layout.interleave > 1) return ScheduleKind::kInterleaved;
  if (layout.schedule == "gpipe") return ScheduleKind::kGpipe;
  if (layout.schedule == "zero_bubble") return ScheduleKind::kZeroBubble;
  return ScheduleKind::kOneForwardOneBackward;
}

/// Every member adds a slice and gives it to the others; what is small goes whole to all.
int64_t all_reduce(int64_t bytes, int64_t members) {
  const bool is_small = bytes <= 1024 || bytes * (members - 1) <= 16384;
  return (is_small ? bytes : 2 * bytes / members) * (members - 1);
}

}  // namespace

int64_t FormulaModel::tensors() const {
  const int64_t per_layer = is_llama ? 9 : 16, ends = is_llama ? 2 : 4;
  return layers * per_layer + ends + (is_tied ? 0 : 1);
}

Keys FormulaModel::keys() const {
  return {{"model.family", is_llama ? "llama" : "gpt2"},
          {"model.tied", is_tied ? "true" : "false"},
          {"model.layers", std::to_string(layers)},
          {"model.hidden", std::to_string(hidden)},
          {"model.heads", std::to_string(heads)},
          {"model.key_value_heads", std::to_string(key_value_heads)},
          {"model.feed_forward", std::to_string(feed_forward)},
          {"model.vocab_size", std::to_string(vocabulary)},
          {"model.sequence_length", std::to_string(sequence)},
          {"train.global_batch", std::to_string(batch)},
          {"precision.compute", compute_bytes == 4 ? "fp32" : "bf16"},
          {"precision.residual", residual_bytes == compute_bytes ? "compute" : "fp32"},
          {"train.replica_check_every", "0"}};
}

RankFormulas::RankFormulas(const FormulaModel& model, const Layout& layout, int64_t rank)
    : model_(model),
      layout_(layout),
      at_(Mesh(layout.tensor, layout.pipeline, layout.data).coordinates(rank)),
      micro_batches_(model.batch / (layout.data * layout.micro_batch)),
      rows_(layout.micro_batch * model.sequence),
      stream_(rows_ * model.hidden / (layout.is_sequence_parallel ? layout.tensor : 1)) {
  const int64_t stages = layout.pipeline * layout.interleave;
  for (int64_t c = 0; c < layout.interleave; ++c) {
    Chunk chunk;
    chunk.stage = c * layout.pipeline + at_.pipeline;
    chunk.layers = (chunk.stage + 1) * model.layers / stages - chunk.stage * model.layers / stages;
    chunk.is_first = chunk.stage == 0;
    chunk.is_last = chunk.stage + 1 == stages;
    chunk.alive = alive(chunk.stage);
    chunks_.push_back(chunk);
    add_units(chunk);
  }
}

/// Most micro-batches alive in a stage: the table of the schedules, for chunks the list itself.
int64_t RankFormulas::alive(int64_t stage) const {
  const int64_t m = micro_batches_, p = layout_.pipeline;
  switch (kind_of(layout_)) {
    case ScheduleKind::kGpipe:
      return m;
    case ScheduleKind::kOneForwardOneBackward:
      return std::min(m, p - at_.pipeline);
    case ScheduleKind::kZeroBubble:
      return std::min(m, p);
    default: {
      const Schedule schedule =
          make_schedule({kind_of(layout_), p, layout_.interleave, m, layout_.zero});
      return peak_alive(schedule.lists[static_cast<size_t>(at_.pipeline)], stage);
    }
  }
}

RankFormulas::Unit RankFormulas::layer_unit() const {
  const int64_t t = layout_.tensor, h = model_.hidden, f = model_.feed_forward / t;
  const int64_t q = model_.heads / t * model_.head_size();
  const int64_t kv = std::max<int64_t>(model_.key_value_heads / t, 1) * model_.head_size();
  const bool is_shared = t > model_.key_value_heads, is_cut = layout_.is_sequence_parallel;
  const Parameter vector = {{h, is_cut}};
  Unit unit;
  const auto add = [&](const Parameter& weight, const Parameter& bias) {
    unit.parameters.push_back(weight);
    if (!model_.is_llama) unit.parameters.push_back(bias);
  };
  add(vector, vector);
  add({{q * h, false}, {kv * h, is_shared}, {kv * h, is_shared}},
      {{q, false}, {kv, is_shared}, {kv, is_shared}});
  add({{h * q, false}}, vector);
  add(vector, vector);
  const int64_t up = model_.is_llama ? 2 * f : f;
  add({{up * h, false}}, {{up, false}});
  add({{h * f, false}}, vector);
  return unit;
}

/// Gathers of all layers of a chunk by a micro-batch: one forward, one backward; a replay comes
/// between, and leaves the last layer of its run there.
int64_t RankFormulas::layer_gathers(int64_t layers) const {
  if (!is_replaying()) return 2 * layers;
  const int64_t runs = (layers + layout_.recompute_layers - 1) / layout_.recompute_layers;
  return 3 * layers - runs;
}

void RankFormulas::add_units(const Chunk& chunk) {
  const bool is_cut = layout_.is_sequence_parallel;
  const int64_t h = model_.hidden, t = layout_.tensor;
  Unit vocabulary;
  vocabulary.parameters = {Parameter{{round_up(model_.vocabulary, 128 * t) / t * h, false}}};
  vocabulary.gathers = 1;
  if (chunk.is_first || (chunk.is_last && model_.is_tied)) {
    Unit token = vocabulary;
    if (chunk.is_first && chunk.is_last && model_.is_tied) token.uses = token.gathers = 2;
    token_ = token;
    units_.push_back(token);
  }
  if (chunk.is_first && !model_.is_llama) {
    units_.push_back({{Parameter{{model_.sequence * h, is_cut}}}, 1, 1});
  }
  for (int64_t i = 0; i < chunk.layers; ++i) {
    units_.push_back(layer_unit());
    // The whole chunk's on its first, the sizes being equal.
    units_.back().gathers = i == 0 ? layer_gathers(chunk.layers) : 0;
  }
  if (!chunk.is_last) return;
  Unit norm;
  norm.parameters.assign(model_.is_llama ? 1 : 2, Parameter{{h, is_cut}});
  norm.gathers = 2;
  units_.push_back(norm);
  if (!model_.is_tied) units_.push_back(vocabulary);
}

/// Parameters begin at multiples of 64, a unit ends at one of 64·d.
int64_t RankFormulas::padded(const Unit& unit) const {
  int64_t sum = 0;
  for (const Parameter& parameter : unit.parameters) {
    int64_t size = 0;
    for (const Segment& segment : parameter) size += segment.elements;
    sum += round_up(size, 64);
  }
  return round_up(sum, 64 * layout_.data);
}

/// Of the own slice.
int64_t RankFormulas::partial_elements(const Unit& unit) const {
  const int64_t slice = padded(unit) / layout_.data, begin = at_.data * slice;
  int64_t offset = 0, sum = 0;
  for (const Parameter& parameter : unit.parameters) {
    int64_t first = offset;
    for (const Segment& segment : parameter) {
      const int64_t shared =
          std::min(first + segment.elements, begin + slice) - std::max(first, begin);
      if (segment.is_partial) sum += std::max<int64_t>(shared, 0);
      first += segment.elements;
    }
    offset = round_up(first, 64);
  }
  return sum;
}

int64_t RankFormulas::elements() const {
  int64_t sum = 0;
  for (const Unit& unit : units_) sum += padded(unit);
  return sum;
}

int64_t RankFormulas::elements_of_uses() const {
  int64_t sum = 0;
  for (const Unit& unit : units_) sum += unit.uses * padded(unit);
  return sum;
}

int64_t RankFormulas::layers_here() const {
  int64_t sum = 0;
  for (const Chunk& chunk : chunks_) sum += chunk.layers;
  return sum;
}

/// Loss, targets, stop and the squares of every tensor, to every other member.
int64_t RankFormulas::sums(int64_t members) const {
  return 8 * (3 + model_.tensors()) * (members - 1);
}

int64_t RankFormulas::boundary_elements() const {
  const bool is_scattered = layout_.is_scattering && !layout_.is_sequence_parallel;
  return is_scattered ? round_up(stream_, layout_.tensor) / layout_.tensor : stream_;
}

/// Boundary tensors that this rank sends or receives in a step.
int64_t RankFormulas::boundaries(bool is_receiving) const {
  int64_t count = 0;
  for (const Chunk& chunk : chunks_) {
    const int64_t forward = is_receiving ? !chunk.is_first : !chunk.is_last;
    const int64_t backward = is_receiving ? !chunk.is_last : !chunk.is_first;
    count += micro_batches_ * (forward + backward);
  }
  return count;
}

int64_t RankFormulas::sent(Axis axis, CollectiveKind kind) const {
  switch (axis) {
    case Axis::kTensor:
      return layout_.tensor == 1 ? 0 : sent_tensor(kind);
    case Axis::kData:
      return layout_.data == 1 ? 0 : sent_data(kind);
    default:
      return layout_.pipeline == 1 ? 0 : sent_pipeline(kind);
  }
}

int64_t RankFormulas::sent_tensor(CollectiveKind kind) const {
  const int64_t t = layout_.tensor, others = t - 1, z = model_.compute_bytes;
  const bool is_cut = layout_.is_sequence_parallel;
  const int64_t layers = layers_here(), whole = z * rows_ * model_.hidden, part = whole / t;
  const int64_t first = is_first() ? 1 : 0, last = is_last() ? 1 : 0;
  const int64_t replays = is_replaying() ? 2 : 0;  // of a layer's collectives forward
  switch (kind) {
    case CollectiveKind::kAllReduce: {
      // A layer's two each way, the lookup, the gradient of the head's input; then the largest
      // logit of a row, and its sum with the target's.
      const int64_t calls = is_cut ? 0 : layers * (4 + replays) + first + last;
      const int64_t loss = last * (all_reduce(4 * rows_, t) + all_reduce(8 * rows_, t));
      return micro_batches_ * (calls * all_reduce(whole, t) + loss);
    }
    case CollectiveKind::kReduceScatter:
      return is_cut ? micro_batches_ * (layers * (4 + replays) + first + last) * others * part : 0;
    case CollectiveKind::kAllGather: {
      // Split backward passes gather both operands of a row linear's again.
      const int64_t calls = layers * (6 + (is_split() ? 2 : 0) + replays) + last;
      const int64_t rows = calls * part + first * model_.residual_bytes * stream_;
      int64_t partial = 0;
      for (const Unit& unit : units_) partial += partial_elements(unit);
      const bool is_scattered = layout_.is_scattering && !is_cut;
      const int64_t received =
          is_scattered ? boundaries(true) * boundary_elements() * model_.residual_bytes : 0;
      return others * ((is_cut ? micro_batches_ * rows : 0) + 4 * partial + received) + sums(t);
    }
    default:
      return 0;
  }
}

int64_t RankFormulas::sent_data(CollectiveKind kind) const {
  const int64_t d = layout_.data, zero = layout_.zero, z = model_.compute_bytes;
  const auto share = [&](int64_t all) { return all / d * (d - 1); };
  if (kind == CollectiveKind::kReduceScatter) {
    return 4 * share(elements_of_uses()) * (zero < 2 ? 1 : micro_batches_);
  }
  if (kind != CollectiveKind::kAllGather) return 0;
  if (zero == 0) return 4 * share(elements()) + sums(d);
  if (zero < 3) return z * share(elements()) + sums(d);
  int64_t gathered = 0;
  for (const Unit& unit : units_) gathered += unit.gathers * share(padded(unit));
  return z * gathered * micro_batches_ + sums(d);
}

int64_t RankFormulas::sent_pipeline(CollectiveKind kind) const {
  if (kind == CollectiveKind::kAllGather) return sums(layout_.pipeline);
  if (kind != CollectiveKind::kSendReceive) return 0;
  const bool is_end = model_.is_tied && (is_first() || is_last());
  const int64_t swapped = is_end ? 4 * padded(token_) / layout_.data : 0;
  return boundaries(false) * boundary_elements() * model_.residual_bytes + swapped;
}

int64_t RankFormulas::weight_bytes() const {
  return model_.compute_bytes * elements() / (layout_.zero == 3 ? layout_.data : 1);
}

int64_t RankFormulas::gradient_bytes() const {
  return 4 * elements_of_uses() / (layout_.zero >= 2 ? layout_.data : 1);
}

/// Moments, and masters where they are not the weights themselves.
int64_t RankFormulas::optimizer_bytes() const {
  const int64_t state = model_.compute_bytes == 4 ? 8 : 12;
  return state * elements() / (layout_.zero >= 1 ? layout_.data : 1);
}

/// Saved state of a layer by a micro-batch, A = bs·[2(r + z)h/ρ + z(2ae + 2Ge + R)/t] + 4·bas/t +
/// 16·bs/ρ, ρ = t where the stream is cut; what is alive of it, and the gradients of one layer.
int64_t RankFormulas::chunk_activations(const Chunk& chunk) const {
  const int64_t t = layout_.tensor, z = model_.compute_bytes, r = model_.residual_bytes;
  const int64_t e = model_.head_size(), f = model_.feed_forward / t, heads = model_.heads / t;
  const int64_t kv = std::max<int64_t>(model_.key_value_heads / t, 1);
  const int64_t qkv = (heads + 2 * kv) * e, up = model_.is_llama ? 2 * f : f;
  const int64_t statistics = 8 * stream_ / model_.hidden;
  const int64_t layer = 2 * (r + z) * stream_ + z * rows_ * (qkv + heads * e + up + f) +
                        4 * rows_ * heads + 2 * statistics;
  const int64_t gradients = z * (2 * stream_ + rows_ * (qkv + up));
  const int64_t input = r * stream_;
  const int64_t n = chunk.layers, k = layout_.recompute_layers;
  const int64_t ends = (chunk.is_last ? statistics + z * stream_ : 0) + input;  // head, output
  int64_t bytes = chunk.alive * ends + (is_split() ? chunk.alive : 1) * input;  // its gradient
  if (is_replaying()) {
    const int64_t run = std::min(k, n);
    bytes += chunk.alive * ((n + k - 1) / k) * input + run * layer - input;
  } else {
    bytes += chunk.alive * n * layer;
  }
  return bytes + (is_split() ? chunk.alive * n : 1) * gradients;
}

int64_t RankFormulas::activation_bytes() const {
  int64_t sum = 0;
  for (const Chunk& chunk : chunks_) sum += chunk_activations(chunk);
  return sum;
}

/// Windows for what is not whole, and a boundary tensor for each direction.
int64_t RankFormulas::communication_bytes() const {
  int64_t largest = 0, uses = 0;
  for (const Unit& unit : units_) {
    largest = std::max(largest, padded(unit));
    uses += unit.uses;
  }
  const auto count = static_cast<int64_t>(units_.size());
  int64_t bytes = 0;
  if (layout_.data > 1 && layout_.zero >= 2) bytes += std::min<int64_t>(2, uses) * 4 * largest;
  if (layout_.data > 1 && layout_.zero == 3) {
    bytes += std::min<int64_t>(2, count) * model_.compute_bytes * largest;
  }
  if (layout_.pipeline > 1) bytes += 2 * boundary_elements() * model_.residual_bytes;
  return bytes;
}

/// The own terms of partial gradients and those of all members; the other end's slice of a tied
/// embedding; both piece by piece.
int64_t RankFormulas::scratch_bytes() const {
  constexpr int64_t kMostElements = int64_t{1} << 18;
  const int64_t t = layout_.tensor;
  const int64_t logits = is_last() ? rows_ * round_up(model_.vocabulary, 128 * t) / t : 0;
  int64_t partial = 0;
  for (const Unit& unit : units_) partial += t > 1 ? partial_elements(unit) : 0;
  const bool is_end = layout_.pipeline > 1 && model_.is_tied && (is_first() || is_last());
  const int64_t swapped = is_end ? padded(token_) / layout_.data : 0;
  return 4 * std::max({logits, (1 + t) * std::min(partial, kMostElements),
                       std::min(swapped, kMostElements)});
}

std::vector<RankFormulas::Linear> RankFormulas::linears() const {
  const int64_t t = layout_.tensor, h = model_.hidden, f = model_.feed_forward / t;
  const int64_t e = model_.head_size(), heads = model_.heads / t;
  const int64_t kv = std::max<int64_t>(model_.key_value_heads / t, 1);
  std::vector<Linear> all;
  for (int64_t i = 0; i < layers_here(); ++i) {
    all.push_back({(heads + 2 * kv) * e, h});
    all.push_back({h, heads * e});
    all.push_back({model_.is_llama ? 2 * f : f, h});
    all.push_back({h, f});
  }
  if (is_last()) all.push_back({round_up(model_.vocabulary, 128 * t) / t, h});
  return all;
}

}  // namespace plait::test

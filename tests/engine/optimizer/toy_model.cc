#include "tests/engine/optimizer/toy_model.h"

#include <algorithm>
#include <cmath>

namespace plait::test {
namespace {

constexpr int64_t kPositions = 7, kKeyRows = 9;

/// Puts segments into a unit as one tensor coordinate of t sees them.
class UnitBuilder {
 public:
  UnitBuilder(const ToyOptions& options, int64_t tensor, std::string name)
      : options_(options), tensor_(tensor), unit_(std::make_unique<Unit>(std::move(name))) {}

  /// The same on all coordinates.
  Segment whole(const std::string& name, const Shape& shape, bool is_partial,
                int64_t first_row = 0) const {
    Segment segment = whole_segment(name, shape, first_row, {});
    segment.holders = options_.tensor;
    segment.is_partial = is_partial && options_.tensor > 1;
    return segment;
  }
  /// Rows [τ·rows, (τ+1)·rows) of the logical tensor, as far as it has them.
  Segment rows(const std::string& name, const Shape& shape, int64_t rows) const {
    Segment segment = whole_segment(name, shape, 0, {});
    segment.box.first[0] = tensor_ * rows;
    segment.box.size[0] = std::min(rows, shape[0] - tensor_ * rows);
    segment.first_holder = tensor_;
    return segment;
  }
  Segment columns(const std::string& name, const Shape& shape) const {
    Segment segment = whole_segment(name, shape, 0, {});
    segment.box.size[1] = shape[1] / options_.tensor;
    segment.box.first[1] = tensor_ * segment.box.size[1];
    segment.first_holder = tensor_;
    return segment;
  }
  Parameter* add(const Shape& shape, std::vector<Segment> segments) {
    return unit_->add(shape, std::move(segments));
  }
  Unit& unit() { return *unit_; }
  std::unique_ptr<Unit> seal() {
    unit_->seal(options_.dtype, options_.data);
    return std::move(unit_);
  }

 private:
  const ToyOptions& options_;
  int64_t tensor_;
  std::unique_ptr<Unit> unit_;
};

/// Rows of a vocabulary on one coordinate, with padding at the end.
int64_t vocabulary_rows(const ToyOptions& options) {
  return (options.vocabulary + options.tensor) / options.tensor;
}

std::unique_ptr<Unit> token_unit(const ToyOptions& options, int64_t tensor, bool has_two_uses) {
  UnitBuilder builder(options, tensor, "embedding.token");
  const int64_t rows = vocabulary_rows(options);
  Parameter* parameter = builder.add(
      {rows, options.hidden},
      {builder.rows("embedding.token.weight", {options.vocabulary, options.hidden}, rows)});
  if (has_two_uses) builder.unit().add_second_gradient(parameter);
  return builder.seal();
}

/// Fused query and key as a grouped-query layer has them: the key is shared by all coordinates.
std::unique_ptr<Unit> layer_unit(const ToyOptions& options, int64_t tensor, int64_t layer) {
  const std::string name = "layers." + std::to_string(layer);
  UnitBuilder builder(options, tensor, name);
  const int64_t hidden = options.hidden, rows = hidden / options.tensor;
  const bool is_partial = options.is_sequence_parallel;
  builder.add({hidden}, {builder.whole(name + ".norm.weight", {hidden}, is_partial)});
  builder.add({rows + kKeyRows, hidden},
              {builder.rows(name + ".query.weight", {hidden, hidden}, rows),
               builder.whole(name + ".key.weight", {kKeyRows, hidden}, true, rows)});
  builder.add({hidden, hidden / options.tensor},
              {builder.columns(name + ".output.weight", {hidden, hidden})});
  builder.add({hidden}, {builder.whole(name + ".output.bias", {hidden}, is_partial)});
  return builder.seal();
}

uint64_t mix(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

uint64_t hash(std::initializer_list<int64_t> values) {
  uint64_t state = 1;
  for (int64_t value : values) state = mix(state ^ static_cast<uint64_t>(value));
  return state;
}

float unit_value(uint64_t bits) {
  return static_cast<float>(static_cast<int64_t>(bits >> 40) - (int64_t{1} << 23)) / 0x1p23f;
}

}  // namespace

std::vector<ToyTensor> toy_tensors(const ToyOptions& options) {
  const int64_t hidden = options.hidden;
  const bool is_partial = options.is_sequence_parallel;
  std::vector<ToyTensor> tensors{{"embedding.token.weight", {options.vocabulary, hidden}, false},
                                 {"embedding.position.weight", {kPositions, hidden}, is_partial}};
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    const std::string name = "layers." + std::to_string(layer);
    tensors.push_back({name + ".norm.weight", {hidden}, is_partial});
    tensors.push_back({name + ".query.weight", {hidden, hidden}, false});
    tensors.push_back({name + ".key.weight", {kKeyRows, hidden}, true});
    tensors.push_back({name + ".output.weight", {hidden, hidden}, false});
    tensors.push_back({name + ".output.bias", {hidden}, is_partial});
  }
  tensors.push_back({"final_norm.weight", {hidden}, is_partial});
  if (!options.is_tied) {
    tensors.push_back({"head.weight", {options.vocabulary, hidden}, false});
  }
  return tensors;
}

std::vector<std::unique_ptr<Unit>> toy_units(const ToyOptions& options, int64_t stage,
                                             int64_t tensor) {
  const int64_t stages = options.pipeline * options.chunks;
  const bool is_first = stage == 0, is_last = stage == stages - 1;
  const int64_t hidden = options.hidden;
  std::vector<std::unique_ptr<Unit>> units;
  if (is_first || (is_last && options.is_tied)) {
    units.push_back(token_unit(options, tensor, is_first && is_last && options.is_tied));
  }
  if (is_first) {
    UnitBuilder builder(options, tensor, "embedding.position");
    builder.add({kPositions, hidden},
                {builder.whole("embedding.position.weight", {kPositions, hidden},
                               options.is_sequence_parallel)});
    units.push_back(builder.seal());
  }
  for (int64_t layer = stage * options.layers / stages;
       layer < (stage + 1) * options.layers / stages; ++layer) {
    units.push_back(layer_unit(options, tensor, layer));
  }
  if (!is_last) return units;
  UnitBuilder norm(options, tensor, "final_norm");
  norm.add({hidden}, {norm.whole("final_norm.weight", {hidden}, options.is_sequence_parallel)});
  units.push_back(norm.seal());
  if (options.is_tied) return units;
  UnitBuilder head(options, tensor, "head");
  const int64_t rows = vocabulary_rows(options);
  head.add({rows, hidden}, {head.rows("head.weight", {options.vocabulary, hidden}, rows)});
  units.push_back(head.seal());
  return units;
}

float initial_value(int64_t tensor, int64_t element) { return unit_value(hash({tensor, element})); }

float gradient_value(bool is_exact, int64_t tensor, int64_t element, const GradientKey& key) {
  const uint64_t bits =
      hash({tensor, element, key.step, key.micro, key.data, key.use, key.term, 7});
  if (is_exact) return static_cast<float>(static_cast<int64_t>(bits % 129) - 64) / 64.0f;
  return unit_value(bits);
}

std::vector<double> summed_gradient(const ToyOptions& options, int64_t tensor, int64_t step,
                                    int64_t micro_batches) {
  const ToyTensor spec = toy_tensors(options)[static_cast<size_t>(tensor)];
  const int64_t uses = tensor == 0 && options.is_tied ? 2 : 1;
  const int64_t terms = spec.is_partial ? options.tensor : 1;
  std::vector<double> sums(static_cast<size_t>(spec.shape.elements()), 0.0);
  GradientKey key;
  key.step = step;
  for (size_t i = 0; i < sums.size(); ++i) {
    for (key.micro = 0; key.micro < micro_batches; ++key.micro) {
      for (key.data = 0; key.data < options.data; ++key.data) {
        for (key.use = 0; key.use < uses; ++key.use) {
          for (key.term = 0; key.term < terms; ++key.term) {
            sums[i] += gradient_value(options.is_exact, tensor, static_cast<int64_t>(i), key);
          }
        }
      }
    }
  }
  return sums;
}

std::vector<std::vector<double>> train_plainly(const ToyOptions& options, int64_t steps,
                                               int64_t micro_batches, double gradient_scale,
                                               double lr) {
  constexpr double kBeta1 = 0.9, kBeta2 = 0.95, kEpsilon = 1e-8, kDecay = 0.1;
  std::vector<std::vector<double>> result;
  const std::vector<ToyTensor> tensors = toy_tensors(options);
  for (size_t t = 0; t < tensors.size(); ++t) {
    const auto tensor = static_cast<int64_t>(t);
    const auto elements = static_cast<size_t>(tensors[t].shape.elements());
    std::vector<double> value(elements), m(elements, 0.0), s(elements, 0.0);
    for (size_t i = 0; i < elements; ++i) {
      value[i] = initial_value(tensor, static_cast<int64_t>(i));
    }
    for (int64_t step = 0; step < steps; ++step) {
      const std::vector<double> sums = summed_gradient(options, tensor, step, micro_batches);
      const auto n = static_cast<double>(step + 1);
      for (size_t i = 0; i < elements; ++i) {
        const double g = gradient_scale * sums[i];
        m[i] = kBeta1 * m[i] + (1 - kBeta1) * g;
        s[i] = kBeta2 * s[i] + (1 - kBeta2) * g * g;
        const double move = m[i] / (1 - std::pow(kBeta1, n)) /
                            (std::sqrt(s[i] / (1 - std::pow(kBeta2, n))) + kEpsilon);
        value[i] -= lr * (move + (tensors[t].decays() ? kDecay : 0.0) * value[i]);
      }
    }
    result.push_back(std::move(value));
  }
  return result;
}

}  // namespace plait::test

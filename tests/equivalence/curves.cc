#include "tests/equivalence/curves.h"

#include <cmath>
#include <sstream>

namespace plait::test {
namespace {

constexpr int64_t kBatch = 24, kSequence = 16;
constexpr uint64_t kSteps = 3;

Keys small(const Keys& rest) {
  Keys keys = {{"model.layers", "8"}, {"model.hidden", "24"}, {"model.heads", "4"}};
  keys.insert(keys.end(), rest.begin(), rest.end());
  return keys;
}

Config config_of(const Model& model, const Layout& layout) {
  Keys keys = {{"train.global_batch", std::to_string(kBatch)},
               {"optimizer.clip_grad_norm", "0.5"},
               {"optimizer.lr", "3e-3"},
               {"model.vocab_size", std::to_string(model.vocabulary)}};
  const Keys layout_keys = layout.keys();
  keys.insert(keys.end(), model.keys.begin(), model.keys.end());
  keys.insert(keys.end(), layout_keys.begin(), layout_keys.end());
  return tiny_config(keys);
}

struct Rows {
  std::vector<int32_t> tokens, targets;
};

/// Targets are masked unevenly, so that a mean of means is wrong.
Rows rows_of(const Model& model, uint64_t step) {
  Rows rows;
  rows.tokens = random_rows(kBatch, kSequence, model.vocabulary, step);
  rows.targets = random_rows(kBatch, kSequence, model.vocabulary, step + 100);
  for (int64_t row = 0; row < kBatch; ++row) {
    for (int64_t i = 0; i < row % 11; ++i) {
      rows.targets[static_cast<size_t>(row * kSequence + i)] = -1;
    }
  }
  return rows;
}

/// The largest relative distance; NaN when there is one.
double distance(const std::vector<double>& got, const std::vector<double>& want) {
  double most = 0;
  for (size_t i = 0; i < want.size(); ++i) {
    const double one = std::fabs(got[i] / want[i] - 1);
    if (!(one <= most)) most = one;
    if (std::isnan(most)) break;
  }
  return most;
}

std::string off_by(const char* what, double distance) {
  std::ostringstream text;
  text.precision(2);
  text << what << " off by " << distance;
  return text.str();
}

/// Canonical sums of losses and squares, made in fp64, are the same but for their last bits.
std::string differing_bits(const Curve& got, const Curve& want, bool is_canonical) {
  const auto same = [&](const std::vector<double>& a, const std::vector<double>& b) {
    return is_canonical ? distance(a, b) < 1e-14 : a == b;
  };
  std::string list;
  const auto note = [&](bool is_equal, const char* what) {
    if (!is_equal) list += (list.empty() ? "" : ", ") + std::string(what);
  };
  note(same(got.losses, want.losses), "losses");
  note(same(got.norms, want.norms), "norms");
  note(got.weights == want.weights, "weights");
  note(got.moments == want.moments, "moments");
  return list;
}

}  // namespace

const std::vector<Model>& models() {
  static const std::vector<Model> all = {
      {"gpt2",
       301,
       small({{"model.feed_forward", "52"}, {"train.dropout", "0.2"}}),
       {4, 4, 52, 8, kSequence, kBatch}},
      {"llama",
       61,
       small({{"model.family", "llama"},
              {"model.key_value_heads", "2"},
              {"model.feed_forward", "28"}}),
       {4, 2, 28, 8, kSequence, kBatch}},
      {"llama_tied",
       517,
       small({{"model.family", "llama"},
              {"model.key_value_heads", "1"},
              {"model.feed_forward", "28"},
              {"model.tied", "true"},
              {"train.dropout", "0.1"}}),
       {4, 1, 28, 8, kSequence, kBatch}},
      {"gpt2_canonical",
       301,
       small({{"model.feed_forward", "52"},
              {"model.tied", "true"},
              {"train.dropout", "0.2"},
              {"precision.reduction", "canonical"},
              {"precision.canonical_tensor", "4"},
              {"precision.canonical_data", "4"}}),
       {4, 4, 52, 8, kSequence, kBatch, 4, 4}},
      {"llama_canonical",
       61,
       small({{"model.family", "llama"},
              {"model.key_value_heads", "2"},
              {"model.feed_forward", "28"},
              {"precision.compute", "bf16"},
              {"precision.reduction", "canonical"}}),
       {4, 2, 28, 8, kSequence, kBatch, 2, 2}}};
  return all;
}

std::vector<Layout> admitted(const ModelSizes& sizes, int64_t most_ranks) {
  std::vector<Layout> out;
  for (const Layout& layout : all_layouts(most_ranks)) {
    if (is_admitted(layout, sizes)) out.push_back(layout);
  }
  return out;
}

Curve train(const Model& model, const Layout& layout) {
  TestEngine engine(config_of(model, layout));
  Curve curve;
  for (uint64_t i = 0; i < kSteps; ++i) {
    const Rows rows = rows_of(model, i);
    const Metrics metrics = step(*engine, target_batch(rows.tokens, rows.targets, kBatch));
    curve.losses.push_back(metrics.loss);
    curve.norms.push_back(metrics.grad_norm);
  }
  curve.weights = read_all(*engine, TensorKind::kParam);
  curve.moments = read_all(*engine, TensorKind::kMoment2);
  return curve;
}

const Curve& References::curve(const Model& model, const Layout& layout) {
  const std::string name = std::string(model.name) + layout.text();
  const auto found = curves_.find(name);
  if (found != curves_.end()) return found->second;
  return curves_.emplace(name, train(model, layout)).first->second;
}

Verdict judge(const Model& model, const Layout& layout, References& references) {
  Layout one;
  one.micro_batch = layout.micro_batch;
  const Curve got = train(model, layout);
  const Curve& want = references.curve(model, one);
  Verdict verdict;
  verdict.loss = distance(got.losses, want.losses);
  verdict.norm = distance(got.norms, want.norms);
  verdict.weights = relative_difference(got.weights, want.weights);
  if (!(verdict.loss < 2e-5)) {
    verdict.failure = off_by("loss", verdict.loss);
  } else if (!(verdict.norm < 2e-4)) {
    verdict.failure = off_by("norm", verdict.norm);
  } else if (!(verdict.weights < 1e-4)) {
    verdict.failure = off_by("weights", verdict.weights);
  }
  if (!verdict.failure.empty()) return verdict;
  const Layout bits = bit_class(layout, model.sizes);
  const std::string differing =
      differing_bits(got, references.curve(model, bits), model.sizes.is_canonical());
  if (!differing.empty()) verdict.failure = "not the bits of " + bits.text() + ": " + differing;
  return verdict;
}

}  // namespace plait::test

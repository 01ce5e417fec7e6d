#include "tests/equivalence/matrix.h"

#include <algorithm>
#include <array>
#include <set>

namespace plait::test {
namespace {

constexpr size_t kFields = 10;

/// The values of a layout's axes, for counting pairs.
std::array<std::string, kFields> fields(const Layout& layout) {
  return {std::to_string(layout.tensor),
          std::to_string(layout.pipeline),
          std::to_string(layout.data),
          std::to_string(layout.interleave),
          layout.schedule,
          std::to_string(layout.zero),
          std::to_string(layout.is_sequence_parallel),
          layout.recompute,
          std::to_string(layout.micro_batch),
          std::to_string(layout.recompute_layers)};
}

using Pair = std::pair<size_t, std::string>;

std::vector<Pair> pairs_of(const Layout& layout) {
  const auto values = fields(layout);
  std::vector<Pair> pairs;
  for (size_t i = 0; i < kFields; ++i) {
    for (size_t j = i + 1; j < kFields; ++j) {
      pairs.emplace_back(i * kFields + j, values[i] + "|" + values[j]);
    }
  }
  return pairs;
}

/// Axes that multiply; the others are filled in by `complete`.
std::vector<Layout> degrees(int64_t most_ranks) {
  std::vector<Layout> out;
  for (const int64_t t : {1, 2, 4}) {
    for (const int64_t p : {1, 2, 4}) {
      for (const int64_t d : {1, 2, 3, 4}) {
        for (const int64_t v : {1, 2}) {
          if (t * p * d > most_ranks || (v > 1 && p == 1)) continue;
          Layout layout;
          layout.tensor = t;
          layout.pipeline = p;
          layout.data = d;
          layout.interleave = v;
          out.push_back(layout);
        }
      }
    }
  }
  return out;
}

}  // namespace

std::string Layout::text() const {
  return "t" + std::to_string(tensor) + " p" + std::to_string(pipeline) + " d" +
         std::to_string(data) + " v" + std::to_string(interleave) + " z" + std::to_string(zero) +
         " b" + std::to_string(micro_batch) + (is_sequence_parallel ? " sp " : " ") +
         (schedule.empty() ? "default" : schedule) + " " + recompute +
         std::to_string(recompute_layers) + (is_scattering ? "" : " whole") +
         (is_overlapping ? "" : " plain");
}

Keys Layout::keys() const {
  Keys keys = {{"layout.tensor", std::to_string(tensor)},
               {"layout.pipeline", std::to_string(pipeline)},
               {"layout.data", std::to_string(data)},
               {"layout.interleave", std::to_string(interleave)},
               {"layout.zero", std::to_string(zero)},
               {"layout.sequence_parallel", is_sequence_parallel ? "true" : "false"},
               {"layout.recompute", recompute},
               {"layout.recompute_layers", std::to_string(recompute_layers)},
               {"layout.micro_batch", std::to_string(micro_batch)},
               {"layout.scatter_gather", is_scattering ? "true" : "false"},
               {"layout.overlap", is_overlapping ? "true" : "false"}};
  if (!schedule.empty()) keys.emplace_back("layout.schedule", schedule);
  return keys;
}

bool is_admitted(const Layout& layout, const ModelSizes& sizes) {
  const int64_t t = layout.tensor;
  if (sizes.is_canonical()) {
    if (sizes.canonical_tensor % t != 0 || sizes.canonical_data % layout.data != 0) return false;
    if (sizes.batch % (sizes.canonical_data * layout.micro_batch) != 0) return false;
    if (layout.is_sequence_parallel || layout.zero >= 2) return false;
    if (layout.schedule == "zero_bubble") return false;
  }
  if (sizes.heads % t != 0 || sizes.feed_forward % t != 0) return false;
  if (sizes.key_value_heads % t != 0 && t % sizes.key_value_heads != 0) return false;
  if (sizes.layers < layout.pipeline * layout.interleave) return false;
  if (sizes.batch % (layout.data * layout.micro_batch) != 0) return false;
  if (layout.is_sequence_parallel && layout.micro_batch * sizes.sequence % t != 0) return false;
  const int64_t m = sizes.batch / (layout.data * layout.micro_batch);
  if (layout.interleave > 1 && m % layout.pipeline != 0) return false;
  if (layout.interleave > 1 && !layout.schedule.empty() && layout.schedule != "interleaved") {
    return false;
  }
  if (layout.interleave == 1 && layout.schedule == "interleaved") return false;
  return layout.schedule != "zero_bubble" || layout.zero < 2;
}

Layout bit_class(const Layout& layout, const ModelSizes& sizes) {
  Layout same;
  if (sizes.is_canonical()) {
    same.micro_batch = layout.micro_batch;
    return same;
  }
  same.tensor = layout.tensor;
  same.data = layout.data;
  same.micro_batch = layout.micro_batch;
  same.is_sequence_parallel = layout.is_sequence_parallel;
  const int64_t m = sizes.batch / (layout.data * layout.micro_batch);
  const bool is_sum_reordered = layout.zero >= 2 && m > 1 && layout.data > 1;
  same.zero = is_sum_reordered ? 2 : 0;
  return same;
}

std::vector<Layout> all_layouts(int64_t most_ranks) {
  std::vector<Layout> out;
  for (const Layout& degree : degrees(most_ranks)) {
    for (const char* schedule : {"one_forward_one_backward", "gpipe", "zero_bubble", ""}) {
      if ((degree.interleave > 1) != (std::string(schedule).empty())) continue;
      for (const int64_t zero : {0, 1, 2, 3}) {
        for (const bool sp : {false, true}) {
          if (sp && degree.tensor == 1) continue;
          for (const char* recompute : {"none", "selective", "full"}) {
            for (const int64_t micro : {1, 2}) {
              Layout layout = degree;
              layout.schedule = schedule;
              layout.zero = zero;
              layout.is_sequence_parallel = sp;
              layout.recompute = recompute;
              layout.recompute_layers = std::string(recompute) == "full" ? 1 + (zero & 1) : 1;
              layout.micro_batch = micro;
              layout.is_scattering = (degree.data + zero) % 2 == 0;
              layout.is_overlapping = (degree.pipeline + micro) % 2 == 1;
              out.push_back(layout);
            }
          }
        }
      }
    }
  }
  return out;
}

std::vector<Layout> pairwise(const std::vector<Layout>& all) {
  std::set<Pair> open;
  for (const Layout& layout : all) {
    for (const Pair& pair : pairs_of(layout)) open.insert(pair);
  }
  std::vector<Layout> chosen;
  while (!open.empty()) {
    const Layout* best = nullptr;
    int64_t most = 0;
    for (const Layout& layout : all) {
      int64_t count = 0;
      for (const Pair& pair : pairs_of(layout)) count += static_cast<int64_t>(open.count(pair));
      if (count > most) {
        most = count;
        best = &layout;
      }
    }
    chosen.push_back(*best);
    for (const Pair& pair : pairs_of(*best)) open.erase(pair);
  }
  return chosen;
}

}  // namespace plait::test

#include "tests/bench/planner_takeaways.h"

#include <algorithm>
#include <cstdio>

#include "engine/planner/estimate.h"
#include "engine/planner/search.h"
#include "kernels/base/error.h"

namespace plait::bench {
namespace {

constexpr double kTie = 0.025;  // half of the narrowest band

/// The row of this id, its software and hardware replaced.
PublishedRow row_of(const std::vector<PublishedRow>& rows, const std::string& id,
                    const Hardware& hardware, const char* profile) {
  const auto found =
      std::find_if(rows.begin(), rows.end(), [&](const PublishedRow& row) { return row.id == id; });
  if (found == rows.end()) throw Error("argument", "the files lack a row").with("id", id);
  PublishedRow row = *found;
  row.job.hardware = hardware;
  row.job.profile = find_profile(profile);
  return row;
}

/// Links inside a node at a tenth of their rates, and none above them.
Hardware slowed(Hardware hardware) {
  double fastest = 0;
  for (CollectiveLine& line : hardware.collectives) {
    if (line.nodes > 1) continue;
    line.bytes_per_second /= 10;
    fastest = std::max(fastest, line.bytes_per_second);
  }
  for (CollectiveLine& line : hardware.collectives) {
    line.bytes_per_second = std::min(line.bytes_per_second, fastest);
  }
  TransferLine &node = hardware.node_transfer, &fabric = hardware.fabric_transfer;
  node.bytes_per_second /= 10;
  fabric.bytes_per_second = std::min(fabric.bytes_per_second, node.bytes_per_second);
  return hardware;
}

struct Choice {
  int64_t value = 0;
  double seconds = 0;
};

/// Estimates at each value of a key of the layout, best first.
template <class Set>
std::vector<Choice> ranked(const PublishedRow& row, const std::vector<int64_t>& values,
                           const char* name, Set set) {
  std::vector<Choice> choices;
  std::printf("  %s, B = %ld:", row.job.profile.name,
              static_cast<long>(row.job.train.global_batch));
  for (const int64_t value : values) {
    LayoutConfig layout = row.layout;
    set(&layout, value);
    choices.push_back({value, estimate(row.job, layout).step_seconds});
    std::printf("  %s=%ld %.2f s", name, static_cast<long>(value), choices.back().seconds);
  }
  std::printf("\n");
  std::sort(choices.begin(), choices.end(),
            [](const Choice& a, const Choice& b) { return a.seconds < b.seconds; });
  return choices;
}

/// Tensor and pipeline degrees of the 162B model on 64 devices.
std::vector<Choice> ranked_tensor(PublishedRow row, int64_t batch) {
  row.job.train.global_batch = batch;
  return ranked(row, {2, 4, 8, 16, 32}, "t", [](LayoutConfig* layout, int64_t tensor) {
    layout->tensor = tensor;
    layout->pipeline = 64 / tensor;
  });
}

void judge_tensor(const std::vector<PublishedRow>& rows, const Hardware& hardware, Goals* goals) {
  std::printf(
      "\n1. Tensor parallelism inside a node, then pipeline: 162B on 64 devices, t·p = 64\n");
  const PublishedRow row = row_of(rows, "figure13-t8p8-B32", hardware, "megatron-2021");
  const std::vector<Choice> small = ranked_tensor(row, 32), large = ranked_tensor(row, 128);
  goals->holds("t = 8 is best at B = 32", small[0].value == 8);
  const double tie = large[0].seconds * (1 + kTie);
  const auto eight = std::find_if(large.begin(), large.end(),
                                  [](const Choice& choice) { return choice.value == 8; });
  const bool is_near = large[0].value == 8 || (large[0].value == 4 && eight->seconds <= tie);
  goals->holds("t = 8 is best, or ties with t = 4, at B = 128", is_near);
  std::printf("  with links of a node slowed tenfold\n");
  const PublishedRow slow = row_of(rows, "figure13-t8p8-B32", slowed(hardware), "megatron-2021");
  goals->holds("slowed, t = 4 is best at B = 32", ranked_tensor(slow, 32)[0].value == 4);
  goals->holds("slowed, t = 2 is best at B = 128", ranked_tensor(slow, 128)[0].value == 2);
}

/// A search with every key free.
SearchResult searched(const PublishedRow& row) {
  LayoutConfig free;
  free.auto_keys = {"layout.tensor",     "layout.pipeline",          "layout.data",
                    "layout.interleave", "layout.micro_batch",       "layout.schedule",
                    "layout.zero",       "layout.sequence_parallel", "layout.recompute"};
  return search(row.job, free);
}

void print_best(const std::string& name, const SearchResult& result) {
  std::printf("  %s: %ld layouts, %ld rejected, %ld simulated\n", name.c_str(),
              static_cast<long>(result.tried), static_cast<long>(result.rejected),
              static_cast<long>(result.simulated));
  constexpr int64_t kShown = 5;
  int64_t shown = 0, ties = 0;
  for (const Candidate& candidate : result.candidates) {
    if (!candidate.is_feasible) break;
    ties += candidate.is_tie ? 1 : 0;
    if (++shown > kShown) continue;
    std::printf("    %.3f s%s  %s\n", candidate.estimate.step_seconds,
                candidate.is_tie ? " tie" : "", layout_text(candidate.estimate.layout).c_str());
  }
  if (ties > kShown) std::printf("    … %ld ties\n", static_cast<long>(ties));
}

int64_t model_ranks(const Candidate& candidate) {
  return candidate.estimate.layout.tensor * candidate.estimate.layout.pipeline;
}

void judge_model(const std::vector<PublishedRow>& rows, const Hardware& hardware, Goals* goals) {
  std::printf("\n2. As many ranks of a model as it needs, the rest for data: free searches\n");
  for (const auto& [id, batch] : {std::pair{"table1-3.6B", 512},
                                  {"table1-3.6B", 1024},
                                  {"table1-7.5B", 512},
                                  {"table1-7.5B", 1024}}) {
    PublishedRow row = row_of(rows, id, hardware, "plait");
    row.job.train.global_batch = batch;
    const SearchResult result = searched(row);
    const std::string name = std::string(id) + ", B = " + std::to_string(batch);
    print_best(name, result);
    goals->holds(name + ": t = p = 1", model_ranks(result.candidates.front()) == 1);
  }
  PublishedRow row = row_of(rows, "figure13-t8p8-B128", hardware, "plait");
  row.job.top = 10000;  // all that fit into memory
  const SearchResult result = searched(row);
  print_best("162B, B = 128", result);
  const double tie = result.candidates.front().estimate.step_seconds * (1 + kTie);
  bool is_at_least = true, has_32 = false;
  for (const Candidate& candidate : result.candidates) {
    if (!candidate.is_feasible) break;
    const int64_t ranks = model_ranks(candidate);
    is_at_least = is_at_least && (candidate.estimate.layout.zero >= 2 || ranks >= 32);
    has_32 = has_32 || (ranks == 32 && candidate.estimate.step_seconds <= tie);
  }
  goals->holds("162B, B = 128: no layout with fewer than 32 ranks of a model", is_at_least);
  goals->holds("162B, B = 128: 32 ranks of a model are best or tie", has_32);
}

void judge_micro_batch(const std::vector<PublishedRow>& rows, const Hardware& hardware,
                       Goals* goals) {
  std::printf("\n3. The best micro-batch depends on the case: 91B, t = p = 8\n");
  const auto best = [&](const char* id) {
    const PublishedRow row = row_of(rows, id, hardware, "megatron-2021");
    return ranked(row, {1, 2, 4, 8}, "b",
                  [](LayoutConfig* layout, int64_t micro_batch) {
                    layout->micro_batch = micro_batch;
                  })[0]
        .value;
  };
  goals->holds("b = 2 is best at B = 128", best("figure16-b1-B128") == 2);
  const int64_t large = best("figure16-b1-B512");
  goals->holds("b = 2 or 4 is best at B = 512", large == 2 || large == 4);
}

}  // namespace

void judge_takeaways(const std::string& directory, const Hardware& hardware, Goals* goals) {
  std::vector<PublishedRow> rows = read_rows(directory + "/ptdp_figures.csv", hardware);
  for (PublishedRow& row : read_rows(directory + "/ptdp_table1.csv", hardware)) {
    rows.push_back(std::move(row));
  }
  judge_tensor(rows, hardware, goals);
  judge_model(rows, hardware, goals);
  judge_micro_batch(rows, hardware, goals);
}

}  // namespace plait::bench

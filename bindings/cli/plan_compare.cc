#include "bindings/cli/plan_compare.h"

#include <cmath>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

/// Place of `candidate` among the feasible ones, from 1; 0: it is not there.
int64_t place_in(const Planned& planned, const PlanJson& candidate) {
  for (size_t i = 0; i < planned.candidates.size(); ++i) {
    const PlanJson& one = planned.candidates[i];
    if (!one["is_feasible"].get<bool>()) return 0;
    if (one["layout"] == candidate["layout"]) return static_cast<int64_t>(i) + 1;
  }
  return 0;
}

int64_t feasible_count(const Planned& planned) {
  int64_t count = 0;
  for (const PlanJson& one : planned.candidates) count += one["is_feasible"].get<bool>() ? 1 : 0;
  return count;
}

/// Relative to the first of `planned`: 0.12 is 12 % slower.
double slower_by(const Planned& planned, const PlanJson& candidate) {
  return number_at(candidate, "step_seconds") / number_at(planned.candidates[0], "step_seconds") -
         1;
}

bool is_tie(const Planned& planned, const PlanJson& candidate) {
  const double half = number_at(candidate["band"], "relative") / 2;
  return std::abs(slower_by(planned, candidate)) <= half;
}

std::string signed_text(double value, int digits) {
  return (value > 0 ? "+" : "") + fixed(value, digits);
}

}  // namespace

std::string compare_text(const PlanJson& a, const PlanJson& b, const PlanView& view) {
  const double step = number_at(a, "step_seconds");
  const bool is_short = step < 1;
  const double unit = !view.has_times ? 100 / step : is_short ? 1000 : 1;
  TextTable table(
      {{"", TextTable::Align::kLeft}, {"A"}, {"B"}, {"B - A"}, {"", TextTable::Align::kLeft}});
  const auto row = [&](const std::string& name, double x, double y, int digits,
                       const std::string& of) {
    table.add({name, fixed(x, digits), fixed(y, digits), signed_text(y - x, digits), of});
  };
  const std::string time = !view.has_times ? "% of A's step" : is_short ? "ms" : "s";
  const auto seconds = [&](const char* name, const char* key) {
    const double x = number_at(a["parts"], key), y = number_at(b["parts"], key);
    if (x != 0 || y != 0) row(name, unit * x, unit * y, 2, time);
  };
  row("step", unit * step, unit * number_at(b, "step_seconds"), 2, time);
  seconds("  forward", "forward");
  seconds("  backward", "backward");
  seconds("    layers run again", "replay");
  seconds("  tensor, not hidden", "tensor");
  seconds("  pipeline, not hidden", "pipeline");
  seconds("  data, not hidden", "data_axis");
  seconds("  tied embedding", "tied");
  seconds("  optimizer", "optimizer");
  seconds("  bubble", "bubble");
  seconds("  other", "host");
  const auto rate = [&](const char* name, const char* key, double factor, int digits,
                        const char* of) {
    row(name, factor * number_at(a, key), factor * number_at(b, key), digits, of);
  };
  if (view.has_times) {
    rate("tokens", "tokens_per_second", 1, 0, "/s");
    rate("MFU", "model_flops_share", 100, 1, "%");
    rate("HFU", "hardware_flops_share", 100, 1, "%");
  }
  constexpr double kGibibyte = 1073741824.0;
  const auto bytes = [&](const char* name, const PlanJson& x, const PlanJson& y, const char* key) {
    row(name, number_at(x, key) / kGibibyte, number_at(y, key) / kGibibyte, 2, "GiB");
  };
  bytes("memory of the fullest rank", a["memory"]["fullest"], b["memory"]["fullest"], "bytes");
  bytes("sent by a rank in its node", a["traffic"], b["traffic"], "node");
  bytes("sent by a rank to other nodes", a["traffic"], b["traffic"], "fabric");
  return "  A  " + word_at(a, "layout_text") + "\n  B  " + word_at(b, "layout_text") + "\n" +
         table.text("  ");
}

std::string compare_json(const std::string& name_a, const PlanJson& a, const std::string& name_b,
                         const PlanJson& b) {
  PlanJson object;
  object[name_a] = a;
  object[name_b] = b;
  object["difference_seconds"] = number_at(b, "step_seconds") - number_at(a, "step_seconds");
  return object.dump();
}

std::string why_not_text(const std::string& layout, const Planned& free, const Planned& pinned,
                         const PlanView& view) {
  const PlanJson& candidate = pinned.candidates[0];
  std::string text = "Why not " + layout + "?\n";
  if (!pinned.has_feasible()) {
    const double best = free.has_feasible() ? number_at(free.candidates[0], "step_seconds") : 0;
    text += "It can't be run: " + word_at(candidate, "layout_text") + "\n";
    return text + reasons_text(candidate, view, best);
  }
  if (!free.has_feasible()) return text + "It is the only one that can be run.";
  const int64_t place = place_in(free, candidate);
  if (place == 1) return text + "It is the first.";
  const double slower = slower_by(free, candidate);
  text += place > 0 ? "It is number " + counted(place)
                    : "It is none of the best " + counted(feasible_count(free));
  text += slower >= 0 ? ", " + percent(slower) + " % slower than the first"
                      : ", yet " + percent(-slower) +
                            " % faster than the first: the search does not try such layouts";
  text += is_tie(free, candidate) ? ": a tie, within half the band. Measure both (--compare).\n"
                                  : ".\n";
  return text + compare_text(free.candidates[0], candidate, view);
}

std::string why_not_json(const std::string& layout, const Planned& free, const Planned& pinned) {
  const PlanJson& candidate = pinned.candidates[0];
  PlanJson object;
  object["layout"] = layout;
  const bool is_ranked = pinned.has_feasible() && free.has_feasible();
  object["place"] = nullptr;
  object["is_tie"] = nullptr;
  if (is_ranked) {
    if (const int64_t place = place_in(free, candidate); place > 0) object["place"] = place;
    object["is_tie"] = is_tie(free, candidate);
  }
  object["candidate"] = candidate;
  object["first"] = free.has_feasible() ? free.candidates[0] : PlanJson();
  return PlanJson{{"why_not", object}}.dump();
}

}  // namespace plait::cli

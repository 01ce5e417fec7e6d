// What stands above and below the tables of a plan: one candidate in detail, a whole run, what was
// rejected.
#include <algorithm>
#include <cmath>

#include "bindings/cli/plan_table.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

constexpr int64_t kMostReasons = 8;
constexpr size_t kWidth = 88;  // of a text behind its label
constexpr size_t kLabel = 12;

/// "  forward      12.31 s   29.9 %  remark"
void add_part(TextTable* table, const std::string& name, double seconds, double step,
              const std::string& remark) {
  table->add({name, step_time(seconds), percent(seconds / step) + " %", remark});
}

std::string parts_text(const PlanJson& candidate) {
  const PlanJson& parts = candidate["parts"];
  const double step = number_at(candidate, "step_seconds");
  TextTable table(
      {{"part", TextTable::Align::kLeft}, {"time"}, {"share"}, {"", TextTable::Align::kLeft}});
  const auto part = [&](const char* name) { return number_at(parts, name); };
  add_part(&table, "forward", part("forward"), step, "");
  const double replay = part("replay");
  add_part(&table, "backward", part("backward"), step,
           replay > 0 ? step_time(replay) + " of it runs layers again" : "");
  add_part(&table, "tensor", part("tensor"), step, "sums inside layers that nothing hides");
  add_part(&table, "pipeline", part("pipeline"), step, "waiting for tensors on their way");
  add_part(&table, "data", part("data_axis"), step, "gradients and weights between replicas");
  if (part("tied") > 0) {
    add_part(&table, "tied", part("tied"), step, "the embedding that first and last stage share");
  }
  add_part(&table, "optimizer", part("optimizer"), step, "");
  add_part(&table, "bubble", part("bubble"), step,
           "waiting for other stages; (p - 1)/(v m) is " +
               percent(number_at(candidate, "ideal_bubble_share")) + " %");
  add_part(&table, "other", part("host"), step, "of the host, once a step");
  return "\n\nOne step of " + step_time(step) + ", on the coordinate that computes longest\n" +
         table.text("  ");
}

std::string memory_text(const PlanJson& candidate) {
  const PlanJson &memory = candidate["memory"], &fullest = memory["fullest"];
  const PlanJson& row = memory["coordinates"][fullest["coordinate"].get<size_t>()];
  std::string text = "Memory of rank " + fullest["rank"].dump() + ", the fullest: ";
  for (const char* category :
       {"weights", "gradients", "optimizer", "activations", "communication", "workspace"}) {
    const std::string name = category;
    text += name + " " + gibibytes(number_at(row, (name + "_bytes").c_str())) + ", ";
  }
  text += "together " + gibibytes(number_at(fullest, "bytes")) + " of " +
          gibibytes(number_at(memory, "limit_bytes")) + " GiB";
  return "\n\n" + wrapped(text, kWidth + kLabel, "  ");
}

std::string wires_text(const PlanJson& candidate) {
  double tensor = 0, pipeline = 0, data = 0;
  for (const PlanJson& rank : candidate["traffic"]["ranks"]) {
    tensor = std::max(tensor, number_at(rank["tensor"], "total"));
    pipeline = std::max(pipeline, number_at(rank["pipeline"], "total"));
    data = std::max(data, number_at(rank["data"], "total"));
  }
  return "\nSent by a rank in a step, at most: tensor axis " + byte_size(tensor) +
         ", pipeline axis " + byte_size(pipeline) + ", data axis " + byte_size(data);
}

std::string stages_text(const PlanJson& candidate) {
  double least = INFINITY, most = 0;
  for (const PlanJson& stage : candidate["stages"]) {
    const double seconds = number_at(stage, "forward") + number_at(stage, "backward");
    least = std::min(least, seconds);
    most = std::max(most, seconds);
  }
  if (candidate["stages"].size() < 2) return "";
  return "\nForward and backward of a micro-batch take a stage " + step_time(least) + " to " +
         step_time(most);
}

/// "120.1 TFLOP/s", or GFLOP/s where they are few.
std::string rate_text(double flops) {
  return flops < 1e12 ? rounded(flops / 1e9) + " GFLOP/s" : rounded(flops / 1e12) + " TFLOP/s";
}

std::string rates_text(const PlanJson& candidate) {
  const PlanJson& rates = candidate["flops_per_device_second"];
  return "\nEach device does " + rate_text(number_at(rates, "model")) +
         " by the convention model, " + rate_text(number_at(rates, "causal")) + " causal, " +
         rate_text(number_at(rates, "hardware")) + " hardware";
}

/// What a fix changes and what it costs.
std::string fix_text(const PlanJson& fix, const PlanView& view, double best_seconds) {
  std::string text =
      word_at(fix, "change") + ": " + gibibytes(number_at(fix, "memory_bytes")) + " GiB, step ";
  const double seconds = number_at(fix, "step_seconds");
  if (view.has_times) text += step_time(seconds);
  if (best_seconds > 0) {
    text += (view.has_times ? ", " : "") + fixed(seconds / best_seconds, 2) + " times the best";
  }
  return best_seconds > 0 || view.has_times ? text : text + "not compared";
}

std::string rules_of(const PlanJson& candidate) {
  std::string text;
  for (const PlanJson& violation : candidate["violations"]) {
    text += (text.empty() ? "" : " + ") + word_at(violation, "rule");
  }
  return text;
}

std::string rejected_text(const Planned& planned, const PlanView& view) {
  const double best = planned.has_feasible() ? number_at(planned.candidates[0], "step_seconds") : 0;
  const std::string indent(kLabel, ' ');
  int64_t shown = 0, left = 0;
  std::string text = "\n\nRejected, by reason; of each the layout that is nearest to the best";
  for (const PlanJson& one : planned.candidates) {
    if (one["is_feasible"].get<bool>()) continue;
    if (++shown > kMostReasons) {
      ++left;
      continue;
    }
    const int64_t count = one["count"];
    std::string head = counted(count);
    head.insert(0, kLabel - 2 - std::min(kLabel - 2, head.size()), ' ');
    text += "\n" + head + "  " + rules_of(one) + (count == 1 ? "" : ", as in") + "\n" + indent +
            word_at(one, "layout_text");
    for (const PlanJson& violation : one["violations"]) {
      text += "\n" + indent + wrapped(word_at(violation, "sentence"), kWidth, indent);
    }
    if (!one["fixes"].empty()) {
      text += "\n" + indent + "would do: " + fix_text(one["fixes"][0], view, best);
    }
  }
  if (shown == 0) return "";
  if (left > 0) text += "\n" + indent + "and " + counted(left) + " more reasons; --json shows all";
  return text;
}

}  // namespace

std::string labelled(const std::string& label, const std::string& text) {
  std::string head = label;
  head.resize(std::max(label.size() + 2, kLabel), ' ');
  return head + wrapped(text, kWidth, std::string(kLabel, ' ')) + "\n";
}

std::string joined(const PlanJson& list, const char* between) {
  std::string text;
  for (const PlanJson& one : list) {
    text += (text.empty() ? "" : between) + one.get<std::string>();
  }
  return text;
}

std::string plan_detail(const PlanJson& candidate) {
  return parts_text(candidate) + stages_text(candidate) + rates_text(candidate) +
         memory_text(candidate) + wires_text(candidate);
}

std::string plan_run(const PlanJson& candidate, double epochs) {
  const PlanJson run = candidate.value("run", PlanJson());
  if (!run.is_object()) return "";
  const double tokens = number_at(run, "tokens"), steps = number_at(run, "steps");
  std::string text = "\n\nThe whole run with the first layout\n";
  text += labelled(
      "tokens", counted(std::llround(tokens)) + " in " + counted(std::llround(steps)) + " steps" +
                    (epochs > 0 ? ", " + rounded(epochs, 3) + " epochs of data.train" : ""));
  if (epochs > 1) text += labelled("", "more than one epoch: tokens are seen again");
  const std::string allowance = rounded(number_at(run, "per_device_hour"), 3) +
                                " failures per device-hour, " +
                                duration(number_at(run, "detect_seconds")) + " to notice one, " +
                                duration(number_at(run, "restart_seconds")) + " to start again";
  if (!run["does_finish"].get<bool>()) {
    text += labelled("time", fixed(steps * number_at(candidate, "step_seconds") / 86400, 1) +
                                 " days of steps, if nothing failed");
    text += labelled("failures", allowance +
                                     ": they come faster than they are made good, so that "
                                     "the run never ends; change " +
                                     word_at(run, "number_to_change"));
    text.pop_back();
    return text;
  }
  text += labelled("time", fixed(number_at(run, "useful_seconds") / 86400, 1) +
                               " days of steps, saves and evaluations; " +
                               fixed(number_at(run, "wall_seconds") / 86400, 1) +
                               " days with failures, of which " +
                               percent(number_at(run, "goodput")) + " % are of use");
  text += labelled("failures", allowance + ": " + rounded(number_at(run, "failures"), 3) +
                                   " in the run, each costs " +
                                   duration(number_at(run, "failure_seconds")));
  const auto every = static_cast<int64_t>(number_at(run, "save_every"));
  const auto best = static_cast<int64_t>(std::llround(number_at(run, "best_save_every")));
  text += labelled(
      "saves",
      (every > 0 ? "every " + counted(every) + " steps" : "none, since run.save_every is 0") +
          ", each of " + byte_size(number_at(run, "checkpoint_bytes")) +
          (best > 0 ? "; best every " + counted(best) + " steps"
                    : "; beside training they cost next to nothing, so the more often the better"));
  text += labelled(
      "devices", counted(std::llround(number_at(run, "device_hours"))) + " device-hours" +
                     (run.contains("cost")
                          ? ", at the given price " + counted(std::llround(number_at(run, "cost")))
                          : ""));
  text.pop_back();
  return text;
}

std::string plan_footer(const Planned& planned, const PlanView& view) {
  const PlanJson& search = planned.candidates[0]["search"];
  const auto count = [&](const char* name) {
    return counted(static_cast<int64_t>(number_at(search, name)));
  };
  std::string text = rejected_text(planned, view);
  text += "\n\n" + count("tried") + " layouts looked at: " + count("rejected") + " rejected, " +
          count("simulated") + " simulated, " + count("skipped") +
          " fit but are slower than those above";
  const auto smallest = static_cast<int64_t>(number_at(search, "smallest_world"));
  if (smallest > 0) text += "\nthe smallest number of ranks that would do is " + counted(smallest);
  if (!planned.has_feasible()) return text;
  for (const PlanJson& warning : planned.candidates[0]["warnings"]) {
    text += "\nwarning: " + warning.get<std::string>();
  }
  return text +
         "\nA share of the peak belongs to this model, batch and layout alone. Slow devices, heat, "
         "other jobs\non the network and slow data are not modelled, nor is how well the model "
         "learns.";
}

std::string reasons_text(const PlanJson& candidate, const PlanView& view, double best_seconds) {
  TextTable table({{"rule", TextTable::Align::kLeft}, {"why", TextTable::Align::kLeft}});
  for (const PlanJson& violation : candidate["violations"]) {
    table.add({word_at(violation, "rule"), word_at(violation, "sentence")});
  }
  std::string text = table.text("  ");
  for (const PlanJson& fix : candidate["fixes"]) {
    text += "\n  would do  " + fix_text(fix, view, best_seconds);
  }
  if (candidate["fixes"].empty()) return text + "\n  no change of one or two keys would do";
  std::string settings;
  const PlanJson& fix = candidate["fixes"][0];
  for (const auto& [key, value] : fix["layout"].items()) {
    const std::string shown = value.is_string() ? value.get<std::string>() : value.dump();
    const bool is_degree = key == "layout.tensor" || key == "layout.pipeline" ||
                           key == "layout.data" || key == "layout.micro_batch";
    if (is_degree || candidate["layout"][key] != value) settings += " --set " + key + "=" + shown;
  }
  if (fix.contains("global_batch")) {
    settings += " --set train.global_batch=" + fix["global_batch"].dump();
  }
  return text + "\n  the first as options of train:" + settings;
}

}  // namespace plait::cli

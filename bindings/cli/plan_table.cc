#include "bindings/cli/plan_table.h"

#include <algorithm>
#include <cmath>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

using Align = TextTable::Align;

/// Which kinds of sources a text of provenance names.
std::string source_kinds(const std::string& text) {
  std::string kinds;
  for (const char* kind : {"measured", "fitted", "data sheet", "chosen", "assumed"}) {
    if (text.find(kind) == std::string::npos) continue;
    kinds += (kinds.empty() ? "" : "/") + std::string(kind);
  }
  return kinds.empty() ? "given" : kinds;
}

/// Where the numbers that decide a step come from.
std::string sources_text(const PlanJson& hardware) {
  std::string text;
  const PlanJson provenance = hardware.value("provenance", PlanJson::object());
  for (const char* group :
       {"device", "matmul", "stream", "attention", "collectives", "transfers", "overheads"}) {
    const std::string source = word_at(provenance, group);
    if (source.empty()) continue;
    text += (text.empty() ? "" : ", ") + std::string(group) + " " + source_kinds(source);
  }
  return text;
}

std::string hardware_text(const PlanJson& hardware) {
  std::string text = word_at(hardware, "name");
  if (text.empty()) text = "without a name";
  const std::string model = word_at(hardware, "model");
  text += model.empty() ? "" : " (" + model + ")";
  text += ", " + counted(hardware.value("node_devices", int64_t{1})) + " ranks a node, peak " +
          rounded(number_at(hardware, "peak_flops_per_second") / 1e12) + " TFLOP/s a device";
  return text;
}

std::string band_text(const PlanJson& candidate) {
  const PlanJson& band = candidate["band"];
  std::string text = "± " + fixed(100 * number_at(band, "relative"), 0) + " %";
  const std::string reasons = joined(band["reasons"], "; ");
  if (!reasons.empty()) text += ": " + reasons;
  return text;
}

std::string recompute_word(const PlanJson& layout) {
  const std::string kind = layout["layout.recompute"];
  const int64_t run = layout["layout.recompute_layers"];
  return kind == "full" && run > 1 ? kind + "/" + std::to_string(run) : kind;
}

std::string key_text(const PlanJson& layout, const char* key) { return layout[key].dump(); }

/// Number and mark of a row.
std::vector<std::string> row_head(const PlanJson& candidate, size_t index) {
  return {std::to_string(index + 1), candidate["is_tie"].get<bool>() ? "=" : ""};
}

void append(std::vector<std::string>* row, std::initializer_list<std::string> cells) {
  row->insert(row->end(), cells);
}

std::string layouts_table(const Planned& planned, const PlanView& view) {
  const double best = number_at(planned.candidates[0], "step_seconds");
  const bool is_short = best < 1;
  TextTable table({{"", Align::kRight},
                   {"", Align::kLeft},
                   {"t"},
                   {"p"},
                   {"d"},
                   {"v"},
                   {"b"},
                   {"recompute", Align::kLeft},
                   {"SP", Align::kLeft},
                   {"ZeRO"},
                   {"schedule", Align::kLeft},
                   {"to best"},
                   {is_short ? "step ms" : "step s"},
                   {"tokens/s"},
                   {"model TF"},
                   {"hardware TF"},
                   {"MFU %"},
                   {"HFU %"},
                   {"days"},
                   {"device-hours"}});
  for (size_t i = 0; i < static_cast<size_t>(view.rows); ++i) {
    const PlanJson& one = planned.candidates[i];
    const PlanJson &layout = one["layout"], &rates = one["flops_per_device_second"];
    const double seconds = number_at(one, "step_seconds");
    std::vector<std::string> row = row_head(one, i);
    for (const char* key : {"layout.tensor", "layout.pipeline", "layout.data", "layout.interleave",
                            "layout.micro_batch"}) {
      row.push_back(key_text(layout, key));
    }
    append(&row, {recompute_word(layout), layout["layout.sequence_parallel"] == true ? "on" : "-",
                  key_text(layout, "layout.zero"), schedule_word(layout)});
    if (!view.has_times) {
      append(&row, {fixed(seconds / best, 3), "", "", "", "", "", "", "", ""});
    } else {
      append(&row, {"", fixed(is_short ? 1000 * seconds : seconds, best < 0.1 || best >= 1 ? 2 : 1),
                    counted(std::llround(number_at(one, "tokens_per_second"))),
                    fixed(number_at(rates, "model") / 1e12, 1),
                    fixed(number_at(rates, "hardware") / 1e12, 1),
                    percent(number_at(one, "model_flops_share")),
                    percent(number_at(one, "hardware_flops_share"))});
      const PlanJson run = one.value("run", PlanJson());
      const bool is_known = run.is_object() && run["does_finish"].get<bool>();
      append(&row, {is_known ? fixed(number_at(run, "wall_seconds") / 86400, 1) : "",
                    is_known ? counted(std::llround(number_at(run, "device_hours"))) : ""});
    }
    table.add(std::move(row));
  }
  return table.text();
}

std::string shares_table(const Planned& planned, const PlanView& view) {
  TextTable table({{"", Align::kRight},
                   {"", Align::kLeft},
                   {"forward"},
                   {"backward"},
                   {"tensor"},
                   {"pipeline"},
                   {"data"},
                   {"optimizer"},
                   {"bubble"},
                   {"ideal"},
                   {"other"}});
  for (size_t i = 0; i < static_cast<size_t>(view.rows); ++i) {
    const PlanJson& one = planned.candidates[i];
    const PlanJson& parts = one["parts"];
    const double step = number_at(one, "step_seconds");
    const auto share = [&](const char* part) { return percent(number_at(parts, part) / step); };
    std::vector<std::string> row = row_head(one, i);
    append(&row, {share("forward"), share("backward"), share("tensor"), share("pipeline"),
                  percent((number_at(parts, "data_axis") + number_at(parts, "tied")) / step),
                  share("optimizer"), share("bubble"),
                  percent(number_at(one, "ideal_bubble_share")), share("host")});
    table.add(std::move(row));
  }
  return table.text();
}

std::string memory_table(const Planned& planned, const PlanView& view) {
  TextTable table({{"", Align::kRight},
                   {"", Align::kLeft},
                   {"peak GiB"},
                   {"free GiB"},
                   {"on rank"},
                   {"most of it", Align::kLeft},
                   {"sent in nodes GiB"},
                   {"between nodes GiB"}});
  for (size_t i = 0; i < static_cast<size_t>(view.rows); ++i) {
    const PlanJson& one = planned.candidates[i];
    const PlanJson &fullest = one["memory"]["fullest"], &traffic = one["traffic"];
    std::vector<std::string> row = row_head(one, i);
    append(&row,
           {gibibytes(number_at(fullest, "bytes")), gibibytes(number_at(fullest, "headroom_bytes")),
            fullest["rank"].dump(), word_at(fullest, "category"),
            gibibytes(number_at(traffic, "node")), gibibytes(number_at(traffic, "fabric"))});
    table.add(std::move(row));
  }
  return table.text();
}

}  // namespace

std::string step_time(double seconds) {
  return seconds < 1 ? rounded(1000 * seconds) + " ms"
                     : fixed(seconds, seconds < 100 ? 2 : 1) + " s";
}

std::string percent(double share) { return fixed(100 * share, 1); }

std::string gibibytes(double bytes) {
  const double value = bytes / 1073741824.0;
  return fixed(value, std::abs(value) < 1 ? 3 : 1);
}

std::string schedule_word(const PlanJson& layout) {
  std::string text = layout["layout.schedule"];
  if (text == "one_forward_one_backward") text = "1f1b";
  return text + (layout["layout.stage_layers"].empty() ? "" : ", uneven");
}

std::string plan_header(const PlanJson& first, const PlanView& view) {
  const PlanJson& job = first["job"];
  const double parameters = number_at(job, "parameters");
  std::string text =
      labelled("model", (parameters < 1e9 ? rounded(parameters / 1e6) + " million"
                                          : rounded(parameters / 1e9) + " billion") +
                            " parameters, " + word_at(job, "compute") + "; a step is " +
                            counted(job["global_batch"].get<int64_t>()) + " sequences of " +
                            counted(job["sequence_length"].get<int64_t>()) + " tokens");
  text += labelled(
      "ranks", counted(job["world"].get<int64_t>()) + " on " + hardware_text(first["hardware"]));
  text += labelled("numbers", sources_text(first["hardware"]));
  text += labelled("software", word_at(job, "profile"));
  text += labelled("band", band_text(first));
  if (view.has_times) {
    text += labelled("rates",
                     "TF are TFLOP/s of one device. model: three times the forward pass, without "
                     "what is run again; hardware: with it. MFU and HFU are their shares of the "
                     "peak.");
  } else {
    text += labelled("times",
                     "left out, since nothing was measured here: only the order of layouts is "
                     "meant. --uncalibrated shows them; --calibrate makes them good.");
  }
  return text;
}

std::string plan_tables(const Planned& planned, const PlanView& view) {
  int64_t ties = 0;
  for (const PlanJson& one : planned.candidates) ties += one["is_tie"].get<bool>() ? 1 : 0;
  std::string text =
      "\nLayouts, best first: tensor t, pipeline p, data d, interleave v, micro-batch b\n" +
      layouts_table(planned, view);
  if (ties > 0) {
    text += "\n=  " + counted(ties) +
            " layouts are within half the band of the best, which is a tie: measure them "
            "(--compare)";
    text += ties > view.rows ? "; --json shows all" : "";
  }
  text +=
      "\n\nWhere the time of a step goes, in %; tensor, pipeline, data: communication that is not "
      "hidden\n" +
      shares_table(planned, view);
  text += "\n\nMemory of the fullest rank, and what a rank sends in a step, on average\n" +
          memory_table(planned, view);
  return text;
}

}  // namespace plait::cli

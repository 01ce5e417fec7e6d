#include "bindings/cli/plan_page.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include "bindings/cli/plan_table.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

using TraceJson = nlohmann::json;

/// Browsers are slow with more events than this.
constexpr double kMostEvents = 600000;

/// What an instruction does, in the numbering of the script.
int kind_of(std::string_view name) {
  constexpr std::pair<std::string_view, int> kKinds[] = {
      {"forward ", 0},  {"backward_input ", 2}, {"backward_weight ", 3},
      {"backward ", 1}, {"receive ", 4},        {"send ", 5},
      {"gather ", 6},   {"reduce ", 7},         {"step", 8}};
  for (const auto& [begin, kind] : kKinds) {
    if (name.starts_with(begin)) return kind;
  }
  return 5;
}

struct PageLane {
  std::string name;
  bool is_link = false;
  std::string events;  ///< numbers separated by commas
  int64_t end = 0;     ///< of the last event, in microseconds
};

/// "rank 24 (tensor 0 pipeline 3 data 0)" as "pipeline 3", "activations from pipeline 3 to 4" as
/// "3 → 4".
PageLane make_lane(const std::string& name) {
  const size_t from = name.find("pipeline ");
  std::string text = name.substr(std::min(from, name.size()));
  if (name.starts_with("rank ")) return {text.substr(0, text.find(" data")), false, "", 0};
  text = text.substr(std::min(text.size(), std::string_view("pipeline ").size()));
  const size_t to = text.find(" to ");
  if (to != std::string::npos) text.replace(to, 4, " → ");
  return {text, true, "", 0};
}

/// The lanes of a Chrome trace up to a moment. Events are taken as the text is read, since all of
/// them at once would take much more memory than their text.
class TraceReader {
 public:
  TraceReader(const std::string& timeline, double last_microsecond) : last_(last_microsecond) {
    const auto filter = [this](int depth, TraceJson::parse_event_t event, TraceJson& parsed) {
      constexpr int kDepthOfEvents = 2;
      if (depth != kDepthOfEvents || event != TraceJson::parse_event_t::object_end) return true;
      take(parsed);
      return false;
    };
    const TraceJson rest = TraceJson::parse(timeline, filter);
  }

  std::string lanes_json() const {
    std::string text;
    for (const auto& [number, lane] : lanes_) {
      text += (text.empty() ? "[{\"name\":" : ",\n{\"name\":") + json_text(lane.name) +
              ",\"isLink\":" + (lane.is_link ? "true" : "false") + ",\"events\":[" + lane.events +
              "]}";
    }
    return text + "]";
  }
  int64_t end() const { return end_; }

 private:
  void take(const TraceJson& event) {
    const std::string phase = event.value("ph", "");
    if (phase == "M" && event["name"] == "thread_name") {
      lanes_[event["tid"].get<int64_t>()] = make_lane(event["args"]["name"].get<std::string>());
    }
    if (phase == "X" && event["ts"].get<double>() <= last_) add(event);
  }

  void add(const TraceJson& event) {
    const double at = event["ts"].get<double>(), seconds = event["dur"].get<double>();
    const int64_t begin = std::llround(at), end = std::llround(at + seconds);
    PageLane& lane = lanes_[event["tid"].get<int64_t>()];
    lane.events += (lane.events.empty() ? "" : ",") + std::to_string(begin - lane.end) + "," +
                   std::to_string(end - begin) + "," +
                   std::to_string(kind_of(event["name"].get<std::string>())) + "," +
                   event["args"]["micro"].dump() + "," + event["args"]["stage"].dump();
    lane.end = end;
    end_ = std::max(end_, end);
  }

  double last_;
  std::map<int64_t, PageLane> lanes_;
  int64_t end_ = 0;
};

/// Text of a page: no character of it opens a tag or an entity.
std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    out += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
  }
  return out;
}

std::string table_row(const std::string& name, const std::string& value, const std::string& more) {
  return "<tr><td>" + name + "</td><td class=\"n\">" + value + "</td><td>" + more + "</td></tr>\n";
}

/// A bar as long as its share of the step.
std::string share_bar(double share) {
  return "<span class=\"bar\" style=\"width:" + fixed(200 * share, 1) + "px\"></span> " +
         percent(share) + " %";
}

std::string parts_table(const PlanJson& candidate) {
  const double step = number_at(candidate, "step_seconds");
  const PlanJson& parts = candidate["parts"];
  const std::pair<const char*, const char*> kRows[] = {
      {"forward", "forward"},
      {"backward", "backward"},
      {"tensor axis, not hidden", "tensor"},
      {"pipeline axis, not hidden", "pipeline"},
      {"data axis, not hidden", "data_axis"},
      {"tied embedding", "tied"},
      {"optimizer", "optimizer"},
      {"bubble: waiting for other stages", "bubble"},
      {"other, once a step", "host"}};
  std::string text = "<table>\n" + table_row("<b>step</b>", "<b>" + step_time(step) + "</b>", "");
  for (const auto& [name, key] : kRows) {
    const double seconds = number_at(parts, key);
    if (seconds > 0) text += table_row(name, step_time(seconds), share_bar(seconds / step));
  }
  return text + "</table>\n";
}

std::string facts_table(const PlanJson& candidate) {
  const PlanJson &job = candidate["job"], &fullest = candidate["memory"]["fullest"];
  const PlanJson& band = candidate["band"];
  std::string text = "<table>\n";
  text += table_row("layout", "", escaped(word_at(candidate, "layout_text")));
  text += table_row("ranks", counted(job["world"].get<int64_t>()),
                    "on " + escaped(word_at(candidate["hardware"], "name")));
  text += table_row("micro-batches", counted(job["micro_batches"].get<int64_t>()),
                    "of a step, in each pipeline");
  text += table_row("tokens", counted(std::llround(number_at(candidate, "tokens_per_second"))),
                    "a second");
  text += table_row("bubble", percent(number_at(candidate, "bubble_share")) + " %",
                    "of the step; (p − 1)/(v·m) is " +
                        percent(number_at(candidate, "ideal_bubble_share")) + " %");
  text += table_row("memory", gibibytes(number_at(fullest, "bytes")) + " GiB",
                    "on the fullest ranks, of pipeline " + fullest["coordinate"].dump());
  text += table_row("band", "± " + percent(number_at(band, "relative")) + " %",
                    escaped(joined(band["reasons"], "; ")));
  return text + "</table>\n";
}

/// Bytes of each coordinate: those that stay, and those of saved state at its most.
std::string memory_json(const PlanJson& candidate) {
  PlanJson list = PlanJson::array();
  for (const PlanJson& one : candidate["memory"]["coordinates"]) {
    const double activations = number_at(one, "activations_bytes");
    list.push_back(
        {{"fixed", number_at(one, "total_bytes") - activations}, {"activations", activations}});
  }
  return list.dump();
}

constexpr const char* kStyle = R"css(
:root { color-scheme: light dark; }
body { font: 14px/1.45 system-ui, sans-serif; margin: 1.2em auto; max-width: 1500px; padding: 0 1em; }
h1 { font-size: 1.3em; margin: 0 0 .3em; } h2 { font-size: 1.05em; margin: 1.2em 0 .2em; }
canvas { width: 100%; display: block; touch-action: none; cursor: grab; }
table { border-collapse: collapse; } td { padding: .1em .8em .1em 0; vertical-align: top; }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.side { display: flex; flex-wrap: wrap; gap: 0 4em; }
.bar { display: inline-block; height: .75em; background: hsl(212,60%,55%); vertical-align: baseline; }
.key { display: inline-block; width: .9em; height: .9em; margin: 0 .3em 0 1em; vertical-align: -.1em; }
#tip { min-height: 1.5em; } button { font: inherit; margin-right: .3em; }
)css";

constexpr const char* kBody = R"html(
<h2>Passes of each pipeline coordinate</h2>
<p>All ranks of a coordinate do the same at the same time. Time runs to the right; the empty grey is
idle: the bubble where a pipeline fills and drains, elsewhere waiting for a tensor.
<span class="key" style="background:hsl(212,60%,55%)"></span>forward
<span class="key" style="background:hsl(24,72%,55%)"></span>backward
<span class="key" style="background:hsl(48,70%,55%)"></span>its weight gradients, where they come apart
<span class="key" style="background:hsl(150,45%,42%)"></span>optimizer
<span class="key" style="background:hsl(285,38%,55%)"></span>sums over replicas
<span class="key" style="background:rgba(160,100,190,0.4)"></span>waiting until a link takes the next
tensor. A lighter tone is a later chunk of layers. Far away the height of a colour is its share of the time.</p>
<p><button id="whole">whole step</button><button id="begin">fill</button><button id="end">drain</button><button
id="closer">closer</button><button id="further">further</button> or turn the wheel and drag.</p>
<div id="tip">Point at something.</div>
<canvas id="lanes"></canvas>
<div id="wires"><h2>Messages between coordinates</h2>
<p>Numbers are micro-batches. First activations, then gradients.</p>
<canvas id="links"></canvas></div>
<h2>Memory of a rank of each coordinate</h2>
<p>Weights, gradients, optimizer and buffers stay; saved state comes with each forward pass and goes with
its backward pass. From blue, the first coordinate, to orange, the last.</p>
<canvas id="memory"></canvas>
<noscript><p><b>The pictures need scripts; the tables above do not.</b></p></noscript>
)html";

}  // namespace

std::string plan_page(const PlanJson& candidate, const std::string& timeline) {
  const double step = number_at(candidate, "step_seconds");
  const PlanJson& layout = candidate["layout"];
  const double passes = number_at(candidate["job"], "micro_batches") *
                        static_cast<double>(candidate["stages"].size());
  constexpr double kEventsOfPass = 4;  // forward, backward, and what each sends
  const double shown = std::min(1.0, kMostEvents / (kEventsOfPass * passes));
  const TraceReader trace(timeline, shown < 1 ? shown * step * 1e6 : INFINITY);
  const std::string title = "plait plan: a step of " + word_at(candidate, "layout_text");
  std::string page = "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n<title>" +
                     escaped(title) + "</title>\n<style>" + kStyle + "</style></head><body>\n<h1>" +
                     "One step as the planner sees it</h1>\n";
  if (!candidate["band"]["is_calibrated"].get<bool>()) {
    page +=
        "<p>Nothing was measured on this hardware: times are assumed, proportions less so.</p>\n";
  }
  if (shown < 1) {
    page += "<p>The step is long: the first " + percent(shown) + " % of it are drawn.</p>\n";
  }
  page += "<div class=\"side\">" + facts_table(candidate) + parts_table(candidate) + "</div>\n";
  page += kBody;
  page += "<script type=\"application/json\" id=\"data\">{\"end\":" + std::to_string(trace.end()) +
          ",\"pipeline\":" + layout["layout.pipeline"].dump() +
          ",\"chunks\":" + layout["layout.interleave"].dump() +
          ",\"limit\":" + json_number(number_at(candidate["memory"], "limit_bytes")) +
          ",\n\"memory\":" + memory_json(candidate) + ",\n\"lanes\":" + trace.lanes_json() +
          "}</script>\n<script>" + kPlanPageScript + "</script>\n</body></html>\n";
  return page;
}

}  // namespace plait::cli

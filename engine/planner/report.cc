#include "engine/planner/report.h"

#include <string_view>

#include "engine/config/checks.h"
#include "engine/planner/layout_keys.h"
#include "engine/planner/run_time.h"
#include "engine/planner/schedule_grid.h"
#include "engine/planner/traffic.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

std::string text_list(const std::vector<std::string>& texts) {
  JsonArray list;
  for (const std::string& text : texts) list.add(json_string(text));
  return list.text();
}

/// Keys with their values, as a configuration has them.
std::string layout_object(const LayoutConfig& layout) {
  JsonObject object;
  for (const auto& [key, value] : layout_keys(layout)) {
    const bool is_word = key == "layout.schedule" || key == "layout.recompute";
    object.raw(key, is_word ? json_string(value) : value);
  }
  return object.text();
}

std::string job_object(const Job& job, const LayoutConfig& layout, bool keeps_rules) {
  JsonObject object;
  object.field("world", job.world)
      .field("global_batch", job.train.global_batch)
      .field("sequence_length", job.train.sequence_length)
      .field("tokens_per_step", job.step_tokens())
      .field("parameters", count_parameters(job.model))
      .field("compute", dtype_name(job.precision.compute))
      .field("profile", job.profile.name);
  if (keeps_rules) object.field("micro_batches", micro_batches(job, layout));
  return object.text();
}

JsonObject parts_object(const StepParts& parts) {
  JsonObject object;
  object.field("forward", parts.forward)
      .field("backward", parts.backward)
      .field("replay", parts.replay)
      .field("communication", parts.communication())
      .field("tensor", parts.tensor)
      .field("pipeline", parts.pipeline)
      .field("data_axis", parts.data)
      .field("tied", parts.tied)
      .field("optimizer", parts.optimizer)
      .field("bubble", parts.bubble)
      .field("host", parts.host);
  return object;
}

std::string coordinates_list(const Estimate& estimate) {
  JsonArray list;
  for (size_t i = 0; i < estimate.coordinates.size(); ++i) {
    list.add(parts_object(estimate.coordinates[i]).field("coordinate", i).text());
  }
  return list.text();
}

std::string stages_list(const Job& job, const Estimate& estimate) {
  const std::vector<int64_t> layers = stage_layers(job.model, estimate.layout);
  JsonArray list;
  for (size_t i = 0; i < estimate.stages.size(); ++i) {
    const StageTimes& stage = estimate.stages[i];
    list.add(JsonObject()
                 .field("stage", i)
                 .field("layers", layers[i])
                 .field("forward", stage.price.forward)
                 .field("backward", stage.price.backward)
                 .field("backward_input", stage.price.backward_input)
                 .field("backward_weight", stage.price.backward_weight)
                 .field("replay", stage.replay)
                 .field("tensor_forward", stage.tensor_forward)
                 .field("tensor_backward", stage.tensor_backward)
                 .field("hop_forward", stage.hops.forward)
                 .field("hop_backward", stage.hops.backward)
                 .field("reduce", stage.data.reduce)
                 .field("gather", stage.data.gather_forward + stage.data.gather_backward +
                                      stage.data.gather_after)
                 .text());
  }
  return list.text();
}

std::string flops_object(const StepFlops& flops, double divisor) {
  return JsonObject()
      .field("model", flops.model / divisor)
      .field("causal", flops.causal / divisor)
      .field("hardware", flops.hardware / divisor)
      .text();
}

std::string axis_object(const AxisTraffic& axis) {
  return JsonObject()
      .field("all_reduce", axis.all_reduce)
      .field("reduce_scatter", axis.reduce_scatter)
      .field("all_gather", axis.all_gather)
      .field("broadcast", axis.broadcast)
      .field("send_receive", axis.send_receive)
      .field("total", axis.total())
      .text();
}

/// Rank at (0, π, 0).
int64_t first_rank(const LayoutConfig& layout, int64_t pipeline) {
  return layout.tensor * layout.data * pipeline;
}

std::string traffic_object(const Job& job, const LayoutConfig& layout) {
  JsonArray ranks;
  for (int64_t i = 0; i < layout.pipeline; ++i) {
    const RankTraffic traffic = rank_traffic(job, layout, first_rank(layout, i));
    ranks.add(JsonObject()
                  .field("rank", first_rank(layout, i))
                  .field("coordinate", i)
                  .raw("tensor", axis_object(traffic.tensor))
                  .raw("pipeline", axis_object(traffic.pipeline))
                  .raw("data", axis_object(traffic.data))
                  .text());
  }
  const LevelTraffic levels = level_traffic(job, layout);
  return JsonObject()
      .field("node", levels.node)
      .field("fabric", levels.fabric)
      .raw("ranks", ranks.text())
      .text();
}

std::string memory_object(const Job& job, const Estimate& estimate) {
  JsonArray coordinates;
  for (size_t i = 0; i < estimate.memory.size(); ++i) {
    const RankMemory& memory = estimate.memory[i];
    coordinates.add(JsonObject()
                        .field("coordinate", i)
                        .field("weights_bytes", memory.weights)
                        .field("gradients_bytes", memory.gradients)
                        .field("optimizer_bytes", memory.optimizer)
                        .field("activations_bytes", memory.activations)
                        .field("communication_bytes", memory.communication)
                        .field("workspace_bytes", memory.workspace)
                        .field("total_bytes", memory.total())
                        .text());
  }
  JsonObject object;
  object.field("limit_bytes", job.hardware.memory_limit())
      .field("device_bytes", job.hardware.memory_bytes)
      .field("reserve_bytes", job.hardware.reserve_bytes);
  if (!estimate.memory.empty()) {
    const RankMemory& fullest = estimate.memory[static_cast<size_t>(estimate.fullest)];
    object.raw("fullest",
               JsonObject()
                   .field("coordinate", estimate.fullest)
                   .field("rank", first_rank(estimate.layout, estimate.fullest))
                   .field("bytes", fullest.total())
                   .field("category", largest_category(fullest))
                   .field("headroom_bytes", job.hardware.memory_limit() - fullest.total())
                   .text());
  }
  return object.raw("coordinates", coordinates.text()).text();
}

std::string violations_list(const Candidate& candidate) {
  JsonArray list;
  for (const Violation& violation : candidate.violations) {
    list.add(JsonObject()
                 .field("rule", violation.word)
                 .field("sentence", violation.sentence)
                 .field("first", violation.first)
                 .field("second", violation.second)
                 .text());
  }
  return list.text();
}

std::string fixes_list(const Candidate& candidate) {
  JsonArray list;
  for (const Fix& fix : candidate.fixes) {
    JsonObject object;
    object.field("change", fix.text).raw("layout", layout_object(fix.layout));
    if (fix.global_batch > 0) object.field("global_batch", fix.global_batch);
    list.add(object.field("step_seconds", fix.step_seconds)
                 .field("memory_bytes", fix.memory_bytes)
                 .text());
  }
  return list.text();
}

std::string band_object(const Job& job) {
  const Band band = band_of(job);
  return JsonObject()
      .field("relative", band.relative)
      .field("is_calibrated", band.is_calibrated)
      .raw("reasons", text_list(band.reasons))
      .text();
}

std::string calibration_object(const Calibration& calibration) {
  return JsonObject()
      .field("profile", calibration.profile)
      .field("dtype", dtype_name(calibration.dtype))
      .field("data", calibration.data)
      .field("points", calibration.points)
      .raw("fitted", text_list(calibration.fitted))
      .field("rms", calibration.rms)
      .field("maximum", calibration.maximum)
      .field("p90_leave_one_out", calibration.p90_leave_one_out)
      .field("maximum_leave_one_out", calibration.maximum_leave_one_out)
      .field("largest_world", calibration.largest_world)
      .field("date", calibration.date)
      .field("version", calibration.version)
      .text();
}

std::string hardware_object(const Job& job) {
  const Hardware& hardware = job.hardware;
  JsonObject provenance;
  for (const auto& [group, text] : hardware.provenance) provenance.field(group, text);
  JsonObject object;
  object.field("name", hardware.name)
      .field("kind", hardware.kind)
      .field("model", hardware.model)
      .field("node_devices", hardware.node_devices)
      .field("node_adapters", hardware.node_adapters)
      .field("peak_flops_per_second", hardware.peak(job.precision.compute))
      .raw("provenance", provenance.text());
  if (hardware.calibration) {
    object.raw("calibration", calibration_object(*hardware.calibration));
  }
  return object.text();
}

/// Of the whole run. An evaluation costs what the forward passes of as many steps do.
std::string run_object(const Job& job, const Estimate& estimate) {
  const double passes = estimate.parts.forward + estimate.parts.backward;
  const double share = passes > 0 ? estimate.parts.forward / passes : 0;
  const RunTime run =
      run_time(job, estimate.step_seconds,
               share * estimate.step_seconds * static_cast<double>(job.evaluate_batches));
  const Failures& failures = job.hardware.failures;
  JsonObject object;
  object.field("tokens", job.tokens)
      .field("steps", run.steps)
      .field("does_finish", run.does_finish)
      .field("number_to_change", run.number_to_change)
      .field("useful_seconds", run.useful_seconds)
      .field("wall_seconds", run.wall_seconds)
      .field("goodput", run.goodput)
      .field("device_hours", run.device_hours)
      .field("failures", run.failures)
      .field("failure_seconds", run.failure_seconds)
      .field("checkpoint_bytes", run.checkpoint_bytes)
      .field("save_seconds", run.save_seconds)
      .field("save_every", job.save_every)
      .field("best_save_every", run.best_save_every)
      .field("per_device_hour", failures.per_device_hour)
      .field("detect_seconds", failures.detect_seconds)
      .field("restart_seconds", failures.restart_seconds);
  if (run.cost) object.field("cost", *run.cost);
  return object.text();
}

std::vector<std::string> assumptions_of(const Job& job) {
  std::vector<std::string> all = {
      "ranks of one pipeline coordinate take the same time; slow devices, heat and other jobs on "
      "the network are not modelled",
      "tokens are there before a step needs them"};
  for (const auto& [group, text] : job.hardware.provenance) {
    if (text.find("assumed") == std::string::npos) continue;
    all.push_back("hardware." + group + ": " + text);
  }
  if (std::string_view(job.profile.name) != "plait") {
    all.push_back(
        "steps are those of " + std::string(job.profile.name) +
        "; memory is judged by rules for engines that allocate as they go, bytes on wires "
        "are those of this engine");
  }
  return all;
}

std::string search_object(const SearchResult& result) {
  return JsonObject()
      .field("tried", result.tried)
      .field("rejected", result.rejected)
      .field("simulated", result.simulated)
      .field("skipped", result.skipped)
      .field("smallest_world", result.smallest_world)
      .text();
}

void add_times(const Job& job, const Estimate& estimate, JsonObject* object) {
  const double devices = static_cast<double>(job.world) * estimate.step_seconds;
  object->field("step_seconds", estimate.step_seconds)
      .field("bound_seconds", estimate.bound_seconds)
      .field("tokens_per_second", estimate.tokens_per_second)
      .raw("flops", flops_object(estimate.flops, 1))
      .raw("flops_per_device_second", flops_object(estimate.flops, devices))
      .field("model_flops_share", estimate.model_share)
      .field("hardware_flops_share", estimate.hardware_share)
      .field("bubble_share", estimate.bubble_share)
      .field("ideal_bubble_share", estimate.ideal_bubble_share)
      .raw("parts", parts_object(estimate.parts).text())
      .raw("coordinates", coordinates_list(estimate))
      .raw("stages", stages_list(job, estimate))
      .raw("traffic", traffic_object(job, estimate.layout))
      .raw("memory", memory_object(job, estimate));
  if (job.tokens > 0) object->raw("run", run_object(job, estimate));
}

}  // namespace

Estimate timed_estimate(const Job& job, const Candidate& candidate) {
  Estimate estimate = candidate.estimate;
  if (estimate.step_seconds == 0) simulate(job, &estimate);
  return estimate;
}

std::string estimate_report(const ReportSource& source) {
  const auto& [job, result, candidate] = source;
  const LayoutConfig& layout = candidate.estimate.layout;
  const bool keeps_rules = !candidate.estimate.memory.empty();
  JsonObject object;
  object.field("layout_text", layout_text(layout))
      .raw("layout", layout_object(layout))
      .field("is_feasible", candidate.is_feasible)
      .field("is_tie", candidate.is_tie)
      .field("count", candidate.count)
      .raw("job", job_object(job, layout, keeps_rules));
  if (keeps_rules) add_times(job, timed_estimate(job, candidate), &object);
  return object.raw("warnings", text_list(candidate.warnings))
      .raw("violations", violations_list(candidate))
      .raw("fixes", fixes_list(candidate))
      .raw("band", band_object(job))
      .raw("hardware", hardware_object(job))
      .raw("assumptions", text_list(assumptions_of(job)))
      .raw("search", search_object(result))
      .text();
}

std::string reasons_report(const Candidate& candidate) {
  return JsonObject()
      .field("is_feasible", candidate.is_feasible)
      .field("count", candidate.count)
      .raw("violations", violations_list(candidate))
      .raw("fixes", fixes_list(candidate))
      .text();
}

std::string memory_report(const Job& job, const Candidate& candidate) {
  return memory_object(job, candidate.estimate);
}

std::string schedule_report(const Job& job, const LayoutConfig& layout) {
  constexpr int64_t kMostColumns = 40;
  check_shown_passes(job, layout);
  const Schedule schedule = layout_schedule(job, layout);
  return JsonObject()
      .field("text", schedule_text(schedule))
      .field("grid", schedule_grid(schedule, kMostColumns))
      .text();
}

}  // namespace plait

#include "engine/trainer/measure_text.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <string_view>
#include <utility>

#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

/// Content of a file that the kernel makes up, empty where there is none.
std::string kernel_text(Files& files, const std::string& path) {
  try {
    const std::unique_ptr<File> file = files.open_read(path);
    std::string text(1 << 16, '\0');
    text.resize(
        static_cast<size_t>(file->pread(text.data(), static_cast<int64_t>(text.size()), 0)));
    return text;
  } catch (const Error&) {
    return "";
  }
}

/// What stands behind `name` and a colon on its line.
std::string_view value_of(std::string_view text, std::string_view name) {
  const size_t line = text.find(name);
  if (line == std::string_view::npos) return {};
  const size_t colon = text.find(':', line), end = text.find('\n', line);
  if (colon == std::string_view::npos || colon > end) return {};
  std::string_view value =
      text.substr(colon + 1, end == std::string_view::npos ? end : end - colon - 1);
  value.remove_prefix(std::min(value.find_first_not_of(" \t"), value.size()));
  return value;
}

int64_t leading_number(std::string_view text) {
  int64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

double share_of(double part, double whole) { return std::clamp(part / whole, 1e-6, 1.0); }

std::string collectives_text(const LinkCosts& links) {
  JsonArray list;
  for (const CollectiveLine& line : links.collectives) {
    JsonObject element;
    element.field("members_per_node", line.members_per_node)
        .field("nodes", line.nodes)
        .field("alpha_seconds", line.alpha_seconds)
        .field("bytes_per_second", line.bytes_per_second)
        .field("residual", line.residual);
    JsonArray points;
    for (const auto& [bytes, seconds] : line.points) {
      points.add(JsonArray().add(json_number(bytes)).add(json_number(seconds)).text());
    }
    if (!line.points.empty()) element.raw("points", points.text());
    list.add(element.text());
  }
  return list.text();
}

std::string transfers_text(const LinkCosts& links) {
  JsonArray list;
  for (const auto& [level, line] :
       {std::pair{"node", links.node}, std::pair{"fabric", links.fabric}}) {
    if (!line) continue;
    list.add(JsonObject()
                 .field("level", level)
                 .field("alpha_seconds", line->alpha_seconds)
                 .field("bytes_per_second", line->bytes_per_second)
                 .text());
  }
  return list.text();
}

std::string device_text(const MeasuredHardware& hardware, double peak) {
  JsonObject device;
  device.field("kind", hardware.kind);
  if (!hardware.model.empty()) device.field("model", hardware.model);
  device.field("isa", hardware.isa).field("units", hardware.units);
  device.raw("peak_flops_per_second", JsonObject().field(dtype_name(hardware.dtype), peak).text());
  if (hardware.memory_bytes > 0) device.field("memory_bytes", hardware.memory_bytes);
  return device.field("memory_bytes_per_second", hardware.compute->copy_bytes_per_second).text();
}

std::string matmul_text(const ComputeCosts& compute, double efficiency) {
  JsonArray points;
  for (const ProductPoint& point : compute.points) {
    points.add(JsonObject()
                   .field("m", point.m)
                   .field("n", point.n)
                   .field("k", point.k)
                   .field("batch", point.batch)
                   .field("dtype", dtype_name(point.dtype))
                   .field("seconds", point.seconds)
                   .text());
  }
  return JsonObject()
      .field("efficiency", efficiency)
      .field("k_overhead", compute.products.k_overhead)
      .raw("tiles", "[[1,1,1]]")
      .raw("points", points.text())
      .text();
}

void add_compute(const MeasuredHardware& hardware, JsonObject* out, JsonObject* provenance) {
  const ComputeCosts& compute = *hardware.compute;
  const double best = compute.products.best_rate;
  const double peak = hardware.given_peak > 0 ? hardware.given_peak : best;
  const double efficiency = share_of(compute.products.rate, peak);
  out->raw("device", device_text(hardware, peak));
  out->raw("matmul", matmul_text(compute, efficiency));
  out->raw("stream", JsonObject()
                         .field("efficiency", share_of(compute.add_bytes_per_second,
                                                       compute.copy_bytes_per_second))
                         .text());
  if (compute.attention_forward_rate) {
    const double rate = efficiency * peak;
    out->raw("attention",
             JsonObject()
                 .field("forward_efficiency", share_of(*compute.attention_forward_rate, rate))
                 .field("backward_efficiency", share_of(*compute.attention_backward_rate, rate))
                 .text());
    provenance->field("attention", hardware.provenance);
  }
  out->raw("overheads", JsonObject()
                            .field("collective_seconds", 0)
                            .field("operation_seconds", 0)
                            .field("step_seconds", 0)
                            .text());
  out->field("overlap_exponent", 1);
  provenance->field("device", hardware.provenance +
                                  (hardware.given_peak > 0
                                       ? "; the peak as configured"
                                       : "; the peak is the best rate of the measured products"));
  provenance->field("matmul", hardware.provenance);
  provenance->field("stream", hardware.provenance);
  provenance->field("overheads",
                    "assumed: none besides what the measured calls hold, until calibrated");
  provenance->field("overlap_exponent",
                    "assumed: the threads that compute move the messages as well");
}

}  // namespace

MachineFacts machine_facts(Files& files) {
  MachineFacts facts;
  facts.model = value_of(kernel_text(files, "/proc/cpuinfo"), "model name");
  facts.memory_bytes =
      1024 * leading_number(value_of(kernel_text(files, "/proc/meminfo"), "MemTotal"));
  const int64_t limit = leading_number(kernel_text(files, "/sys/fs/cgroup/memory.max"));
  if (limit > 0 && (facts.memory_bytes == 0 || limit < facts.memory_bytes)) {
    facts.memory_bytes = limit;
  }
  return facts;
}

std::string hardware_text(const MeasuredHardware& hardware) {
  JsonObject out, provenance;
  out.field("name", "measured");
  out.raw("node", JsonObject().field("devices", hardware.node_devices).text());
  provenance.field("node", hardware.provenance);
  if (hardware.compute) add_compute(hardware, &out, &provenance);
  if (hardware.links && !hardware.links->collectives.empty()) {
    out.raw("collectives", collectives_text(*hardware.links));
    out.field("half_collective_alpha", hardware.links->half_collective_alpha);
    out.raw("transfers", transfers_text(*hardware.links));
    for (const char* group : {"collectives", "half_collective_alpha", "transfers"}) {
      provenance.field(group, hardware.provenance);
    }
  }
  out.raw("provenance", provenance.text());
  return JsonObject().raw("hardware", out.text()).text();
}

}  // namespace plait

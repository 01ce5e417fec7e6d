// Counters and reports. Any thread.
#include <algorithm>
#include <cstdio>

#include "engine/planner/schedule_grid.h"
#include "engine/trainer/local_engine.h"
#include "kernels/base/error.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

std::string memory_text(const MemoryLedger& ledger) {
  JsonObject memory;
  for (int i = 0; i < kMemoryCategories; ++i) {
    const auto category = static_cast<MemoryCategory>(i);
    memory.field(std::string(memory_category_name(category)) + "_bytes", ledger.bytes(category));
  }
  memory.field("total_bytes", ledger.total());
  return memory.text();
}

std::string rank_text(const Rank& rank) {
  JsonArray chunks;
  for (const auto& [first, count] : rank.layers()) {
    chunks.add(JsonObject().field("first_layer", first).field("layers", count).text());
  }
  return JsonObject()
      .field("rank", rank.rank())
      .field("tensor", rank.at().tensor)
      .field("pipeline", rank.at().pipeline)
      .field("data", rank.at().data)
      .field("first_layer", rank.layers()[0].first)
      .field("layers", rank.layers()[0].second)
      .raw("chunks", chunks.text())
      .raw("memory", memory_text(rank.ledger()))
      .text();
}

}  // namespace

std::vector<std::pair<std::string, double>> LocalEngine::counters() const {
  const Straggler* worst = watch_.worst();
  const SaveCounts saves = saver_.counts();
  std::vector<std::pair<std::string, double>> all = {
      {"steps", static_cast<double>(totals_.step)},
      {"samples", static_cast<double>(totals_.samples)},
      {"tokens", static_cast<double>(totals_.tokens)},
      {"skipped", static_cast<double>(totals_.skipped)},
      {"overflows", static_cast<double>(totals_.overflows)},
      {"operations", static_cast<double>(ranks_.progress().load())},
      {"step_seconds", totals_.step_seconds},
      {"forward_seconds", totals_.forward_seconds},
      {"backward_seconds", totals_.backward_seconds},
      {"communication_seconds", totals_.communication_seconds},
      {"bubble_seconds", totals_.bubble_seconds},
      {"optimizer_seconds", totals_.optimizer_seconds},
      {"memory_bytes", static_cast<double>(largest(&MemoryLedger::total))},
      {"memory_peak_bytes", static_cast<double>(largest(&MemoryLedger::peak))},
      {"saves", static_cast<double>(saves.durable)},
      {"saves_failed", static_cast<double>(saves.failed)},
      {"saves_skipped", static_cast<double>(saves.skipped)},
      {"replica_checks", static_cast<double>(totals_.replica_checks)},
      {"replica_divergences", static_cast<double>(totals_.divergences)},
      {"straggler_rank", worst != nullptr ? static_cast<double>(worst->rank) : -1.0},
      {"straggler_ratio", worst != nullptr ? worst->ratio : 0.0},
  };
  for (const Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
    for (int kind = 0; kind < kCollectiveKinds; ++kind) {
      Traffic sum;
      for (int64_t local = 0; local < ranks_.size(); ++local) {
        const Traffic one =
            ranks_.rank(local).group(axis).traffic(static_cast<CollectiveKind>(kind));
        sum.bytes += one.bytes;
        sum.messages += one.messages;
      }
      const std::string name =
          std::string(axis_name(axis)) + "_" + collective_name(static_cast<CollectiveKind>(kind));
      all.emplace_back(name + "_bytes", static_cast<double>(sum.bytes));
      all.emplace_back(name + "_messages", static_cast<double>(sum.messages));
    }
  }
  return all;
}

double LocalEngine::counter(std::string_view name) const {
  const std::lock_guard lock(mutex_);
  for (const auto& [known, value] : counters()) {
    if (known == name) return value;
  }
  throw Error("argument", "no such counter").with("counter", name);
}

/// How long each local rank worked, and what it sent and waited for, by axis and kind.
std::string LocalEngine::ranks_report() const {
  JsonArray rows;
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    const Rank& rank = ranks_.rank(local);
    JsonObject row;
    row.field("rank", rank.rank());
    row.field("compute_seconds", compute_seconds_[static_cast<size_t>(local)]);
    for (const Axis axis : {Axis::kTensor, Axis::kPipeline, Axis::kData}) {
      JsonObject kinds;
      for (int kind = 0; kind < kCollectiveKinds; ++kind) {
        const Traffic traffic = rank.group(axis).traffic(static_cast<CollectiveKind>(kind));
        if (traffic.messages == 0) continue;
        kinds.raw(collective_name(static_cast<CollectiveKind>(kind)),
                  JsonObject()
                      .field("bytes", traffic.bytes)
                      .field("messages", traffic.messages)
                      .field("wait_seconds", static_cast<double>(traffic.wait_ns) * 1e-9)
                      .text());
      }
      row.raw(axis_name(axis), kinds.text());
    }
    rows.add(row.text());
  }
  return rows.text();
}

/// Of the whole world, in the last window of steps.
std::string LocalEngine::stragglers_report() const {
  JsonArray rows;
  for (const Straggler& straggler : watch_.stragglers()) {
    rows.add(JsonObject()
                 .field("rank", straggler.rank)
                 .field("tensor", straggler.at.tensor)
                 .field("pipeline", straggler.at.pipeline)
                 .field("data", straggler.at.data)
                 .field("ratio", straggler.ratio)
                 .field("step_seconds", straggler.seconds)
                 .text());
  }
  return rows.text();
}

std::string LocalEngine::operations_report() const {
  constexpr size_t kRowBytes = 256;  // names are short and plain, numbers have at most 20 digits
  JsonArray ranks;
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    const std::vector<OperationRecord> recent = ranks_.rank(local).ring().recent();
    std::string rows = "[";
    rows.reserve(recent.size() * kRowBytes + 2);
    for (const OperationRecord& entry : recent) {
      char row[kRowBytes];
      const auto number = [](auto value) { return static_cast<long long>(value); };
      std::snprintf(row, sizeof row,
                    "%s{\"number\":%lld,\"operation\":\"%s\",\"sequence\":%lld,\"bytes\":%lld,"
                    "\"begin_ns\":%lld,\"end_ns\":%lld,\"state\":\"%s\"}",
                    rows.size() > 1 ? "," : "", number(entry.number), entry.name,
                    number(entry.sequence), number(entry.bytes), number(entry.begin_ns),
                    number(entry.end_ns), entry.is_complete ? "done" : "open");
      rows += row;
    }
    rows += "]";
    ranks.add(JsonObject().field("rank", ranks_.rank(local).rank()).raw("operations", rows).text());
  }
  return JsonObject().raw("ranks", ranks.text()).text();
}

std::string LocalEngine::properties_report() const {
  const std::lock_guard lock(mutex_);
  JsonObject object;
  for (const auto& [name, property] : properties_) {
    switch (property.type) {
      case Property::Type::kInteger:
        object.field(name, property.integer);
        break;
      case Property::Type::kReal:
        object.field(name, property.real);
        break;
      case Property::Type::kText:
        object.field(name, property.text);
        break;
    }
  }
  return object.text();
}

/// Reports that never change are made once, so that any thread may ask for them.
void LocalEngine::make_reports() {
  JsonArray ranks, memories;
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    const Rank& rank = ranks_.rank(local);
    ranks.add(rank_text(rank));
    memories.add(
        JsonObject().field("rank", rank.rank()).raw("memory", memory_text(rank.ledger())).text());
  }
  fixed_reports_["ranks"] = JsonObject().raw("ranks", ranks.text()).text();
  fixed_reports_["memory"] = JsonObject().raw("ranks", memories.text()).text();
  Rank& first = ranks_.rank(0);
  int64_t threads = 0;
  for (int64_t local = 0; local < ranks_.size(); ++local) {
    threads += ranks_.rank(local).device().pool().threads();
  }
  JsonObject ops;
  for (const auto& [op, implementation] : first.kernel_names()) ops.field(op, implementation);
  fixed_reports_["kernels"] = JsonObject()
                                  .field("device", settings_.device.device)
                                  .field("isa", isa_name(first.device().isa()))
                                  .field("isa_detected", isa_name(detected_isa().level))
                                  .field("amx", detected_isa().amx)
                                  .field("threads", threads)
                                  .field("compute", dtype_name(settings_.precision.compute))
                                  .field("residual", dtype_name(settings_.precision.residual))
                                  .raw("ops", ops.text())
                                  .text();
  constexpr int64_t kMostColumns = 40;
  fixed_reports_["schedule"] = JsonObject()
                                   .field("text", schedule_text(first.schedule()))
                                   .field("grid", schedule_grid(first.schedule(), kMostColumns))
                                   .text();
}

std::string LocalEngine::report(std::string_view kind) const {
  if (kind == "config") {
    const std::lock_guard lock(mutex_);
    return config_.dump_json(true);
  }
  if (kind == "counters") {
    const std::lock_guard lock(mutex_);
    JsonObject object;
    for (const auto& [name, value] : counters()) object.field(name, value);
    return object.raw("stragglers", stragglers_report()).raw("ranks", ranks_report()).text();
  }
  if (kind == "operations") return operations_report();
  if (kind == "properties") return properties_report();
  if (kind == "trace") return trace_.report();
  const auto fixed = fixed_reports_.find(kind);
  if (fixed != fixed_reports_.end()) return fixed->second;
  throw Error("argument", "no such report").with("kind", kind);
}

}  // namespace plait

#include "bindings/cli/plan_candidates.h"

#include <cerrno>
#include <cstdio>
#include <memory>
#include <string_view>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

PlanJson set_keys(const Config& config) {
  return PlanJson::parse(make_text([&](plait_bytes** out, plait_error** err) {
    return plait_config_dump(config.get(), 0, out, err);
  }));
}

/// Parts between commas that stand in no brackets.
std::vector<std::string> split_layout(const std::string& layout) {
  std::vector<std::string> parts(1);
  int depth = 0;
  for (const char c : layout) {
    depth += c == '[' ? 1 : c == ']' ? -1 : 0;
    if (c == ',' && depth == 0) {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

}  // namespace

Planned make_planned(const Context& context, const Config& config, int32_t world) {
  Planned planned;
  planned.plan = make<Plan>([&](plait_plan** out, plait_error** err) {
    return plait_plan_create(context.get(), config.get(), world, out, err);
  });
  const int64_t count = plait_plan_count(planned.plan.get());
  if (count == 0) throw Failure(PLAIT_INTERNAL, "invariant", "a plan without any candidate");
  for (int64_t i = 0; i < count; ++i) {
    planned.reports.push_back(make_text([&](plait_bytes** out, plait_error** err) {
      return plait_plan_report(planned.plan.get(), i, "estimate", out, err);
    }));
    planned.candidates.push_back(PlanJson::parse(planned.reports.back()));
  }
  return planned;
}

Config copied_config(const Context& context, const Config& config) {
  Config copy = make<Config>([&](plait_config** out, plait_error** err) {
    return plait_config_create(context.get(), out, err);
  });
  const std::string keys = set_keys(config).dump();
  call([&](plait_error** err) {
    return plait_config_load(copy.get(), keys.data(), static_cast<int64_t>(keys.size()), err);
  });
  return copy;
}

void free_layout(const Config& config) {
  const PlanJson given = set_keys(config);
  const int64_t count = plait_config_key_count(config.get());
  for (int64_t i = 0; i < count; ++i) {
    auto info = sized<plait_key_info>();
    call([&](plait_error** err) { return plait_config_key_at(config.get(), i, &info, err); });
    const std::string_view key = info.key;
    if (!key.starts_with("layout.") || given.contains(info.key)) continue;
    call([&](plait_error** err) { return plait_config_set(config.get(), info.key, "auto", err); });
  }
}

Config pinned_config(const Context& context, const Config& config, const std::string& layout) {
  Config pinned = copied_config(context, config);
  for (const std::string& part : split_layout(layout)) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos || equals == 0) {
      throw usage_failure("a layout is a list such as tensor=8,pipeline=12,micro_batch=1")
          .with("layout", layout)
          .with("got", part);
    }
    const std::string key = "layout." + part.substr(0, equals), value = part.substr(equals + 1);
    call([&](plait_error** err) {
      return plait_config_set(pinned.get(), key.c_str(), value.c_str(), err);
    });
  }
  return pinned;
}

std::string run_file(const Context& context, const Config& config, const Planned& planned,
                     int64_t index) {
  const Config run = copied_config(context, config);
  call([&](plait_error** err) {
    return plait_plan_apply(planned.plan.get(), index, run.get(), err);
  });
  const PlanJson given = set_keys(run);
  PlanJson kept = PlanJson::object();
  for (const auto& [key, value] : given.items()) {
    if (!key.starts_with("hardware.") && !key.starts_with("planner.")) kept[key] = value;
  }
  return kept.dump(2) + "\n";
}

double number_at(const PlanJson& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0;
}

std::string word_at(const PlanJson& object, const char* name) { return object.value(name, ""); }

void write_file(const std::string& path, const std::string& text) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "wb"),
                                                             std::fclose);
  if (file == nullptr) throw file_failure(errno, "open", path);
  const bool is_written = std::fwrite(text.data(), 1, text.size(), file.get()) == text.size() &&
                          std::fflush(file.get()) == 0;
  if (!is_written) throw file_failure(errno, "write", path);
}

}  // namespace plait::cli

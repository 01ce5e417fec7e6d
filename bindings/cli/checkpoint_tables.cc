#include "bindings/cli/checkpoint_tables.h"

#include <algorithm>
#include <set>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

std::string shown(const Report& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

std::string padded(const std::string& text, size_t width) {
  return text + std::string(width > text.size() ? width - text.size() : 0, ' ');
}

void print_row(Host& host, const std::string& name, const std::string& text) {
  constexpr size_t kNames = 14;
  host.print(padded(name, kNames) + "  " + text);
}

/// "tensor 2, pipeline 2, …" of the fields of an object.
std::string in_words(const Report& object) {
  std::string text;
  for (const auto& [name, value] : object.items()) {
    text += (text.empty() ? "" : ", ") + name + " " + shown(value);
  }
  return text;
}

std::string model_words(const Report& model) {
  constexpr size_t kPrefix = 6;  // "model."
  std::string text;
  for (const auto& [key, value] : model.items()) {
    text +=
        (text.empty() ? "" : ", ") + key.substr(std::min(kPrefix, key.size())) + " " + shown(value);
  }
  return text;
}

std::string progress_words(const Report& progress) {
  std::string text = counted(progress["step"].get<int64_t>()) + " (" +
                     counted(progress["updates"].get<int64_t>()) + " updates, " +
                     counted(progress["samples"].get<int64_t>()) + " samples, " +
                     counted(progress["tokens"].get<int64_t>()) + " tokens";
  for (const char* name : {"skipped", "overflows"}) {
    if (progress[name].get<int64_t>() > 0) text += ", " + shown(progress[name]) + " " + name;
  }
  return text + ")";
}

void print_step_table(Host& host, const Report& report) {
  print_row(host, "format",
            "plait " + shown(report["format_version"]) + ", written by " + shown(report["writer"]));
  print_row(host, "path", shown(report["path"]));
  print_row(host, "step", progress_words(report["progress"]));
  print_row(host, "sequence", shown(report["sequence"]));
  print_row(host, "size",
            byte_size(report["bytes"].get<double>()) + " of values in " +
                shown(report["weight_files"]) + " shards");
  print_row(host, "layout", in_words(report["layout"]));
  print_row(host, "model", model_words(report["model"]));
  print_row(host, "learning rate", shown(report["progress"]["lr"]));
  if (report["scaler"].is_object()) print_row(host, "loss scale", in_words(report["scaler"]));
  for (const Report& group : report["optimizer"]) print_row(host, "optimizer", in_words(group));
  const Report& data = report["data"];
  print_row(host, "data", "order " + shown(data["order"]) + ", seed " + shown(data["seed"]));
  for (const Report& part : data["parts"]) print_row(host, "", in_words(part));
  print_row(host, "random", in_words(report["random"]));
  std::string numerics = shown(report["numerics"]);
  while (!numerics.empty() && numerics.back() == '\n') numerics.pop_back();
  std::replace(numerics.begin(), numerics.end(), '\n', ' ');
  print_row(host, "numerics", numerics);
  print_row(host, "state digest", shown(report["state_digest"]));
  for (const Report& skipped : report["skipped"]) {
    print_row(host, "passed over", shown(skipped["name"]) + "  " + shown(skipped["reason"]));
  }
}

void print_fields(Host& host, const Report& report) {
  for (const auto& [name, value] : report.items()) {
    if (value.is_object()) {
      for (const auto& [key, inner] : value.items()) host.print(key + "  " + shown(inner));
    } else if (value.is_array()) {
      for (const auto& item : value) host.print(name + "  " + shown(item));
    } else {
      host.print(name + "  " + shown(value));
    }
  }
}

}  // namespace

Checkpoint open_checkpoint(const Context& context, const std::string& path) {
  return make<Checkpoint>([&](plait_checkpoint** out, plait_error** err) {
    return plait_checkpoint_open(context.get(), path.c_str(), out, err);
  });
}

Report list_steps(const Context& context, const std::string& directory) {
  return Report::parse(make_text([&](plait_bytes** out, plait_error** err) {
    return plait_checkpoint_list(context.get(), directory.c_str(), out, err);
  }));
}

void print_listing(Host& host, const Report& listing) {
  host.print("step            sequence  size        directory");
  for (const Report& step : listing["steps"]) {
    host.print(padded(shown(step["step"]), 16) + padded(shown(step["sequence"]), 10) +
               padded(byte_size(step["bytes"].get<double>()), 12) + shown(step["name"]));
  }
  for (const Report& bad : listing["bad"]) {
    host.print(padded("damaged", 38) + shown(bad["name"]) + ": " + shown(bad["reason"]));
  }
}

void print_report_table(Host& host, const Report& report) {
  report.value("format", "") == "plait" ? print_step_table(host, report)
                                        : print_fields(host, report);
}

void print_entries(Host& host, const std::vector<Entry>& entries) {
  size_t width = 0;
  std::set<std::string> weights;
  int64_t parameters = 0;
  for (const Entry& entry : entries) width = std::max(width, entry.name.size());
  for (const Entry& entry : entries) {
    if (entry.kind == 0) {
      host.print("  " + padded(entry.name, width) + "  property  " + property_text(entry));
      continue;
    }
    host.print("  " + padded(entry.name, width) + "  " + padded(kind_name(entry.kind), 7) + "  " +
               dtype_name(entry.dtype) + "  " + shape_text(entry.shape));
    const bool is_weight = entry.kind == PLAIT_KIND_PARAM || entry.kind == PLAIT_KIND_MASTER;
    if (is_weight && weights.insert(entry.name).second) parameters += entry.elements;
  }
  host.print("parameters  " + counted(parameters));
}

}  // namespace plait::cli

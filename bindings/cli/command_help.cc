// plait help keys and plait --version.
#include <string_view>

#include "bindings/cli/commands.h"
#include "bindings/cli/handles.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

std::string key_json(const plait_key_info& info) {
  JsonLine line;
  line.text("key", info.key).text("type", info.type).text("default", info.default_value);
  line.text("minimum", info.minimum).text("maximum", info.maximum);
  line.text("choices", info.choices).text("unit", info.unit).text("doc", info.doc);
  line.text("resume", info.resume);
  line.raw("mutable", (info.flags & PLAIT_KEY_MUTABLE) != 0 ? "true" : "false");
  line.raw("local", (info.flags & PLAIT_KEY_LOCAL) != 0 ? "true" : "false");
  return line.raw("host", (info.flags & PLAIT_KEY_HOST) != 0 ? "true" : "false").done();
}

/// "integer in steps, default 10, 0 … 100": what fits on the line of the name.
std::string key_facts(const plait_key_info& info) {
  const std::string minimum = info.minimum, maximum = info.maximum, choices = info.choices;
  std::string text = info.type;
  if (info.unit[0] != '\0') text += std::string(" in ") + info.unit;
  if (info.default_value[0] != '\0') text += std::string(", default ") + info.default_value;
  if (!choices.empty()) text += ", one of " + choices;
  // The ends of the number type itself are no news.
  const bool is_open =
      maximum.empty() || maximum == "9223372036854775807" || maximum == "2147483647";
  if (!minimum.empty() && !is_open) text += ", " + minimum + " to " + maximum;
  if (!minimum.empty() && is_open) text += ", at least " + minimum;
  if (minimum.empty() && !is_open) text += ", at most " + maximum;
  if (std::string_view(info.resume) == "same") text += "; fixed for the whole run";
  if ((info.flags & PLAIT_KEY_MUTABLE) != 0) text += "; may change while running";
  return text;
}

}  // namespace

int run_help_keys(Host& host) {
  const Context context = open_context(host);
  const Config config = make<Config>([&](plait_config** out, plait_error** err) {
    return plait_config_create(context.get(), out, err);
  });
  int64_t shown = 0;
  const int64_t count = plait_config_key_count(config.get());
  for (int64_t i = 0; i < count; ++i) {
    auto info = sized<plait_key_info>();
    call([&](plait_error** err) { return plait_config_key_at(config.get(), i, &info, err); });
    if (!std::string_view(info.key).starts_with(host.options.prefix)) continue;
    ++shown;
    host.print_json(key_json(info));
    host.print_human(std::string(info.key) + "  (" + key_facts(info) + ")\n    " + info.doc);
  }
  if (shown > 0) return kExitDone;
  throw usage_failure("no key begins like that: `plait help keys` shows all")
      .with("prefix", host.options.prefix);
}

int run_version(Host& host) {
  const int32_t version = plait_version();
  const std::string number = std::to_string(version / 1000000) + "." +
                             std::to_string(version / 1000 % 1000) + "." +
                             std::to_string(version % 1000);
  const auto fact = [](const char* key) {
    const char* text = plait_build_info(key);
    return std::string(text == nullptr ? "unknown" : text);
  };
  host.print_json(JsonLine()
                      .text("version", number)
                      .text("commit", fact("commit"))
                      .text("compiler", fact("compiler"))
                      .text("features", fact("features"))
                      .done());
  host.print_human("plait " + number + " (commit " + fact("commit") + ", compiler " +
                   fact("compiler") + ")\nfeatures: " + fact("features"));
  return kExitDone;
}

}  // namespace plait::cli

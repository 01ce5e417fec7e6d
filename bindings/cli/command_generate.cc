// plait generate: text sampled from the weights of --load.
#include "bindings/cli/commands.h"
#include "bindings/cli/engine_run.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {

int run_generate(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  prefer_weights_only(config);
  // Nothing is trained: the smallest batch that fits the layout will do where none is given.
  if (get_text(config, "train.global_batch").empty()) {
    const std::string rows = get_text(config, "layout.micro_batch");
    call([&](plait_error** err) {
      return plait_config_set(config.get(), "train.global_batch", rows.c_str(), err);
    });
  }
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  call([&](plait_error** err) { return plait_config_check(config.get(), err); });
  const Tokenizer tokenizer = open_tokenizer(host, context);
  const std::vector<int32_t> prompt = encode(tokenizer, host.options.prompt);
  if (prompt.empty()) throw usage_failure("--prompt needs a text to begin with");
  const Group group = make_group(context, config, find_place(host, config));
  const Engine engine = make_engine(host, group, config);
  load_state(engine, host.options.load_path);
  drain_logs(host, context);

  if (host.stop.is_requested()) return kExitStopped;
  const Stopping stopping(&host.stop, engine.get());
  bool is_stopped = false;
  const std::string text = continue_text(engine, tokenizer, prompt,
                                         get_integer(config, "generate.max_tokens"), &is_stopped);
  if (is_stopped) return kExitStopped;
  const std::string whole = host.options.prompt + text;
  host.print_json(JsonLine().text("prompt", host.options.prompt).text("text", text).done());
  host.print_human(whole.substr(0, whole_characters(whole)));
  return kExitDone;
}

}  // namespace plait::cli

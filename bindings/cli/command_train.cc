// plait train: trains up to run.steps, saves, goes on from what was saved.
#include <nlohmann/json.hpp>
#include <optional>

#include "bindings/cli/commands.h"
#include "bindings/cli/engine_run.h"
#include "bindings/cli/session.h"
#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

/// What --sample needs, ready before training so that a mistake in it costs no training.
struct Sample {
  Tokenizer tokenizer;
  std::vector<int32_t> prompt;
  int64_t max_tokens = 0;
};

std::optional<Sample> prepare_sample(const Host& host, const Context& context,
                                     const Config& config) {
  if (!host.options.has_prompt) return std::nullopt;
  Sample sample;
  sample.tokenizer = open_tokenizer(host, context);
  sample.prompt = encode(sample.tokenizer, host.options.prompt);
  sample.max_tokens = get_integer(config, "generate.max_tokens");
  if (sample.prompt.empty()) throw usage_failure("--sample needs a text to begin with");
  const int64_t vocabulary = get_integer(config, "model.vocab_size");
  for (size_t i = 0; i < sample.prompt.size(); ++i) {
    if (sample.prompt[i] < vocabulary) continue;
    throw usage_failure("--sample holds a token that the model does not have")
        .with("position", static_cast<int64_t>(i))
        .with("value", sample.prompt[i])
        .with("model.vocab_size", vocabulary);
  }
  return sample;
}

/// Mistakes about checkpoints that would cost training if they came out later.
void check_checkpoints(const Host& host, const Config& config) {
  const std::string root = get_text(config, "run.checkpoint");
  if (host.options.is_resume && root.empty()) {
    throw usage_failure("--resume needs the key run.checkpoint, the checkpoint root");
  }
  if (get_integer(config, "run.save_every") > 0 && root.empty()) {
    throw usage_failure("run.save_every needs the key run.checkpoint, the directory to save into");
  }
  if (!root.empty() && !host.options.is_resume) check_root(root);
}

/// What --resume or --load names into the engine.
void load_start(Host& host, const Engine& engine, const Config& config, RunSaves* saves) {
  const bool is_resume = host.options.is_resume;
  const std::string path = is_resume ? get_text(config, "run.checkpoint") : host.options.load_path;
  if (path.empty()) return;
  const std::string report = load_state(engine, path);
  const int64_t step = steps_so_far(engine);
  if (is_resume) saves->note_saved(step);
  host.print_json(JsonLine().number("step", step).raw("load", report).done());
  const auto fields = nlohmann::json::parse(report);
  const std::string taken = fields.value("directory", path);
  host.note((is_resume ? "going on after step " : "starting after step ") + std::to_string(step) +
            "  " + taken);
}

void print_sample(Host& host, const Engine& engine, const Sample& sample) {
  bool is_stopped = false;
  const std::string text =
      continue_text(engine, sample.tokenizer, sample.prompt, sample.max_tokens, &is_stopped);
  if (is_stopped) return;
  const std::string whole = host.options.prompt + text;
  host.print_json(JsonLine().text("prompt", host.options.prompt).text("sample", text).done());
  host.print_human("");
  host.print_human(whole.substr(0, whole_characters(whole)));
}

std::string report_of(const Engine& engine, const char* kind) {
  return make_text([&](plait_bytes** out, plait_error** err) {
    return plait_engine_report(engine.get(), kind, out, err);
  });
}

/// Which ranks hold what, and the order in which they compute.
void print_schedule(Host& host, const Engine& engine) {
  using Json = nlohmann::json;
  const Json ranks = Json::parse(report_of(engine, "ranks"));
  const Json schedule = Json::parse(report_of(engine, "schedule"));
  if (host.options.is_json) {
    host.print(Json{{"ranks", ranks["ranks"]}, {"schedule", schedule["text"]}}.dump());
    return;
  }
  std::string text;
  for (const Json& rank : ranks["ranks"]) {
    text += "rank " + rank["rank"].dump() + ": tensor " + rank["tensor"].dump() + ", pipeline " +
            rank["pipeline"].dump() + ", data " + rank["data"].dump() + "; layers";
    for (const Json& chunk : rank["chunks"]) {
      const int64_t first = chunk["first_layer"], count = chunk["layers"];
      text += " " + std::to_string(first) + "-" + std::to_string(first + count - 1);
    }
    text += "\n";
  }
  text += "\nF forward, B backward of a micro-batch; time runs to the right:\n";
  host.print(text + schedule["grid"].get<std::string>());
}

/// Everything after the last step. The exit code.
int end_run(Host& host, const Context& context, const Engine& engine, const RunOutputs& outputs,
            bool is_complete) {
  outputs.progress->end();
  const std::optional<Failure> failure = outputs.saves->finish(steps_so_far(engine));
  drain_logs(host, context);
  if (outputs.progress->has_steps()) outputs.progress->print_summary(report_of(engine, "kernels"));
  if (!failure) return is_complete && !host.stop.is_requested() ? kExitDone : kExitStopped;
  host.report(*failure);
  host.note("plait: the last steps are not saved");
  return failure->exit_code(true);
}

}  // namespace

int run_train(Host& host) {
  const Context context = open_context(host);
  const Config config = make_config(host, context);
  if (host.options.is_print_config) return print_config(host, config), kExitDone;
  RunPlan plan;
  plan.steps = get_integer(config, "run.steps");
  plan.evaluate_every = get_integer(config, "run.evaluate_every");
  plan.has_evaluation = has_evaluation_data(config);
  check_checkpoints(host, config);
  call([&](plait_error** err) { return plait_config_check(config.get(), err); });
  const Place place = find_place(host, config);
  const Group group = make_group(context, config, place);
  const std::optional<Sample> sample = prepare_sample(host, context, config);
  const Dataset train = open_dataset(context, config, "train");
  const Dataset held_out =
      plan.has_evaluation ? open_dataset(context, config, "evaluate") : nullptr;
  MetricsLines lines(host, place.rank != 0);
  const Engine engine = make_engine(host, group, config);
  if (host.options.is_print_schedule) return print_schedule(host, engine), kExitDone;
  attach(engine, "train", train);
  if (plan.has_evaluation) attach(engine, "evaluate", held_out);
  RunSaves saves(host, engine, get_text(config, "run.checkpoint"),
                 get_integer(config, "run.save_every"), place.rank != 0);
  load_start(host, engine, config, &saves);
  drain_logs(host, context);

  host.is_started = true;
  lines.write(config_line(report_of(engine, "config")));
  RunProgress progress(host, plan.steps, get_integer(config, "run.log_every"));
  const RunOutputs outputs{&lines, &progress, &saves};
  if (steps_so_far(engine) >= plan.steps) {
    host.note("nothing is left to train: raise run.steps, which is " + std::to_string(plan.steps));
  }
  const bool is_complete = run_steps(host, context, engine, plan, outputs);
  const int code = end_run(host, context, engine, outputs, is_complete);
  if (code == kExitDone && sample) print_sample(host, engine, *sample);
  call([&](plait_error** err) { return plait_engine_close(engine.get(), -1, err); });
  drain_logs(host, context);
  if (code == kExitStopped) host.note("plait: stopped on request");
  return code;
}

}  // namespace plait::cli

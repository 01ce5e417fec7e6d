#include "bindings/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "bindings/cli/commands.h"

namespace plait::cli {
namespace {

constexpr const char* kOverview =
    R"(plait trains GPT-style Transformers.

  plait tokenize IN OUT              text file to token file, and back
  plait train CONFIG                 train up to run.steps; --resume goes on from run.checkpoint
  plait eval CONFIG --load PATH      loss and perplexity on the evaluation data
  plait generate CONFIG --load PATH --prompt TEXT
                                     sampled text
  plait trace CONFIG                 a Chrome trace of a few steps, and the idle share
  plait inspect PATH [--diff PATH]   what a token file or a checkpoint holds; what differs
  plait verify PATH [--full]         checksums, coverage and digests of a checkpoint
  plait convert reshard PATH ROOT    a checkpoint to another layout (--set layout.…)
  plait convert import DIR ROOT      a Hugging Face directory to a checkpoint
  plait convert export PATH DIR      weights to a Hugging Face directory
  plait plan CONFIG --world N        which layouts to train with: time, memory, reasons
  plait measure-links [CONFIG]       what links and devices can do, for plan --hardware
  plait help keys [PREFIX]           the configuration keys
  plait help COMMAND                 the options of a command

A checkpoint PATH is a root, one step of it, or a Hugging Face directory.
CONFIG is a JSON file of keys; --set key=value overrides it. Results go to stdout, all else
to stderr. Exit codes: 0 done, 1 failed, 2 usage, 3 stopped on request, 4 a peer or the
engine was lost, 5 damaged checkpoint or data, 130 second signal.)";

using Command = int (*)(Host& host);

/// Builds the sub-commands. CLI11 writes into `request` while it parses.
class Grammar {
 public:
  explicit Grammar(Request* request) : options_(request->options), request_(request) {
    app_.name("plait");
    app_.require_subcommand(0, 1);
    app_.set_help_flag();
    app_.add_flag("-h,--help", is_help_, "the overview");
    app_.add_flag("--version", is_version_, "version and features of the library");
    app_.add_flag("--json", options_.is_json, "stdout holds JSON lines only");
    app_.add_flag("--quiet", options_.is_quiet, "nothing on stderr but errors");
    add_run_commands();
    add_file_commands();
    add_planning_commands();
    CLI::App* help = add("help", "overview, a command, or the configuration keys", nullptr);
    help->add_option("TOPIC", options_.topic, "keys, or the name of a command");
    help->add_option("PREFIX", options_.prefix, "of the keys to show");
  }

  void parse(int count, char** arguments) {
    try {
      app_.parse(count, arguments);
    } catch (const CLI::CallForHelp&) {
      request_->text = chosen()->help();
      return;
    } catch (const CLI::ParseError& error) {
      std::string sentence = error.what();
      std::replace(sentence.begin(), sentence.end(), '\n', ' ');
      throw usage_failure(sentence + " (see plait help)");
    }
    for (const CLI::Option* prompt : prompts_) {
      options_.has_prompt = options_.has_prompt || prompt->count() > 0;
    }
    if (is_version_) {
      request_->command = run_version;
    } else if (is_help_ || app_.get_subcommands().empty()) {
      request_->text = kOverview;
    } else {
      choose(chosen());
    }
  }

 private:
  CLI::App* add(const char* name, const char* description, Command command,
                CLI::App* parent = nullptr) {
    CLI::App* sub = (parent != nullptr ? parent : &app_)->add_subcommand(name, description);
    commands_[sub] = command;
    sub->set_help_flag("-h,--help", "these options");
    sub->add_flag("--json", options_.is_json, "stdout holds JSON lines only");
    sub->add_flag("--quiet", options_.is_quiet, "nothing on stderr but errors");
    return sub;
  }

  void add_config(CLI::App* sub) {
    sub->add_option("CONFIG", options_.config_path, "JSON file of configuration keys");
    add_settings(sub);
  }

  void add_settings(CLI::App* sub) {
    sub->add_option("--set", options_.settings, "key=value; repeatable, the last one wins")
        ->allow_extra_args(false);
    sub->add_flag("--print-config", options_.is_print_config,
                  "print the effective configuration and exit");
  }

  void add_place(CLI::App* sub) {
    sub->add_option("--rank", options_.place.rank, "first rank of this process");
    sub->add_option("--local-ranks", options_.place.local_ranks, "ranks of this process");
    sub->add_option("--world", options_.place.world, "ranks of all processes");
    sub->add_option("--join", options_.place.join, "HOST:PORT of the process of rank 0");
    sub->add_option("--from-env", options_.launcher,
                    "take ranks and address from a launcher: " + std::string(kLauncherNames))
        ->check(CLI::IsMember({"auto", "torch", "slurm", "openmpi", "k8s"}));
  }

  void add_tokenizer(CLI::App* sub) {
    sub->add_option("--tokenizer", options_.tokenizer, "byte (default) or gpt2")
        ->check(CLI::IsMember({"byte", "gpt2"}));
    sub->add_option("--vocab", options_.vocab, "directory with vocab.bpe and encoder.json");
  }

  void add_prompt(CLI::App* sub, const char* name, const char* description) {
    prompts_.push_back(sub->add_option(name, options_.prompt, description));
  }

  CLI::Option* add_load(CLI::App* sub) {
    return sub->add_option("--load", options_.load_path,
                           "start from a checkpoint or a Hugging Face directory");
  }

  void add_metrics(CLI::App* sub) {
    sub->add_option("--metrics", options_.metrics_path, "append metrics lines to FILE");
  }

  void add_run_commands() {
    CLI::App* train = add("train", "train up to run.steps", run_train);
    add_config(train);
    CLI::Option* load = add_load(train);
    train->add_flag("--resume", options_.is_resume, "go on from run.checkpoint")->excludes(load);
    add_metrics(train);
    train->add_flag("--print-schedule", options_.is_print_schedule,
                    "print which rank does what, and when, and exit");
    add_prompt(train, "--sample", "continue TEXT with the trained weights at the end");
    add_tokenizer(train);
    add_place(train);

    CLI::App* eval = add("eval", "loss and perplexity on the evaluation data", run_eval);
    add_config(eval);
    loads_[eval] = add_load(eval);
    add_metrics(eval);
    add_place(eval);

    CLI::App* generate = add("generate", "text sampled from the weights", run_generate);
    add_config(generate);
    loads_[generate] = add_load(generate);
    add_prompt(generate, "--prompt", "the text to continue");
    add_tokenizer(generate);
    add_place(generate);
  }

  void add_file_commands() {
    CLI::App* tokenize = add("tokenize", "text file to token file, and back", run_tokenize);
    tokenize->add_option("IN", options_.input, "file to read")->required();
    tokenize->add_option("OUT", options_.output, "file to write")->required();
    tokenize->add_flag("--decode", options_.is_decode, "token file to text file");
    add_tokenizer(tokenize);
    add_settings(tokenize);

    CLI::App* inspect = add("inspect", "what a token file or a checkpoint holds", run_inspect);
    inspect->add_option("PATH", options_.input, "token file, checkpoint or directory")->required();
    inspect->add_option("--diff", options_.diff_path, "name what differs in this checkpoint");
    add_settings(inspect);

    CLI::App* verify = add("verify", "checksums, coverage and digests", run_verify);
    verify->add_option("PATH", options_.input, "checkpoint")->required();
    verify->add_flag("--full", options_.is_full, "also gaps and unread slices");

    CLI::App* convert = app_.add_subcommand("convert", "checkpoints to other forms");
    convert->require_subcommand(1);
    const std::tuple<const char*, const char*, const char*, Command> forms[] = {
        {"export", "PATH", "DIR", run_convert_export},
        {"import", "DIR", "ROOT", run_convert_import},
        {"reshard", "PATH", "ROOT", run_convert_reshard}};
    for (const auto& [name, from, to, command] : forms) {
      CLI::App* sub = add(name, "to another form", command, convert);
      sub->add_option(from, options_.input, "what to read")->required();
      sub->add_option(to, options_.output, "what to write")->required();
      add_settings(sub);
    }
  }

  void add_hardware(CLI::App* sub) {
    sub->add_option("--hardware", options_.hardware,
                    "what the ranks run on: a file of hardware.* keys, or dgx-a100 or dgx-h100");
  }

  void add_plan() {
    CLI::App* plan = add("plan", "layouts for a number of ranks, best first", run_plan);
    add_config(plan);
    plan->add_option("--world", options_.place.world, "number of ranks");
    add_hardware(plan);
    plan->add_option("--tokens", options_.tokens, "length of the whole run, as in 300e9");
    plan->add_flag("--uncalibrated", options_.is_uncalibrated,
                   "show times also where nothing was measured");
    plan->add_option("--write", options_.write_path,
                     "write CONFIG with the first layout, for train");
    plan->add_option("--page", options_.page_path,
                     "write a step of the first layout as a page for browsers");
    CLI::Option* why = plan->add_option("--why-not", options_.why_not,
                                        "why this layout is not the first, or can't be run");
    CLI::Option* compare =
        plan->add_option("--compare", options_.compares,
                         "given twice: two layouts side by side, and a run file of each "
                         "(compare-a.json, or --write's name in place of compare)")
            ->allow_extra_args(false)
            ->excludes(why);
    CLI::Option* check = plan->add_option("--check", options_.check_path,
                                          "predicted against measured: a file of train --metrics")
                             ->excludes(why)
                             ->excludes(compare);
    plan->add_option("--calibrate", options_.calibrate_paths,
                     "fit constants to these files of train --metrics")
        ->excludes(why)
        ->excludes(compare)
        ->excludes(check);
  }

  void add_planning_commands() {
    add_plan();
    CLI::App* measure = add("measure-links", "measure links and compute rates", run_measure_links);
    add_config(measure);
    measure->add_option("--what", options_.what, "links, compute or all (default)")
        ->check(CLI::IsMember({"links", "compute", "all"}));
    add_place(measure);
    CLI::App* trace = add("trace", "train a few steps and write a Chrome trace", run_trace);
    add_config(trace);
    add_place(trace);
    CLI::Option* merge = trace
                             ->add_option("--merge", options_.merge_paths,
                                          "name the first operation that differs between these "
                                          "reports \"operations\"")
                             ->excludes(trace->get_option("CONFIG"));
    trace->add_flag("--simulate", options_.is_simulate, "draw the planner's timeline instead")
        ->excludes(merge);
    add_hardware(trace);
  }

  /// The innermost sub-command that was named.
  CLI::App* chosen() {
    CLI::App* at = &app_;
    while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
    return at;
  }

  void choose(CLI::App* sub) {
    if (sub->get_name() == "help") return choose_help();
    request_->command = commands_.at(sub);
    const auto load = loads_.find(sub);
    if (options_.is_print_config) return;
    if (load != loads_.end() && load->second->count() == 0) {
      throw usage_failure("--load is required: a checkpoint or a Hugging Face directory");
    }
  }

  void choose_help() {
    if (options_.topic == "keys") {
      request_->command = run_help_keys;
    } else if (options_.topic.empty()) {
      request_->text = kOverview;
    } else {
      const std::vector<CLI::App*> all = app_.get_subcommands([](CLI::App*) { return true; });
      const auto sub = std::find_if(all.begin(), all.end(), [this](const CLI::App* one) {
        return one->get_name() == options_.topic;
      });
      if (sub == all.end()) {
        throw usage_failure("there is no such command").with("command", options_.topic);
      }
      request_->text = (*sub)->help("plait");
    }
  }

  CLI::App app_;
  Options& options_;
  Request* request_;
  std::map<const CLI::App*, Command> commands_;
  std::map<const CLI::App*, CLI::Option*> loads_;
  std::vector<CLI::Option*> prompts_;
  bool is_help_ = false, is_version_ = false;
};

}  // namespace

Request parse_command_line(int count, char** arguments) {
  Request request;
  Grammar grammar(&request);
  grammar.parse(count, arguments);
  return request;
}

}  // namespace plait::cli

// From the command line to a configuration and an engine.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/host.h"

namespace plait::cli {

/// The configuration that the user means: CONFIG, then --hardware, then --set, then the model.*
/// keys of what --load names. A model key that CONFIG or --set gives and that contradicts is a
/// usage failure naming all of them with both values. With --resume, those that it leaves out come
/// from run.checkpoint.
Config make_config(const Host& host, const Context& context);

/// Prints the complete configuration: a key a line, or one JSON line with --json.
void print_config(Host& host, const Config& config);

/// The whole file; NOT_FOUND and the like name it.
std::string read_file(const std::string& path);

/// Number of ranks that the degrees of the configuration ask for, 1 where the planner chooses.
int32_t layout_ranks(const Config& config);

/// The ranks of this process by options, launcher and layout.*.
Place find_place(const Host& host, const Config& config);

/// The group of this process, joined to the others.
Group make_group(const Context& context, const Config& config, const Place& place);

/// The engine, its weights drawn from the seed. What it chose for keys that are `auto` is noted.
Engine make_engine(Host& host, const Group& group, const Config& config);

/// Takes the state of a checkpoint or the weights of a Hugging Face directory. JSON report.
std::string load_state(const Engine& engine, const std::string& path);

/// For commands that train nothing: takes the weights of a checkpoint alone, unless the user wants
/// otherwise.
void prefer_weights_only(const Config& config);

/// The tokenizer of --tokenizer and --vocab.
Tokenizer open_tokenizer(const Host& host, const Context& context);

/// Ids of `text`.
std::vector<int32_t> encode(const Tokenizer& tokenizer, const std::string& text);

/// Continues `prompt` with at most generate.max_tokens ids of the engine's, as text. Empty with
/// `*is_stopped` when a stop was asked for.
std::string continue_text(const Engine& engine, const Tokenizer& tokenizer,
                          const std::vector<int32_t>& prompt, int64_t max_tokens, bool* is_stopped);

/// True when the configuration names evaluation data or keeps a share of data.train for it.
bool has_evaluation_data(const Config& config);

/// Opens the dataset of `role` and attaches it to the engine.
Dataset open_dataset(const Context& context, const Config& config, const char* role);
void attach(const Engine& engine, const char* role, const Dataset& dataset);

}  // namespace plait::cli

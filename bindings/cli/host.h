// What every sub-command works with: the options, the output streams, the signals.
#pragma once

#include <string>
#include <vector>

#include "bindings/cli/handles.h"
#include "bindings/cli/launcher.h"
#include "bindings/cli/stop_signals.h"

namespace plait::cli {

/// The command line. A sub-command reads what it declares.
struct Options {
  bool is_json = false, is_quiet = false, is_print_config = false;
  bool is_print_schedule = false;
  bool is_resume = false, is_decode = false, is_full = false;
  std::string config_path;            ///< CONFIG, empty when there is none
  std::vector<std::string> settings;  ///< key=value, in order
  std::string metrics_path, load_path, diff_path;
  std::string input, output;  ///< the positional paths
  std::string tokenizer = "byte", vocab;
  std::string prompt;
  bool has_prompt = false;
  std::string what = "all";  ///< of measure-links
  bool is_simulate = false;  ///< of trace
  std::vector<std::string> merge_paths;
  std::string hardware;               ///< of plan and trace --simulate: a file or a built-in name
  std::vector<std::string> compares;  ///< layouts of --compare, none or two
  std::string why_not;                ///< layout of --why-not
  std::string tokens;                 ///< of --tokens, empty when it is not given
  bool is_uncalibrated = false;
  std::string write_path, page_path;
  std::string check_path;                    ///< metrics file of --check
  std::vector<std::string> calibrate_paths;  ///< metrics files of --calibrate
  std::string topic, prefix;                 ///< of help
  PlaceWishes place;
  std::string launcher;  ///< of --from-env, empty when it is not given
};

class Host {
 public:
  explicit Host(const Options& options) : options(options) {}

  /// A result: one line on stdout. Throws when stdout takes no more.
  void print(const std::string& line);
  /// The same with --json alone, and without it.
  void print_json(const std::string& line);
  void print_human(const std::string& line);
  /// Everything else: one line on stderr, above a progress bar if there is one. Nothing if quiet.
  void note(const std::string& line);

  /// A failure that does not end the command: one line on stderr, also if quiet.
  void complain(const std::string& line);

  /// True where a progress bar may be drawn: stderr is a terminal, neither --json nor --quiet.
  bool has_bar() const;
  /// Draws `line` over the bar's line, cut to the terminal; empty takes the bar away.
  void draw_bar(const std::string& line);

  /// Prints an error as --json and --quiet have it: always a line on stderr.
  void report(const Failure& failure);

  const Options& options;
  StopSignals stop;
  bool is_started = false;  ///< work that a wrong argument can no longer prevent has begun

 private:
  bool is_bar_drawn_ = false;
};

/// A context whose records are kept for drain_logs: warnings and errors.
Context open_context(const Host& host);

/// Prints the records that the library has kept since the last call.
void drain_logs(Host& host, const Context& context);

}  // namespace plait::cli

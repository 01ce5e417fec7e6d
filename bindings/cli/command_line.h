// Reading the command line.
#pragma once

#include <string>

#include "bindings/cli/host.h"

namespace plait::cli {

/// What the command line asks for.
struct Request {
  Options options;
  int (*command)(Host& host) = nullptr;  ///< null: print `text`
  std::string text;                      ///< help that was asked for
};

/// Throws a usage failure of one line for what is no legal command line.
Request parse_command_line(int count, char** arguments);

}  // namespace plait::cli

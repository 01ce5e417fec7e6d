#include "bindings/cli/host.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <sstream>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

size_t terminal_columns() {
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 20) return 80;
  return size.ws_col;
}

}  // namespace

void Host::print(const std::string& line) {
  draw_bar("");
  const bool is_written = std::fwrite(line.data(), 1, line.size(), stdout) == line.size() &&
                          std::fputc('\n', stdout) != EOF && std::fflush(stdout) == 0;
  if (!is_written) throw file_failure(errno, "write", "standard output");
}

void Host::print_json(const std::string& line) {
  if (options.is_json) print(line);
}

void Host::print_human(const std::string& line) {
  if (!options.is_json) print(line);
}

void Host::note(const std::string& line) {
  if (!options.is_quiet) complain(line);
}

void Host::complain(const std::string& line) {
  draw_bar("");
  std::fprintf(stderr, "%s\n", line.c_str());
}

bool Host::has_bar() const {
  return !options.is_json && !options.is_quiet && isatty(STDERR_FILENO) == 1;
}

void Host::draw_bar(const std::string& line) {
  if (line.empty() && !is_bar_drawn_) return;
  const size_t columns = terminal_columns() - 1;
  const std::string shown = line.substr(0, std::min(line.size(), columns));
  std::fprintf(stderr, "\r\033[K%s", shown.c_str());
  std::fflush(stderr);
  is_bar_drawn_ = !line.empty();
}

void Host::report(const Failure& failure) {
  draw_bar("");
  std::fflush(stdout);
  std::fprintf(stderr, "plait: %s: %s\n", plait_code_name(failure.code()),
               failure.message().c_str());
  if (!options.is_json) return;
  const std::string line = failure.json() + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
  std::fflush(stdout);
}

Context open_context(const Host& host) {
  Context context = make<Context>([](plait_context** out, plait_error** err) {
    return plait_context_create(PLAIT_API_VERSION, nullptr, out, err);
  });
  const int32_t level = host.options.is_quiet ? PLAIT_LOG_ERROR : PLAIT_LOG_WARNING;
  call([&](plait_error** err) { return plait_context_set_log_level(context.get(), level, err); });
  return context;
}

void drain_logs(Host& host, const Context& context) {
  constexpr int64_t kAtOnce = 1000;
  std::istringstream lines(make_text([&](plait_bytes** out, plait_error** err) {
    return plait_context_log_drain(context.get(), kAtOnce, out, err);
  }));
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json record = nlohmann::json::parse(line, nullptr, false);
    if (!record.is_object()) continue;
    if (record.contains("dropped")) {
      host.note("plait: log records were dropped: " + record["dropped"].dump());
    } else {
      host.note("plait: " + record.value("level", std::string("log")) + ": " +
                record.value("message", std::string()));
    }
  }
}

}  // namespace plait::cli

#include "tests/bench/neighbour.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace plait::bench {
namespace {

[[noreturn]] void spin(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it ended before it could be watched
  volatile double value = 1.0;
  for (;;) value = value * 0.999999 + 1e-6;
}

}  // namespace

Neighbour::Neighbour() {
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ < 0) throw std::runtime_error("no process for a busy neighbour");
  if (process_ == 0) spin(parent);
  pause();
}

Neighbour::~Neighbour() { end(); }

void Neighbour::wait_for(int options) {
  int status = 0;
  while (waitpid(process_, &status, options) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) || WIFSIGNALED(status)) {
    process_ = -1;
    throw std::runtime_error("the busy neighbour ended by itself");
  }
}

void Neighbour::resume() {
  kill(process_, SIGCONT);
  wait_for(WCONTINUED);
}

void Neighbour::pause() {
  kill(process_, SIGSTOP);
  wait_for(WUNTRACED);
}

double Neighbour::cpu_seconds() const {
  std::ifstream file("/proc/" + std::to_string(process_) + "/stat");
  std::string text;
  if (!std::getline(file, text)) throw std::runtime_error("/proc has no busy neighbour");
  // Fields 14 and 15 of the line; the second is a name in parentheses.
  std::istringstream rest(text.substr(text.rfind(')') + 2));
  std::string word;
  for (int field = 3; field < 14; ++field) rest >> word;
  double user = 0, system = 0;
  if (!(rest >> user >> system)) throw std::runtime_error("/proc/…/stat is not as expected");
  return (user + system) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

bool Neighbour::end() {
  if (process_ < 0) return false;
  const pid_t process = process_;
  process_ = -1;
  kill(process, SIGKILL);
  while (waitpid(process, nullptr, 0) < 0 && errno == EINTR) {
  }
  return kill(process, 0) < 0 && errno == ESRCH;
}

}  // namespace plait::bench

#include "tests/host/process_state.h"

#include <fenv.h>
#include <malloc.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <clocale>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <locale>
#include <new>
#include <sstream>

#include "kernels/base/sanitizer.h"

namespace host {
namespace {

int64_t entries(const char* directory) {
  return std::distance(std::filesystem::directory_iterator(directory), {});
}

int64_t status_value(const std::string& key) {
  std::ifstream file("/proc/self/status");
  for (std::string line; std::getline(file, line);) {
    if (line.rfind(key + ":", 0) == 0) return std::stoll(line.substr(key.size() + 1));
  }
  return -1;
}

bool falls_to(int64_t (*measure)(), int64_t count) {
  for (int i = 0; i < 1000; ++i) {
    if (measure() <= count) return true;
    usleep(1000);
  }
  return false;
}

template <class T>
std::string hex(const T& value) {
  std::ostringstream out;
  out << std::hex << value;
  return out.str();
}

void add_signals(std::map<std::string, std::string>& state) {
  sigset_t mask;
  pthread_sigmask(SIG_BLOCK, nullptr, &mask);
  for (int i = 1; i < 65; ++i) {
    struct sigaction action {};
    if (sigaction(i, nullptr, &action) != 0) continue;
    state["signal " + std::to_string(i)] = hex(reinterpret_cast<void*>(action.sa_handler)) + " " +
                                           hex(action.sa_flags) + " blocked " +
                                           std::to_string(sigismember(&mask, i));
  }
}

void add_limits(std::map<std::string, std::string>& state) {
  for (int i = 0; i < RLIMIT_NLIMITS; ++i) {
    struct rlimit limit {};
    getrlimit(static_cast<__rlimit_resource>(i), &limit);
    state["limit " + std::to_string(i)] = hex(limit.rlim_cur) + " " + hex(limit.rlim_max);
  }
  for (int i = 0; i < 3; ++i) {
    struct itimerval timer {};
    getitimer(static_cast<__itimer_which>(i), &timer);
    state["timer " + std::to_string(i)] = hex(timer.it_value.tv_sec) + hex(timer.it_value.tv_usec);
  }
}

}  // namespace

int64_t descriptor_count() { return entries("/proc/self/fd") - 1; }

int64_t thread_count() { return status_value("Threads"); }

bool has_threads(int64_t count) { return falls_to(thread_count, count); }

bool has_descriptors(int64_t count) { return falls_to(descriptor_count, count); }

int64_t heap_bytes() {
#if PLAIT_ADDRESS_SANITIZER || PLAIT_THREAD_SANITIZER
  return 0;
#else
  const struct mallinfo2 info = mallinfo2();
  return static_cast<int64_t>(info.uordblks + info.hblkhd);
#endif
}

int64_t resident_bytes() { return status_value("VmRSS") * 1024; }

std::map<std::string, std::string> process_state() {
  std::map<std::string, std::string> state;
  add_signals(state);
  add_limits(state);
  state["C locale"] = setlocale(LC_ALL, nullptr);
  state["C++ locale"] = std::locale().name();
  state["directory"] = std::filesystem::current_path().string();
  state["umask"] = std::to_string(status_value("Umask"));
  for (char** entry = environ; *entry != nullptr; ++entry) state["environment"] += *entry;
  constexpr unsigned kFlags = 0x3F;  // sticky exceptions, not modes
  state["mxcsr"] = hex(_mm_getcsr() & ~kFlags);
  state["rounding"] = std::to_string(fegetround());
  state["traps"] = std::to_string(fegetexcept());
  state["terminate handler"] = hex(reinterpret_cast<void*>(std::get_terminate()));
  state["new handler"] = hex(reinterpret_cast<void*>(std::get_new_handler()));
  cpu_set_t cores;
  sched_getaffinity(0, sizeof cores, &cores);
  for (int i = 0; i < CPU_SETSIZE; ++i) state["affinity"] += CPU_ISSET(i, &cores) ? '1' : '0';
  char name[32] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  state["thread name"] = name;
  int cancel = 0;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &cancel);
  pthread_setcancelstate(cancel, nullptr);
  state["cancellation"] = std::to_string(cancel);
  state["nice"] = std::to_string(getpriority(PRIO_PROCESS, 0));
  return state;
}

}  // namespace host

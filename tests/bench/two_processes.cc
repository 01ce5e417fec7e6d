#include "tests/bench/two_processes.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <stdexcept>

namespace plait::bench {

TwoProcesses::TwoProcesses() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error("no pipe between two processes");
  }
  std::fflush(stdout);
  child_ = ::fork();
  if (child_ < 0) throw std::runtime_error("no second process");
  rank_ = child_ == 0 ? 1 : 0;
  pipe_ = ends[rank_];
  ::close(ends[1 - rank_]);
}

TwoProcesses::~TwoProcesses() { ::close(pipe_); }

void TwoProcesses::put(const void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t put =
        ::send(pipe_, static_cast<const char*>(data) + done, bytes - done, MSG_NOSIGNAL);
    if (put <= 0) throw std::runtime_error("the other process is gone");
    done += static_cast<size_t>(put);
  }
}

void TwoProcesses::get(void* data, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = ::recv(pipe_, static_cast<char*>(data) + done, bytes - done, 0);
    if (got <= 0) throw std::runtime_error("the other process is gone");
    done += static_cast<size_t>(got);
  }
}

std::string TwoProcesses::exchange(const std::string& text) {
  const uint64_t own = text.size();
  put(&own, sizeof own);
  put(text.data(), text.size());
  uint64_t other = 0;
  get(&other, sizeof other);
  std::string answer(other, '\0');
  get(answer.data(), answer.size());
  return answer;
}

void TwoProcesses::wait() {
  if (rank_ != 0) return;
  int status = 0;
  if (::waitpid(child_, &status, 0) != child_ || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    throw std::runtime_error("the second process failed");
  }
}

}  // namespace plait::bench

// A real directory for tests of the running system's files, and failures of that system: a filter
// makes one system call fail for one thread.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>
#include <thread>

#include "kernels/base/env.h"
#include "kernels/base/error.h"

namespace plait::files_test {

namespace fs = std::filesystem;

class ScratchDirectory {
 public:
  ScratchDirectory() {
    path_ = (fs::temp_directory_path() / "plait-files-XXXXXX").string();
    if (::mkdtemp(path_.data()) == nullptr) throw errno_error(errno, "mkdtemp", path_);
  }
  ~ScratchDirectory() { fs::remove_all(path_); }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;
  const std::string& path() const { return path_; }
  std::string path(const std::string& name) const { return join_path(path_, name); }

 private:
  std::string path_;
};

inline Files& posix() { return posix_env().files; }

inline void put(const std::string& path, const std::string& text) {
  posix().create(path, false)->pwrite(text.data(), static_cast<int64_t>(text.size()), 0);
}

inline std::string get(const std::string& path) { return read_file(posix(), path, 1 << 30); }

/// Message of the error, "" without one.
inline std::string failure_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.message();
  }
  return "";
}

inline std::string file_word(const std::function<void()>& body) {
  const std::string message = failure_of(body);
  return message.substr(0, message.find(':'));
}

/// failure_of(body) on a thread for which the system call `number` ends with `failure`.
inline std::string failure_where(long number, int failure, const std::function<void()>& body) {
  std::string message = "the system takes no filter";
  std::thread thread([&] {
    const uint32_t result = SECCOMP_RET_ERRNO | static_cast<uint32_t>(failure);
    sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, result),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    sock_fprog program{4, code};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return;
    if (::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) return;
    message = failure_of(body);
  });
  thread.join();
  return message;
}

inline std::string word_where(long number, int failure, const std::function<void()>& body) {
  const std::string message = failure_where(number, failure, body);
  return message.substr(0, message.find(':'));
}

}  // namespace plait::files_test

#include "capi/src/guard.h"

#include <cxxabi.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <exception>
#include <new>
#include <stdexcept>
#include <system_error>

namespace plait {
namespace {

std::atomic<pid_t> owner{0};
/// 1 in a page that the kernel fills with zeros for a forked child, so that no call asks for the
/// process's number; null until the process is claimed, or where the kernel cannot do that.
std::atomic<std::atomic<int>*> unwiped{nullptr};
thread_local int callback_depth = 0;

}  // namespace

InCallback::InCallback() { ++callback_depth; }

InCallback::~InCallback() { --callback_depth; }

void claim_process() {
  pid_t nobody = 0;
  if (!owner.compare_exchange_strong(nobody, getpid())) return;
  constexpr size_t kBytes = sizeof(std::atomic<int>);
  void* page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, kBytes, MADV_WIPEONFORK) != 0) {
    munmap(page, kBytes);
    return;
  }
  auto* mark = new (page) std::atomic<int>(1);
  unwiped.store(mark, std::memory_order_release);
}

bool is_forked() {
  const std::atomic<int>* mark = unwiped.load(std::memory_order_acquire);
  if (mark != nullptr) return mark->load(std::memory_order_relaxed) == 0;
  const pid_t pid = owner.load(std::memory_order_relaxed);
  return pid != 0 && pid != getpid();
}

void check_entry(bool in_callback) {
  if (is_forked()) {
    throw Error("forked", "the library cannot be used in a forked child").subsystem("capi");
  }
  if (callback_depth != 0 && !in_callback) {
    throw Error("reentrant", "a callback may not call the library").subsystem("capi");
  }
}

bool may_answer() { return !is_forked() && callback_depth == 0; }

Error not_built(const char* feature, const char* sentence) {
  return Error("not_built", sentence).with("feature", feature).subsystem("capi");
}

int32_t fail_current(plait_error** err) {
  try {
    throw;
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (const Error& error) {
    return report_error(error, err);
  } catch (const std::bad_alloc&) {
    return report_no_memory(err);
  } catch (const std::length_error&) {
    return report_no_memory(err);
  } catch (const std::system_error& error) {
    // A thread that could not be started; files and clocks report errors of their own.
    const bool is_full = error.code() == std::errc::resource_unavailable_try_again;
    return is_full ? report_no_memory(err) : report_exception(error.what(), err);
  } catch (const std::exception& error) {
    return report_exception(error.what(), err);
  } catch (...) {
    return report_exception("an exception of unknown type", err);
  }
}

}  // namespace plait

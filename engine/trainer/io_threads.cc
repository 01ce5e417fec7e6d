#include "engine/trainer/io_threads.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace plait {
namespace {

constexpr std::chrono::milliseconds kLookAtTask{20};

}  // namespace

struct IoThreads::Task {
  const size_t count;
  const FunctionRef<void(size_t)> work;
  std::mutex mutex;  // guards what follows
  std::condition_variable changed;
  size_t next = 0;  // work that has not begun
  size_t open = 0;  // threads
  size_t failed = 0;
  std::exception_ptr failure = nullptr;  // of work `failed`
};

void IoThreads::work_through(Task* task) const {
  constexpr char kName[] = "plait-io";
  enter_library_thread(kName, false);
  if (hooks_.start) hooks_.start(kName);
  std::unique_lock lock(task->mutex);
  while (task->next < task->count && task->failure == nullptr) {
    const size_t i = task->next++;
    lock.unlock();
    std::exception_ptr failure;
    try {
      task->work(i);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure == nullptr || (task->failure != nullptr && task->failed < i)) continue;
    task->failure = failure;
    task->failed = i;
  }
  lock.unlock();
  if (hooks_.stop) hooks_.stop();
  lock.lock();
  --task->open;
  task->changed.notify_all();
}

void IoThreads::run(size_t count, FunctionRef<void(size_t)> work,
                    std::optional<FunctionRef<void()>> look) const {
  const size_t wanted = std::min(static_cast<size_t>(std::max<int64_t>(most_, 1)), count);
  if (!look && wanted <= 1) {
    for (size_t i = 0; i < count; ++i) work(i);
    return;
  }
  Task task{count, work, {}, {}};
  std::vector<std::thread> threads;
  threads.reserve(wanted);
  try {
    while (threads.size() < wanted) {
      {
        const std::lock_guard lock(task.mutex);
        ++task.open;
      }
      threads.push_back(start_library_thread([this, &task] { work_through(&task); }));
    }
  } catch (...) {
    const std::lock_guard lock(task.mutex);
    --task.open;
    // Fewer do as well.
    if (threads.empty()) task.failure = std::current_exception();
  }
  std::unique_lock lock(task.mutex);
  while (!task.changed.wait_for(lock, kLookAtTask, [&] { return task.open == 0; })) {
    if (!look) continue;
    lock.unlock();
    (*look)();
    lock.lock();
  }
  lock.unlock();
  for (std::thread& thread : threads) thread.join();
  if (task.failure != nullptr) std::rethrow_exception(task.failure);
}

}  // namespace plait

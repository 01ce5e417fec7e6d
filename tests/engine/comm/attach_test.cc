// Which link a world gets, and what it says when it cannot have one.
#include <catch2/catch.hpp>
#include <optional>
#include <thread>

#include "engine/comm/links.h"
#include "kernels/base/log.h"
#include "tests/engine/comm/fake_world.h"

namespace plait::test {
namespace {

/// Memory in which nothing can be made, or nothing of another process can be opened.
class PoorMemory final : public SharedMemory {
 public:
  explicit PoorMemory(bool can_create) : can_create_(can_create) {}
  std::unique_ptr<SharedSegment> create(int64_t bytes) override {
    if (can_create_) return posix_shared_memory().create(bytes);
    throw Error("no_space", "too small").with("need", bytes).with("have", 4096);
  }
  std::unique_ptr<SharedSegment> open(const std::string& name, int64_t) override {
    throw Error("no_file", "not here").with("path", name);
  }
  void wait(std::atomic<uint32_t>* word, uint32_t value, int64_t timeout_ms) override {
    posix_shared_memory().wait(word, value, timeout_ms);
  }
  void wake(std::atomic<uint32_t>* word) override { posix_shared_memory().wake(word); }

 private:
  const bool can_create_;
};

struct Attached {
  std::vector<std::optional<Error>> errors;
  Fabrics fabrics;
  std::string log;
};

/// One process for each transport; `poor` is the memory of the last one.
Attached attach_all(const std::vector<std::string>& hosts,
                    const std::vector<std::string>& transports, SharedMemory* poor = nullptr,
                    const std::string& plugins = "/nonexistent") {
  FakeMeeting meeting(hosts);
  Log log(posix_env().clock);
  Attached result;
  result.errors.resize(hosts.size());
  std::vector<std::unique_ptr<FakeWorld>> worlds;
  for (size_t i = 0; i < hosts.size(); ++i) {
    worlds.push_back(std::make_unique<FakeWorld>(meeting, i, transports[i], &log));
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < hosts.size(); ++i) {
    threads.emplace_back([&, i] {
      const bool is_poor = poor != nullptr && i + 1 == hosts.size();
      try {
        attach_link(*worlds[i], {posix_env().clock, posix_net(),
                                 is_poor ? *poor : posix_shared_memory(), plugins});
      } catch (const Error& error) {
        result.errors[i] = error;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::unique_ptr<FakeWorld>& world : worlds) result.fabrics.push_back(world->take_fabric());
  result.log = log.drain(100);
  return result;
}

void check_works(const Attached& attached, const std::string& transport) {
  for (const std::optional<Error>& error : attached.errors) {
    INFO((error ? error->message() : ""));
    REQUIRE(!error);
  }
  CHECK(attached.log.find("by " + transport) != std::string::npos);
  run_processes(attached.fabrics, [](Communicator& group) {
    float value = static_cast<float>(group.index() + 1);
    group.all_reduce({&value, DType::kFloat32, {1}});
    CHECK(value == static_cast<float>(group.size() * (group.size() + 1) / 2));
  });
}

void check_refused(const Attached& attached, const std::string& word) {
  for (const std::optional<Error>& error : attached.errors) {
    REQUIRE(error);
    INFO(error->message());
    CHECK(error->word() == word);
    CHECK(error->rank() == attached.errors[0]->rank());
  }
}

}  // namespace

TEST_CASE("auto is shared memory on one machine and TCP between several", "[links]") {
  check_works(attach_all({"a", "a", "a"}, {"auto", "auto", "auto"}), "shm");
  check_works(attach_all({"a", "b", "a"}, {"auto", "auto", "auto"}), "tcp");
}

TEST_CASE("transports by name", "[links]") {
  check_works(attach_all({"a", "a"}, {"tcp", "tcp"}), "tcp");
  check_works(attach_all({"a", "a"}, {"shm", "shm"}), "shm");
  check_refused(attach_all({"a", "b"}, {"shm", "shm"}), "topology");
  check_refused(attach_all({"a", "a"}, {"shm", "tcp"}), "mismatch");
  check_refused(attach_all({"a", "a"}, {"post", "post"}), "argument");
}

TEST_CASE("R13, H4: too little shared memory in one process: TCP for all, or the reason to all",
          "[links]") {
  PoorMemory small(false), unreachable(true);
  check_works(attach_all({"a", "a", "a"}, {"auto", "auto", "auto"}, &small), "tcp");
  check_works(attach_all({"a", "a", "a"}, {"auto", "auto", "auto"}, &unreachable), "tcp");
  const Attached refused = attach_all({"a", "a", "a"}, {"shm", "shm", "shm"}, &small);
  check_refused(refused, "no_space");
  for (const std::optional<Error>& error : refused.errors) {
    CHECK(error->rank() == 2);
    CHECK(error->details().find("\"need\":") != std::string::npos);
    CHECK(error->details().find("\"have\":4096") != std::string::npos);
  }
  check_refused(attach_all({"a", "a"}, {"shm", "shm"}, &unreachable), "no_file");
}

TEST_CASE("a plug-in that is not installed is not_built with the reason", "[links]") {
  const Attached refused = attach_all({"a", "a"}, {"mpi", "mpi"});
  check_refused(refused, "not_built");
  CHECK(refused.errors[1]->message().find("/nonexistent/libplait_mpi.so") != std::string::npos);
}

TEST_CASE("a plug-in of another build is version_mismatch", "[links]") {
  const Attached refused = attach_all({"a", "a"}, {"mpi", "mpi"}, nullptr, PLAIT_OTHER_PLUGINS);
  check_refused(refused, "version_mismatch");
  CHECK(refused.errors[0]->message().find("another build") != std::string::npos);
}

}  // namespace plait::test

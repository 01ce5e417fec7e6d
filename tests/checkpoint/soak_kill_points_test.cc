// Saves by four processes, one for each rank, of which one ends by SIGKILL before or after one of
// its operations on files; another process then reads what a disk of the running system holds, and
// saves again.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/checkpoint/hf_fixture.h"
#include "tests/checkpoint/store_crash_fixture.h"
#include "tests/checkpoint/store_root_fixture.h"
#include "tests/support/fault_files.h"

namespace plait {
namespace {

using test::SaveScenario;
using test::SmallState;

constexpr size_t kRanks = 4;
constexpr int64_t kLeastPoints = 1'000;
constexpr unsigned kLifeSeconds = 60;  // then a process that still waits is ended

/// How a process of a save ends unless it is killed.
enum EndCode { kWhole = 0, kGaveUp = 1 };

/// One end of a socket between two processes.
class Line {
 public:
  explicit Line(int fd) : fd_(fd) {}
  Line(Line&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Line& operator=(Line&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Line() {
    if (fd_ >= 0) ::close(fd_);
  }

  /// Both throw when the other process is gone.
  void send(std::string_view text) {
    if (::send(fd_, text.data(), text.size(), MSG_NOSIGNAL) < 0) throw_gone();
  }
  std::string receive() {
    std::string text(size_t{64} << 10, '\0');
    const ssize_t bytes = ::recv(fd_, text.data(), text.size(), 0);
    if (bytes <= 0) throw_gone();
    text.resize(static_cast<size_t>(bytes));
    return text;
  }
  template <class T>
  void send_all(const std::vector<T>& values) {
    static_assert(std::is_trivially_copyable_v<T>);
    send({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  template <class T>
  std::vector<T> receive_all() {
    const std::string text = receive();
    std::vector<T> values(text.size() / sizeof(T));
    std::memcpy(static_cast<void*>(values.data()), text.data(), values.size() * sizeof(T));
    return values;
  }

 private:
  [[noreturn]] static void throw_gone() { throw std::runtime_error("the other process is gone"); }
  int fd_;
};

/// Both ends; messages keep their limits.
std::pair<Line, Line> make_line() {
  int fds[2];
  REQUIRE(::socketpair(AF_UNIX, SOCK_SEQPACKET, 0, fds) == 0);
  return {Line(fds[0]), Line(fds[1])};
}

/// A process that runs `body` and ends with what it returns.
pid_t start_process(const std::function<int()>& body) {
  const pid_t pid = ::fork();
  if (pid != 0) {
    REQUIRE(pid > 0);
    return pid;
  }
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kLifeSeconds);
  int code = kGaveUp;
  try {
    code = body();
  } catch (const std::exception&) {
  }
  ::_exit(code);
}

int wait_for_end(pid_t pid) {
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return status;
}

ShardWriter shard_of(Files& files, const std::string& directory, const SmallState& state,
                     size_t rank) {
  const auto number = static_cast<int64_t>(rank);
  return ShardWriter(files, directory, state.place(number), state.manifest().progress.step,
                     state.shapes(), state.sources(number));
}

/// Rank 0: its shard, and the root. Tells `report` once the save is acknowledged.
int lead(Files& files, const std::string& path, const test::SavePlan& plan,
         std::vector<Line>& followers, Line& report) {
  const SmallState state(plan.step, kRanks);
  Env env = test::env_of(files);
  const auto root = RootWriter::open(env, path, "r", nullptr, 0);
  const std::string temporary = root->begin(plan.step, state.bytes(), plan.commit);
  try {
    for (Line& line : followers) line.send(temporary);
    ShardWriter own = shard_of(files, temporary, state, 0);
    own.write_slices(nullptr, nullptr);
    std::vector<ShardRecord> records;
    records.push_back({{}, own.slices()});
    for (Line& line : followers) records.push_back({{}, line.receive_all<Slice>()});
    for (size_t i = 0; i < kRanks; ++i) records[i].file.ordinal = static_cast<uint32_t>(i);
    Manifest manifest = state.manifest();
    cover(&manifest, records);
    seal_identity(&manifest);
    for (Line& line : followers) line.send_all(std::vector<Hash128>{manifest.save_id});
    records[0].file = own.finish(manifest.save_id);
    for (size_t i = 1; i < kRanks; ++i) {
      records[i].file = followers[i - 1].receive_all<SavedFile>().at(0);
    }
    cover(&manifest, records);
    root->commit(temporary, manifest, "{\"host\":\"test\"}\n", plan.commit);
  } catch (...) {
    root->discard(temporary);
    throw;
  }
  report.send("acknowledged");
  root->point_latest(plan.step);
  root->retain(plan.retention);
  return kWhole;
}

/// Any other rank: its shard.
int follow(Files& files, const test::SavePlan& plan, size_t rank, Line& leader) {
  const SmallState state(plan.step, kRanks);
  const std::string temporary = leader.receive();
  ShardWriter writer = shard_of(files, temporary, state, rank);
  writer.write_slices(nullptr, nullptr);
  leader.send_all(writer.slices());
  const Hash128 save_id = leader.receive_all<Hash128>().at(0);
  leader.send_all(std::vector<SavedFile>{writer.finish(save_id)});
  return kWhole;
}

/// Which process dies, and where.
struct Victim {
  size_t rank = 0;
  int64_t nth = 0;
  KillPoint point = KillPoint::kBefore;
};

struct WorldEnd {
  bool is_killed = false;        ///< the victim was
  bool is_acknowledged = false;  ///< the save was
};

/// One save by all ranks. Each other process ends by itself, with the save or without it.
WorldEnd run_save(const std::string& path, const test::SavePlan& plan, const Victim& victim) {
  std::vector<Line> leader_ends, follower_ends;
  for (size_t rank = 1; rank < kRanks; ++rank) {
    auto [mine, other] = make_line();
    leader_ends.push_back(std::move(mine));
    follower_ends.push_back(std::move(other));
  }
  std::pair<Line, Line> report = make_line();
  std::vector<pid_t> processes;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    processes.push_back(start_process([&, rank] {
      FaultFiles files(posix_env().files);
      if (rank == victim.rank) files.kill(victim.nth, victim.point, KillMeans::kSignal);
      // A line ends with the last process that holds its other end.
      if (rank == 0) {
        follower_ends.clear();
        return lead(files, path, plan, leader_ends, report.second);
      }
      leader_ends.clear();
      Line own = std::move(follower_ends[rank - 1]);
      follower_ends.clear();
      return follow(files, plan, rank, own);
    }));
  }
  leader_ends.clear();
  follower_ends.clear();
  report.second = Line(-1);
  WorldEnd end;
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const int status = wait_for_end(processes[rank]);
    const bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
    if (rank == victim.rank) end.is_killed = is_killed;
    INFO("rank " << rank << " ended with status " << status);
    REQUIRE((WIFEXITED(status) || (is_killed && rank == victim.rank)));
    REQUIRE((is_killed || WEXITSTATUS(status) == kWhole || WEXITSTATUS(status) == kGaveUp));
  }
  try {
    end.is_acknowledged = report.first.receive() == "acknowledged";
  } catch (const std::runtime_error&) {
  }
  return end;
}

/// What another process finds wrong.
std::string fault_seen(const std::string& path, const test::KnownSaves& saves) {
  std::pair<Line, Line> line = make_line();
  const pid_t reader = start_process([&] {
    std::string fault = "good";
    try {
      const std::string found = test::fault_after_kill(posix_env().files, path, saves);
      if (!found.empty()) fault = found;
    } catch (const std::exception& error) {
      fault = error.what();
    }
    line.second.send(fault);
    return kWhole;
  });
  const std::string fault = line.first.receive();
  REQUIRE(wait_for_end(reader) == 0);
  return fault == "good" ? "" : fault;
}

/// Kills one rank at each of its operations; how many points there were.
int64_t kill_rank_everywhere(const SaveScenario& scenario, size_t rank) {
  const TempDirectory directory;
  const std::string before = directory.path("before"), now = directory.path("now");
  std::filesystem::create_directory(before);
  test::save_before(posix_env().files, join_path(before, "root"), scenario);
  const uint64_t saves = scenario.before.size();
  int64_t points = 0;
  for (int64_t nth = 0;; ++nth) {
    for (const KillPoint point : {KillPoint::kBefore, KillPoint::kAfter}) {
      INFO(scenario.name << ", rank " << rank << ", operation " << nth
                         << (point == KillPoint::kBefore ? ", before" : ", after"));
      std::filesystem::remove_all(now);
      std::filesystem::copy(before, now, std::filesystem::copy_options::recursive);
      const std::string root = join_path(now, "root");
      const WorldEnd end = run_save(root, scenario.plan, {rank, nth, point});
      if (!end.is_killed) {
        REQUIRE(end.is_acknowledged);
        return points;
      }
      ++points;
      // A shard's process dies before the commit: the root's hears of it and leaves nothing.
      if (rank != 0) {
        REQUIRE_FALSE(end.is_acknowledged);
        REQUIRE(test::other_names(posix_env().files, root).empty());
      }
      const std::string fault =
          fault_seen(root, {saves + (end.is_acknowledged ? 1 : 0), saves + (rank == 0 ? 1 : 0)});
      REQUIRE(fault.empty());
    }
  }
}

TEST_CASE("a rank is killed before and after any operation of its own process", "[kill_points]") {
  int64_t points = 0;
  for (const SaveScenario& scenario : test::save_scenarios()) {
    int64_t here = 0;
    for (size_t rank = 0; rank < kRanks; ++rank) here += kill_rank_everywhere(scenario, rank);
    std::printf("| SIGKILL in a save, %s | %lld points | no save lost |\n", scenario.name,
                static_cast<long long>(here));
    points += here;
  }
  CHECK(points >= kLeastPoints);
}

}  // namespace
}  // namespace plait

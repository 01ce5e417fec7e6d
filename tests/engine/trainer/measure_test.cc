// Links and compute are measured on real ranks: the description loads, covers what a plan asks for,
// and a measurement that is ended leaves the group as it was.
#include "engine/trainer/measure.h"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <string>
#include <thread>

#include "engine/comm/endpoint.h"
#include "engine/planner/job.h"
#include "engine/planner/work.h"
#include "engine/trainer/measure_fit.h"
#include "engine/trainer/measure_links.h"
#include "tests/engine/comm/world/world_rig.h"
#include "tests/support/tiny_model.h"

namespace plait::test {
namespace {

/// A group whose ranks are threads, or one process of a world.
struct Measured {
  Config config = tiny_config();
  std::atomic<bool> is_stop_wanted{false};
  std::string fragment;

  Outcome run(World& world, MeasureScope scope, int64_t timeout_ms = -1) {
    MeasureOptions options;
    options.env = &posix_env();
    options.world = &world;
    options.is_stop_wanted = &is_stop_wanted;
    return measure(config, options, scope, timeout_ms, &fragment);
  }
  /// The configuration with the description on top.
  Config described() const {
    Config out = config;
    out.load_json(fragment);
    return out;
  }
};

std::unique_ptr<World> threads_of_ranks(int64_t ranks) {
  WorldOptions options;
  options.world = options.local_ranks = ranks;
  return World::create(options, posix_env(), posix_net());
}

Error error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return Error("invariant", "nothing was thrown");
}

TEST_CASE("two ranks measure everything that a plan of two needs") {
  Measured two;
  const auto world = threads_of_ranks(2);
  REQUIRE(two.run(*world, MeasureScope::kAll) == Outcome::kDone);
  const Job job = make_job(two.described(), 2);
  const Hardware& hardware = job.hardware;
  CHECK(hardware.kind == "cpu");
  CHECK(hardware.units == 1);
  CHECK(hardware.node_devices == 2);
  CHECK(hardware.memory_bytes > (int64_t{1} << 26));
  CHECK(hardware.peak(DType::kFloat32) > 1e8);
  CHECK(hardware.peak(DType::kFloat32) < 1e13);
  CHECK(hardware.memory_bytes_per_second > 1e7);
  CHECK(hardware.product_efficiency <= 1);
  CHECK(hardware.attention_backward_efficiency > 0);
  REQUIRE(hardware.collectives.size() == 1);
  CHECK(hardware.collectives[0].members_per_node == 2);
  CHECK(hardware.collectives[0].bytes_per_second > 1e6);
  CHECK(hardware.node_transfer.bytes_per_second > 1e6);
  CHECK(hardware.fabric_transfer.bytes_per_second == 0);
  for (const auto& [group, text] : hardware.provenance) {
    INFO(group);
    CHECK((text.find("measured 20") == 0 || text.find("assumed") == 0));
  }
  // Every product of a layer and the head has a point of its own.
  for (const int64_t tensor : {1, 2}) {
    LayoutConfig layout;
    layout.tensor = tensor;
    const StageWork work = stage_work(job, layout, 0);
    for (const WorkList* list : {&work.forward, &work.backward_input, &work.backward_weight}) {
      for (const Work& item : *list) {
        if (item.kind != WorkKind::kProduct) continue;
        INFO(item.name << " " << item.m << " " << item.n << " " << item.k << " of " << tensor);
        CHECK(std::any_of(hardware.points.begin(), hardware.points.end(), [&](const auto& point) {
          return point.m == item.m && point.n == item.n && point.k == item.k && point.seconds > 0;
        }));
      }
    }
  }
}

TEST_CASE("four ranks measure every shape of group") {
  Measured four;
  const auto world = threads_of_ranks(4);
  REQUIRE(four.run(*world, MeasureScope::kLinks) == Outcome::kDone);
  const Config config = four.described();
  const std::vector<CollectiveLine> lines = make_collectives(config);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].members_per_node == 2);
  CHECK(lines[1].members_per_node == 4);
  CHECK(make_transfers(config).node.bytes_per_second > 0);
  CHECK(config.get_real("hardware.half_collective_alpha") > 0);
  CHECK_FALSE(config.is_set("hardware.matmul.efficiency"));
  int64_t mailboxes = 0;
  for (int64_t rank = 0; rank < 4; ++rank) {
    mailboxes += world->fabric().endpoint(rank).mailbox_bytes();
  }
  CHECK(mailboxes == 0);
}

TEST_CASE("a rank alone has no links") {
  Measured one;
  const auto world = threads_of_ranks(1);
  REQUIRE(one.run(*world, MeasureScope::kLinks) == Outcome::kDone);
  CHECK(make_collectives(one.described()).empty());
}

TEST_CASE("a measurement that is ended, or takes too long, changes nothing") {
  Measured two;
  const auto world = threads_of_ranks(2);
  two.is_stop_wanted.store(true);
  const Error aborted = error_of([&] { two.run(*world, MeasureScope::kAll); });
  CHECK(aborted.word() == "aborted");
  CHECK(aborted.disposition() == Disposition::kUnchanged);
  two.is_stop_wanted.store(false);
  const Error late = error_of([&] { two.run(*world, MeasureScope::kAll, 1); });
  CHECK(late.word() == "deadline");
  CHECK(late.disposition() == Disposition::kUnchanged);
  CHECK(two.fragment.empty());
  CHECK(two.run(*world, MeasureScope::kLinks) == Outcome::kDone);
}

TEST_CASE("two processes measure together, stop together, and must want the same") {
  const Worlds worlds = complete_worlds({1, 1});
  Measured processes[2];
  const auto each = [&](MeasureScope first, MeasureScope second) {
    return on_each(worlds, [&](size_t i) {
      const Outcome outcome = processes[i].run(*worlds[i], i == 0 ? first : second);
      if (outcome == Outcome::kStopped) throw Error("cancelled", "stopped by another process");
    });
  };
  std::vector<Ending> endings = each(MeasureScope::kLinks, MeasureScope::kCompute);
  CHECK(endings[0].word == "mismatch");
  CHECK(endings[1].word == "mismatch");
  processes[1].is_stop_wanted.store(true);
  endings = each(MeasureScope::kLinks, MeasureScope::kLinks);
  CHECK(endings[0].word == "cancelled");
  CHECK(endings[1].word == "aborted");
  processes[1].is_stop_wanted.store(false);
  endings = each(MeasureScope::kLinks, MeasureScope::kLinks);
  CHECK(endings[0].word == "");
  CHECK(endings[1].word == "");
  CHECK(processes[0].fragment == processes[1].fragment);
  CHECK(make_collectives(processes[0].described()).size() == 1);
}

TEST_CASE("a line is fitted to the large sizes, and says how far it is off") {
  std::vector<TimedSize> timed;
  for (double bytes = 1 << 20; bytes <= 1 << 26; bytes *= 2) {
    timed.push_back({bytes, 3e-4 + 1.5 * bytes / 2e9});
  }
  LineFit fit = fit_line(timed, 1.5, 1 << 20);
  CHECK(fit.alpha_seconds == Approx(3e-4));
  CHECK(fit.rate == Approx(2e9));
  CHECK(fit.residual < 1e-9);
  timed.push_back({4096, 1e-4});
  fit = fit_line(timed, 1.5, 1 << 20);
  CHECK(fit.rate == Approx(2e9));
  CHECK(fit.residual == Approx(2).epsilon(0.1));
  // Faster per byte where messages are small: no latency below none.
  const TimedSize bent[] = {{1e6, 1e-4}, {2e6, 4e-4}};
  CHECK(fit_line(bent, 1, 0).alpha_seconds == 0);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
}

TEST_CASE("products give a rate and what each costs besides; equal sizes become one point") {
  std::vector<ProductPoint> points;
  for (const int64_t k : {64, 256, 1024}) {
    const double seconds = 2.0 * 100 * 200 * static_cast<double>(k + 50) / 4e10;
    points.push_back({100, 200, k, 1, DType::kFloat32, seconds});
  }
  const ProductFit fit = fit_products(points);
  CHECK(fit.k_overhead == Approx(50).epsilon(0.1));
  CHECK(fit.rate <= fit.best_rate);
  CHECK(fit.best_rate == Approx(4e10 * 1024 / 1074));
  points.push_back(points[0]);
  points[3].seconds *= 3;
  const std::vector<ProductPoint> merged = merge_points(points);
  REQUIRE(merged.size() == 3);
  CHECK(merged[0].seconds == Approx(2 * points[0].seconds));
}

TEST_CASE("tilings cover the shapes of groups over nodes once") {
  CHECK(group_tilings(1, 1).empty());
  const std::vector<GroupTiling> tilings = group_tilings(8, 4);
  std::vector<std::pair<int64_t, int64_t>> shapes;
  for (const GroupTiling& tiling : tilings) {
    shapes.emplace_back(tiling.shape.members_per_node, tiling.shape.nodes);
  }
  CHECK(shapes == std::vector<std::pair<int64_t, int64_t>>{{2, 1}, {1, 2}, {4, 1}, {2, 2}, {4, 2}});
  CHECK(message_sizes(int64_t{3} << 20, 100'000) ==
        std::vector<int64_t>{4096, 16384, 65536, 100'000, 262144, 1 << 20, 2 << 20});
}

}  // namespace
}  // namespace plait::test

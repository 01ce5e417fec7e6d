// Bytes by level against the bytes of ranks; that real engines send them is
// tests/engine/trainer/formulas_test.cc.
#include "engine/planner/traffic.h"

#include <catch2/catch.hpp>

using namespace plait;

namespace {

/// 64 sequences of a small GPT-2, on nodes of 8.
Job traffic_job() {
  Job job;
  job.model.layers = 8;
  job.model.hidden = 256;
  job.model.heads = job.model.key_value_heads = 8;
  job.model.head_size = 32;
  job.model.feed_forward = 1024;
  job.model.vocab_size = 512;
  job.model.sequence_length = job.train.sequence_length = 128;
  job.train.global_batch = 64;
  job.profile = find_profile("plait");
  job.hardware.node_devices = 8;
  return job;
}

LayoutConfig spread_over(int64_t tensor, int64_t pipeline, int64_t data) {
  LayoutConfig layout;
  layout.tensor = tensor;
  layout.pipeline = pipeline;
  layout.data = data;
  return layout;
}

double sent_on(const AxisTraffic& axis) { return static_cast<double>(axis.total()); }

}  // namespace

TEST_CASE("a ring over several nodes leaves each of them once", "[traffic]") {
  const Job job = traffic_job();
  const LayoutConfig spread = spread_over(1, 1, 16);
  const double sent = sent_on(rank_traffic(job, spread, 0).data);
  const LevelTraffic levels = level_traffic(job, spread);
  CHECK(levels.fabric == Approx(sent * 2 / 16));
  CHECK(levels.node == Approx(sent * 14 / 16));
  CHECK(level_traffic(job, spread_over(1, 1, 8)).fabric == 0);
}

TEST_CASE("axes that stay inside a node and axes that do not", "[traffic]") {
  const Job job = traffic_job();
  LayoutConfig layout = spread_over(8, 1, 2);
  RankTraffic sent = rank_traffic(job, layout, 0);
  LevelTraffic levels = level_traffic(job, layout);
  CHECK(levels.node == Approx(sent_on(sent.tensor)));
  CHECK(levels.fabric == Approx(sent_on(sent.data)));
  layout = spread_over(8, 2, 1);
  sent = rank_traffic(job, layout, 0);
  levels = level_traffic(job, layout);
  CHECK(levels.fabric == Approx(sent_on(sent.pipeline)));
  // Of four stages of two ranks, with neighbours inside the node at every boundary.
  CHECK(level_traffic(job, spread_over(2, 4, 1)).fabric == 0);
  // Of four stages of four: the middle boundary crosses, and the ring of the sums that close a
  // step.
  layout = spread_over(4, 4, 1);
  const double boundary = 64.0 * (128 * 256 / 4) * 4;
  const double closing = static_cast<double>(rank_traffic(job, layout, 0).pipeline.all_gather);
  CHECK(level_traffic(job, layout).fabric == Approx((2 * boundary + 2 * closing) / 4));
}

TEST_CASE("bytes between nodes are those of the edges that cross, one by one", "[traffic]") {
  Job job = traffic_job();
  const int64_t t = GENERATE(1, 2, 4), p = GENERATE(1, 2, 4), d = GENERATE(1, 2, 4);
  job.hardware.node_devices = GENERATE(1, 2, 3, 4, 5, 8);
  const LayoutConfig layout = spread_over(t, p, d);
  const auto crosses = [&](int64_t a, int64_t b) {
    return a / job.hardware.node_devices != b / job.hardware.node_devices;
  };
  double tensor = 0, data = 0;
  for (int64_t rank = 0; rank < t * p * d; ++rank) {
    const RankTraffic sent = rank_traffic(job, layout, rank / (t * d) * (t * d));
    const int64_t place = rank % (t * d), begin = rank - place;
    const int64_t next_tensor = place % t + 1 < t ? rank + 1 : rank + 1 - t;
    const int64_t next_data = begin + (place + t) % (t * d);
    if (crosses(rank, next_tensor)) tensor += sent_on(sent.tensor);
    if (crosses(rank, next_data)) data += sent_on(sent.data);
  }
  const double ranks = static_cast<double>(t * p * d);
  if (p == 1) CHECK(level_traffic(job, layout).fabric == Approx((tensor + data) / ranks));
  CHECK(level_traffic(job, layout).fabric >= (tensor + data) / ranks * (1 - 1e-12));
}

TEST_CASE("levels hold what all ranks send", "[traffic]") {
  Job job = traffic_job();
  job.model.tied = GENERATE(false, true);
  LayoutConfig layout = spread_over(2, 4, 4);
  layout.zero = GENERATE(0, 1, 2, 3);
  layout.sequence_parallel = GENERATE(false, true);
  layout.schedule = GENERATE(ScheduleChoice::kOneForwardOneBackward, ScheduleChoice::kInterleaved);
  if (layout.schedule == ScheduleChoice::kInterleaved) layout.interleave = 2;
  double sum = 0;
  for (int64_t rank = 0; rank < 32; ++rank) {
    const RankTraffic sent = rank_traffic(job, layout, rank);
    sum += sent_on(sent.tensor) + sent_on(sent.pipeline) + sent_on(sent.data);
  }
  const LevelTraffic levels = level_traffic(job, layout);
  // Partial sums depend on where slices begin, by a few elements.
  CHECK(levels.node + levels.fabric == Approx(sum / 32).epsilon(1e-3));
  CHECK(levels.fabric > 0);
}

TEST_CASE("the traffic of the data axis follows the stage of ZeRO", "[traffic]") {
  Job job = traffic_job();
  job.precision.compute = job.precision.residual = DType::kBFloat16;
  LayoutConfig layout = spread_over(1, 1, 4);
  const auto data = [&] { return rank_traffic(job, layout, 1).data; };
  // 8Px, 4Px + 2Px, 4Pxm + 2Px, 4Pxm + 2·2Pxm: without tied uses and the words that close a step.
  const AxisTraffic whole = data();
  const int64_t x = whole.reduce_scatter / 4, m = 16;
  const int64_t words = whole.all_gather - 4 * x;
  CHECK(words == 8 * (3 + 8 * 16 + 5) * 3);
  layout.zero = 1;
  CHECK(data().reduce_scatter == 4 * x);
  CHECK(data().all_gather == 2 * x + words);
  layout.zero = 2;
  CHECK(data().reduce_scatter == 4 * x * m);
  CHECK(data().all_gather == 2 * x + words);
  layout.zero = 3;
  CHECK(data().reduce_scatter == 4 * x * m);
  // Tables and head come once, everything else twice.
  const int64_t once = 3 * (512 * 256 + 128 * 256 + 512 * 256) / 4;
  CHECK(data().all_gather == 2 * m * (2 * x - once) + words);
  job.profile = find_profile("megatron-2021");
  layout.zero = 0;
  CHECK(data().reduce_scatter == 2 * x);
}

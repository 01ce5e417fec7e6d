// What layouts cost: single prices by hand, and what holds for any layout.
#include "engine/planner/estimate.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <random>

#include "engine/planner/cost.h"

using namespace plait;

namespace {

Hardware estimate_hardware() {
  Config config;
  config.set("hardware.name", "dgx-a100");
  return make_hardware(config);
}

Job estimate_job(const char* profile = "plait") {
  static const Hardware hardware = estimate_hardware();
  Job job;
  job.model.layers = 16;
  job.model.hidden = 2048;
  job.model.heads = job.model.key_value_heads = 16;
  job.model.head_size = 128;
  job.model.feed_forward = 8192;
  job.model.vocab_size = 51200;
  job.model.sequence_length = job.train.sequence_length = 1024;
  job.model.tied = true;
  job.precision.compute = job.precision.residual = DType::kBFloat16;
  job.train.global_batch = 64;
  job.profile = find_profile(profile);
  job.hardware = hardware;
  return job;
}

LayoutConfig estimate_layout(int64_t tensor, int64_t pipeline, int64_t data) {
  LayoutConfig layout;
  layout.tensor = tensor;
  layout.pipeline = pipeline;
  layout.data = data;
  return layout;
}

struct EstimateCase {
  Job job;
  LayoutConfig layout;
};

/// A layout that keeps the rules, and its job.
EstimateCase random_case(std::mt19937_64& random) {
  const auto pick = [&](std::initializer_list<int64_t> values) {
    return values.begin()[random() % values.size()];
  };
  const char* profiles[] = {"plait", "plait", "megatron-2021", "megatron-2022"};
  EstimateCase one{estimate_job(profiles[random() % 4]),
                   estimate_layout(pick({1, 2, 4, 8}), pick({1, 2, 4, 8}), pick({1, 2, 4}))};
  LayoutConfig& layout = one.layout;
  layout.micro_batch = pick({1, 2, 4});
  const int64_t m = one.job.train.global_batch / (layout.data * layout.micro_batch);
  const bool is_interleaved = layout.pipeline > 1 && m % layout.pipeline == 0 && random() % 2 == 0;
  layout.interleave = is_interleaved ? 2 : 1;
  layout.zero = pick({0, 1, 2, 3});
  if (is_interleaved) {
    layout.schedule = ScheduleChoice::kInterleaved;
  } else {
    layout.schedule = ScheduleChoice(pick({0, 2, 3}));
  }
  if (layout.schedule == ScheduleChoice::kZeroBubble) layout.zero %= 2;
  layout.recompute = RecomputeChoice(pick({0, 1, 2}));
  layout.sequence_parallel = layout.tensor > 1 && random() % 2 == 0;
  layout.scatter_gather = random() % 2 == 0;
  layout.overlap = random() % 2 == 0;
  one.job.model.tied = random() % 2 == 0;
  one.job.profile.overlaps_reductions = random() % 2 == 0;
  one.job.world = layout.tensor * layout.pipeline * layout.data;
  return one;
}

double all_parts(const StepParts& parts) {
  return parts.forward + parts.backward + parts.communication() + parts.optimizer + parts.bubble +
         parts.host;
}

/// Of the first micro-batch's activation into the next coordinate.
double hop_into(const Job& job, const LayoutConfig& layout, size_t stage) {
  return price(job, layout).stages[stage - 1].hops.forward;
}

}  // namespace

TEST_CASE("a thousand layouts: the parts of every coordinate add up, no bound is above its step",
          "[estimate]") {
  std::mt19937_64 random(20240307);
  double closest = 0;
  for (int i = 0; i < 1000; ++i) {
    const EstimateCase one = random_case(random);
    CAPTURE(i, one.job.profile.name, one.layout.tensor, one.layout.pipeline, one.layout.data);
    const Estimate result = estimate(one.job, one.layout);
    REQUIRE(result.bound_seconds <= result.step_seconds * (1 + 1e-12));
    closest = std::max(closest, result.bound_seconds / result.step_seconds);
    REQUIRE(result.coordinates.size() == size_t(one.layout.pipeline));
    for (const StepParts& parts : result.coordinates) {
      REQUIRE(all_parts(parts) == Approx(result.step_seconds).epsilon(1e-12));
      const double least = -1e-9 * result.step_seconds;
      for (const double part :
           {parts.forward, parts.backward, parts.replay, parts.tensor, parts.pipeline, parts.data,
            parts.tied, parts.optimizer, parts.bubble, parts.host}) {
        REQUIRE(part >= least);
      }
      REQUIRE(parts.replay <= parts.backward);
    }
    REQUIRE(result.tokens_per_second * result.step_seconds == Approx(64.0 * 1024));
  }
  CHECK(closest > 0.999);  // some bounds are reached
}

TEST_CASE("nothing gets slower on better hardware", "[estimate]") {
  const auto better = [](void (*improve)(Hardware*)) {
    Hardware hardware = estimate_hardware();
    improve(&hardware);
    return hardware;
  };
  const Hardware improved[] = {
      better([](Hardware* hardware) { hardware->peak_bfloat16 *= 1.5; }),
      better([](Hardware* hardware) { hardware->memory_bytes_per_second *= 1.5; }),
      better([](Hardware* hardware) {
        for (CollectiveLine& line : hardware->collectives) line.bytes_per_second *= 1.5;
      }),
      better([](Hardware* hardware) { hardware->node_transfer.bytes_per_second *= 1.5; }),
      better([](Hardware* hardware) { hardware->fabric_transfer.bytes_per_second *= 1.5; }),
      better([](Hardware* hardware) { hardware->collective_seconds /= 2; })};
  std::mt19937_64 random(11);
  for (int i = 0; i < 60; ++i) {
    EstimateCase one = random_case(random);
    const double seconds = estimate(one.job, one.layout).step_seconds;
    for (const Hardware& hardware : improved) {
      one.job.hardware = hardware;
      REQUIRE(estimate(one.job, one.layout).step_seconds <= seconds * (1 + 1e-12));
    }
  }
}

TEST_CASE("all times scale with those of the hardware", "[estimate]") {
  std::mt19937_64 random(5);
  for (int i = 0; i < 20; ++i) {
    EstimateCase one = random_case(random);
    const Estimate before = estimate(one.job, one.layout);
    Hardware& hardware = one.job.hardware;
    hardware.peak_bfloat16 /= 3;
    hardware.memory_bytes_per_second /= 3;
    for (CollectiveLine& line : hardware.collectives) {
      line.alpha_seconds *= 3;
      line.bytes_per_second /= 3;
    }
    for (TransferLine* line : {&hardware.node_transfer, &hardware.fabric_transfer}) {
      line->alpha_seconds *= 3;
      line->bytes_per_second /= 3;
    }
    hardware.collective_seconds *= 3;
    hardware.operation_seconds *= 3;
    hardware.step_seconds *= 3;
    const Estimate after = estimate(one.job, one.layout);
    REQUIRE(after.step_seconds == Approx(3 * before.step_seconds).epsilon(1e-9));
    REQUIRE(after.parts.bubble == Approx(3 * before.parts.bubble).margin(1e-9));
  }
}

TEST_CASE("a pass is the sum of its operations", "[estimate]") {
  const Job job = estimate_job("megatron-2021");
  LayoutConfig layout = estimate_layout(8, 2, 1);
  const Hardware& hardware = job.hardware;
  const auto product = [&](int64_t m, int64_t n, int64_t k, int64_t batch = 1) {
    return product_seconds(hardware, DType::kBFloat16, m, n, k, batch);
  };
  // 1024 rows; of a rank 256 of 2048 attention outputs, 1024 of 8192 between the feed-forwards.
  const double products = product(1024, 768, 2048) + product(1024, 2048, 256) +
                          product(1024, 1024, 2048) + product(1024, 2048, 1024) +
                          product(1024, 1024, 128, 2) + product(1024, 128, 1024, 2);
  const double x = 1024 * 2048, scores = 2 * 1024.0 * 1024;
  const double streams = stream_seconds(hardware, 22 * x + 4 * x / 2 + 9 * scores);
  const GroupShape group = group_shape(hardware, 8, 1);
  const double sums =
      2 * (hardware.collective_seconds + all_reduce_seconds(hardware, group, 2 * x));
  layout.recompute = RecomputeChoice::kFull;
  const Estimate full = price(job, layout);
  // The first of the two stages of eight layers also looks up its rows.
  const double lookup = hardware.collective_seconds + all_reduce_seconds(hardware, group, 2 * x);
  const StageTimes& first = full.stages[0];
  CHECK(first.price.forward ==
        Approx(8 * (products + streams + sums) + lookup + stream_seconds(hardware, 7 * x)));
  CHECK(first.tensor_forward == Approx(8 * sums + lookup));
  CHECK(first.replay == Approx(8 * (products + streams)));
  CHECK(first.tensor_backward == Approx(2 * 8 * sums));
}

TEST_CASE("collectives hide beside the products of their linear", "[estimate]") {
  const Job job = estimate_job();
  const Hardware& hardware = job.hardware;
  LayoutConfig layout = estimate_layout(4, 4, 1);
  const double x = 1024 * 2048;
  const GroupShape group = group_shape(hardware, 4, 1);
  const auto exposed = [&](int64_t outputs, bool is_input, double sum) {
    const double product =
        is_input ? product_seconds(hardware, DType::kBFloat16, 1024, 2048, outputs, 1)
                 : product_seconds(hardware, DType::kBFloat16, outputs, 2048, 1024, 1);
    return both_seconds(hardware, product, hardware.collective_seconds + sum) - product;
  };
  const double sum = all_reduce_seconds(hardware, group, 2 * x);
  double all = 4 * (exposed(1536, false, sum) + exposed(2048, false, sum));
  CHECK(price(job, layout).stages[1].tensor_backward == Approx(all));
  layout.sequence_parallel = true;
  const double half = half_collective_seconds(hardware, group, 2 * x);
  all = 4 * (2 * (hardware.collective_seconds + half) + exposed(1536, true, half) +
             exposed(2048, true, half) + exposed(1536, false, half) + exposed(2048, false, half));
  CHECK(price(job, layout).stages[1].tensor_backward == Approx(all));
  layout.overlap = false;
  all = 4 * 6 * (hardware.collective_seconds + half);
  CHECK(price(job, layout).stages[1].tensor_backward == Approx(all));
}

TEST_CASE("each boundary has its own link, and tensor ranks share a message", "[estimate]") {
  const Job job = estimate_job();
  const Hardware& hardware = job.hardware;
  const double bytes = 2 * 1024 * 2048;
  LayoutConfig layout = estimate_layout(4, 4, 1);
  layout.scatter_gather = false;
  CHECK(hop_into(job, layout, 1) == transfer_seconds(hardware, true, bytes));
  CHECK(hop_into(job, layout, 2) == transfer_seconds(hardware, false, bytes));
  CHECK(hop_into(job, layout, 3) == transfer_seconds(hardware, true, bytes));
  CHECK(price(job, layout).stages[2].hops.backward == hop_into(job, layout, 2));
  CHECK(price(job, layout).stages[3].hops.forward == 0);
  layout.scatter_gather = true;
  const double gather = half_collective_seconds(hardware, group_shape(hardware, 4, 1), bytes);
  CHECK(hop_into(job, layout, 2) == Approx(transfer_seconds(hardware, false, bytes / 4) + gather));
  layout.sequence_parallel = true;
  CHECK(hop_into(job, layout, 2) == Approx(transfer_seconds(hardware, false, bytes / 4)));
  // From the last coordinate back to the first one's second chunk.
  layout = estimate_layout(4, 4, 1);
  layout.interleave = 2;
  layout.schedule = ScheduleChoice::kInterleaved;
  CHECK(hop_into(job, layout, 4) == hop_into(job, layout, 2));
  CHECK(hop_into(job, layout, 5) == hop_into(job, layout, 1));
}

TEST_CASE("the data axis by ZeRO stage", "[estimate]") {
  Job job = estimate_job();
  job.model.tied = false;
  const Hardware& hardware = job.hardware;
  LayoutConfig layout = estimate_layout(8, 2, 4);
  const GroupShape group = group_shape(hardware, 4, 8);
  REQUIRE(group.nodes == 4);
  // Of the second stage: eight layers, the final norm, the head. Parts of a unit begin at 64.
  const double layer = 12 * 2048.0 * 2048 / 8 + 768 + 1024 + 6 * 2048;
  const double norm = 2 * 2048, head = 51200.0 * 2048 / 8;
  const auto exchange = [&](double bytes) {
    const auto one = [&](double unit) { return half_collective_seconds(hardware, group, unit); };
    return 8 * one(bytes * layer) + one(bytes * norm) + one(bytes * head);
  };
  // The engine's unit by unit; a sum over them takes the mean size, which is the same.
  Estimate result = price(job, layout);
  CHECK(result.stages[1].data.reduce == Approx(exchange(4)));
  CHECK(result.step.slices >= exchange(4) * (1 - 1e-12));
  CHECK(result.step.gathers == 0);
  layout.zero = 1;
  result = price(job, layout);
  CHECK(result.stages[1].data.reduce == Approx(exchange(4)));
  CHECK(result.stages[1].data.gather_after == Approx(exchange(2)));
  CHECK(result.step.slices == 0);
  layout.zero = 3;
  result = price(job, layout);
  CHECK(result.stages[1].data.gather_forward == Approx(exchange(2)));
  // Backward the head is not needed again: its gradients came with the forward pass.
  const double again = 8 * half_collective_seconds(hardware, group, 2 * layer) +
                       half_collective_seconds(hardware, group, 2 * norm);
  CHECK(result.stages[1].data.gather_backward == Approx(again).epsilon(0.01));
  // Published software reduces all at once, in 2 bytes.
  job = estimate_job("megatron-2021");
  layout = estimate_layout(8, 2, 4);
  const double elements = 8 * layer + norm + head;
  CHECK(price(job, layout).stages[1].data.reduce ==
        Approx(all_reduce_seconds(hardware, group, 2 * elements)).epsilon(1e-4));
  const double tied = all_reduce_seconds(hardware, {2, 1, 2}, 2 * head);
  CHECK(price(job, layout).step.tied == Approx(tied));
}

TEST_CASE("ZeRO-3 of published software moves all weights twice beside passes", "[estimate]") {
  const Job job = estimate_job("deepspeed-2021");
  LayoutConfig layout = estimate_layout(1, 1, 64);
  layout.zero = 3;
  layout.recompute = RecomputeChoice::kFull;
  const Estimate result = estimate(job, layout);
  const StageTimes& stage = result.stages[0];
  const double parameters =
      16 * (12 * 2048.0 * 2048 + 13 * 2048) + 51200 * 2048.0 + 1024 * 2048.0 + 2 * 2048;
  const double gather = 2 * parameters * 63 / 64 / 16e9;
  CHECK(stage.data.gather_forward == Approx(gather).epsilon(1e-4));
  const double passes = both_seconds(job.hardware, stage.price.forward, gather) +
                        both_seconds(job.hardware, stage.price.backward, 2 * gather);
  CHECK(result.step_seconds - result.step.whole() == Approx(passes).epsilon(1e-4));
}

TEST_CASE("FLOPs of a step by convention", "[estimate]") {
  // The model of 175e9 weights: 72Blsh²(1 + s/6h + V/12lh), and 96Blsh²(1 + s/6h + V/16lh).
  Job job = estimate_job("megatron-2021");
  job.model.layers = 96;
  job.model.hidden = 12288;
  job.model.heads = job.model.key_value_heads = 96;
  job.model.feed_forward = 4 * 12288;
  job.model.sequence_length = job.train.sequence_length = 2048;
  job.train.global_batch = 1536;
  LayoutConfig layout = estimate_layout(8, 12, 4);
  const double s = 2048, h = 12288, l = 96, v = 51200, base = 1536 * l * s * h * h;
  const double model = 72 * base * (1 + s / (6 * h) + v / (12 * l * h));
  CHECK(step_flops(job, layout).model == Approx(model));
  CHECK(step_flops(job, layout).causal ==
        Approx(72 * base * (1 + s / (12 * h) + v / (12 * l * h))));
  CHECK(step_flops(job, layout).hardware == Approx(model));
  layout.recompute = RecomputeChoice::kFull;
  CHECK(step_flops(job, layout).hardware ==
        Approx(96 * base * (1 + s / (6 * h) + v / (16 * l * h))));
  layout.recompute = RecomputeChoice::kSelective;
  CHECK(step_flops(job, layout).hardware == Approx(model + 1536 * l * 4 * s * s * h));
  job.profile = find_profile("plait");
  CHECK(step_flops(job, layout).hardware == Approx(model));
}

// Work lists: products and bytes of a stage by hand, in the engine and in published software, and
// the engine's collectives against the bytes that its ranks send.
#include "engine/planner/work.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "engine/planner/traffic.h"

using namespace plait;

namespace {

/// Eight layers; 2 sequences of 128 tokens in a micro-batch of the layouts below.
Job work_job(const char* profile) {
  Job job;
  job.model.layers = 8;
  job.model.hidden = 256;
  job.model.heads = job.model.key_value_heads = 8;
  job.model.head_size = 32;
  job.model.feed_forward = 1024;
  job.model.vocab_size = 1000;
  job.model.sequence_length = job.train.sequence_length = 128;
  job.model.tied = true;
  job.precision.compute = job.precision.residual = DType::kBFloat16;
  job.train.global_batch = 16;
  job.profile = find_profile(profile);
  return job;
}

LayoutConfig work_layout(int64_t tensor, int64_t pipeline, bool is_cut = false) {
  LayoutConfig layout;
  layout.tensor = tensor;
  layout.pipeline = pipeline;
  layout.micro_batch = 2;
  layout.sequence_parallel = is_cut;
  layout.scatter_gather = false;
  return layout;
}

double list_flops(const WorkList& list) {
  double sum = 0;
  for (const Work& work : list) {
    const double one = work.kind == WorkKind::kProduct ? 2.0 * double(work.m) * double(work.n) *
                                                             double(work.k) * double(work.batch)
                                                       : work.flops;
    sum += one * double(work.count);
  }
  return sum;
}

double list_bytes(const WorkList& list, WorkKind kind, const char* name = nullptr) {
  double sum = 0;
  for (const Work& work : list) {
    if (work.kind != kind || (name != nullptr && std::strcmp(work.name, name) != 0)) continue;
    sum += work.bytes * double(work.count);
  }
  return sum;
}

int64_t list_count(const WorkList& list, WorkKind kind, Beside beside = Beside::kNothing) {
  int64_t sum = 0;
  for (const Work& work : list) {
    if (work.kind == kind && work.beside == beside) sum += work.count;
  }
  return sum;
}

constexpr double kTokens = 256, kHidden = 256, kStream = kTokens * kHidden;  // elements
constexpr double kLinear = 2 * kTokens * 12 * kHidden * kHidden;             // FLOPs of a layer
constexpr double kScores = 2 * 8 * 128 * 128;                                // b·a·s²

}  // namespace

TEST_CASE("products of a stage are those of its layers, twice backward", "[work]") {
  for (const char* profile : {"plait", "megatron-2021", "megatron-2022", "deepspeed-2021"}) {
    for (const int64_t tensor : {1, 2, 4}) {
      const Job job = work_job(profile);
      const StageWork middle = stage_work(job, work_layout(tensor, 4), 1);
      // Fused attention counts its causal half, and 2.5 times that backward.
      const double attention = 4 * kScores * 32 * (job.profile.has_fused_attention ? 0.5 : 1);
      const double again = job.profile.has_fused_attention ? 2.5 : 2;
      const double t = double(tensor);
      CHECK(list_flops(middle.forward) == Approx(2 * (kLinear + attention) / t));
      CHECK(list_flops(middle.backward_input) == Approx(2 * (kLinear + again * attention) / t));
      CHECK(list_flops(middle.backward_weight) == Approx(2 * kLinear / t));
      CHECK(middle.replay.empty());
    }
  }
}

TEST_CASE("the head: the engine leaves its gradients with the forward pass", "[work]") {
  // 1000 ids are padded to 1024: 2·128·4.
  const double head = 2 * kTokens * kHidden * 1024 / 2;
  Job job = work_job("plait");
  LayoutConfig layout = work_layout(2, 4);
  const double layers = list_flops(stage_work(job, layout, 1).forward);
  const double input = list_flops(stage_work(job, layout, 1).backward_input);
  StageWork last = stage_work(job, layout, 3);
  CHECK(list_flops(last.forward) == Approx(layers + 3 * head));
  CHECK(list_flops(last.backward_input) == Approx(input));
  CHECK(list_bytes(last.forward, WorkKind::kStream, "loss") == (12 + 8) * kTokens * 512);
  job.profile = find_profile("megatron-2021");
  last = stage_work(job, layout, 3);
  const StageWork middle = stage_work(job, layout, 1);
  CHECK(list_flops(last.forward) - list_flops(middle.forward) == Approx(head));
  CHECK(list_flops(last.backward_input) - list_flops(middle.backward_input) == Approx(head));
  CHECK(list_flops(last.backward_weight) - list_flops(middle.backward_weight) == Approx(head));
  CHECK(list_bytes(last.forward, WorkKind::kStream, "loss") == 14 * kTokens * 512);
  CHECK(list_bytes(last.backward_input, WorkKind::kStream, "loss") == 14 * kTokens * 512);
}

TEST_CASE("logits come in chunks of rows", "[work]") {
  Job job = work_job("plait");
  job.model.vocab_size = 1 << 20;  // 32 rows are 2²⁵ logits; a chunk has 64 at least
  const StageWork last = stage_work(job, work_layout(1, 4), 3);
  int64_t chunks = 0;
  for (const Work& work : last.forward) {
    if (work.kind != WorkKind::kProduct || std::strcmp(work.name, "head") != 0) continue;
    if (work.n == 1 << 20) chunks += work.count;
    CHECK(work.m * work.n * work.k == int64_t{64} * 256 * (1 << 20));
  }
  CHECK(chunks == 4);
}

TEST_CASE("streams of a published layer, with and without dropout of its own accord", "[work]") {
  Job job = work_job("megatron-2021");
  const StageWork middle = stage_work(job, work_layout(2, 4), 1);
  // Norms 8, two residual adds 2·7, GELU 4 by M·f/t, scores 4 + 5, all of two layers.
  const double forward = 2 * ((8 + 14) * kStream + 4 * kTokens * 1024 / 2 + 9 * kScores / 2);
  CHECK(list_bytes(middle.forward, WorkKind::kStream) == Approx(forward));
  const double backward =
      2 * ((12 + 14 + 12) * kStream + 6 * kTokens * 1024 / 2 + 11 * kScores / 2);
  CHECK(list_bytes(middle.backward_input, WorkKind::kStream) == Approx(backward));
  // 6 bytes by weight for adding gradients up, where there are several micro-batches.
  CHECK(list_bytes(middle.backward_weight, WorkKind::kStream) ==
        Approx(2 * 6 * 12 * kHidden * kHidden / 2));
  job.train.global_batch = 2;
  CHECK(list_bytes(stage_work(job, work_layout(2, 4), 1).backward_weight, WorkKind::kStream) == 0);
  // A cut stream is t times shorter; what is inside the linear pairs is not.
  job.train.global_batch = 16;
  const StageWork cut = stage_work(job, work_layout(2, 4, true), 1);
  CHECK(list_bytes(cut.forward, WorkKind::kStream) == Approx(forward - 2 * 22 * kStream / 2));
}

TEST_CASE("a replay is the layers' forward, or the attention alone, or nothing", "[work]") {
  const auto replay = [](const char* profile, RecomputeChoice recompute,
                         ScheduleChoice schedule = ScheduleChoice::kOneForwardOneBackward) {
    LayoutConfig layout = work_layout(2, 4);
    layout.recompute = recompute;
    layout.schedule = schedule;
    return stage_work(work_job(profile), layout, 1);
  };
  for (const char* profile : {"plait", "megatron-2021"}) {
    const StageWork full = replay(profile, RecomputeChoice::kFull);
    CHECK(list_flops(full.replay) == list_flops(full.forward));
    CHECK(list_count(full.replay, WorkKind::kAllReduce) == 4);
  }
  const StageWork attention = replay("megatron-2022", RecomputeChoice::kSelective);
  CHECK(list_flops(attention.replay) == Approx(2 * 4 * kScores * 32 / 2));
  CHECK(list_bytes(attention.replay, WorkKind::kStream) == Approx(2 * 9 * kScores / 2));
  CHECK(replay("plait", RecomputeChoice::kSelective).replay.empty());
  // The engine's split backward pass keeps whole states.
  CHECK(replay("plait", RecomputeChoice::kFull, ScheduleChoice::kZeroBubble).replay.empty());
}

TEST_CASE("collectives of a layer, and what they run beside", "[work]") {
  const auto middle = [](const char* profile, bool is_cut,
                         ScheduleChoice schedule = ScheduleChoice::kOneForwardOneBackward) {
    LayoutConfig layout = work_layout(2, 4, is_cut);
    layout.schedule = schedule;
    return stage_work(work_job(profile), layout, 1);
  };
  StageWork work = middle("plait", false);
  CHECK(list_count(work.forward, WorkKind::kAllReduce) == 4);
  CHECK(list_count(work.backward_input, WorkKind::kAllReduce, Beside::kWeightGradient) == 4);
  CHECK(list_bytes(work.forward, WorkKind::kAllReduce) == 4 * 2 * kStream);
  work = middle("megatron-2021", false);
  CHECK(list_count(work.backward_input, WorkKind::kAllReduce) == 4);
  work = middle("plait", true);
  CHECK(list_count(work.forward, WorkKind::kAllGather) == 4);
  CHECK(list_count(work.forward, WorkKind::kReduceScatter) == 4);
  CHECK(list_count(work.backward_input, WorkKind::kAllGather) == 4);
  CHECK(list_count(work.backward_input, WorkKind::kAllGather, Beside::kInputGradient) == 4);
  CHECK(list_count(work.backward_input, WorkKind::kReduceScatter, Beside::kWeightGradient) == 4);
  // Parts at different times have nothing to run beside, and bring rows together once more.
  work = middle("plait", true, ScheduleChoice::kZeroBubble);
  CHECK(list_count(work.backward_input, WorkKind::kAllGather) == 4);
  CHECK(list_count(work.backward_input, WorkKind::kReduceScatter) == 4);
  CHECK(list_count(work.backward_weight, WorkKind::kAllGather) == 8);
}

namespace {

/// Bytes that a rank sends for the collectives of its stages in a step.
AxisTraffic sent_by_lists(const Job& job, const LayoutConfig& layout, int64_t coordinate) {
  const int64_t t = layout.tensor, m = micro_batches(job, layout);
  AxisTraffic sent;
  for (int64_t chunk = 0; chunk < layout.interleave; ++chunk) {
    const StageWork work = stage_work(job, layout, chunk * layout.pipeline + coordinate);
    for (const WorkList* list :
         {&work.forward, &work.replay, &work.backward_input, &work.backward_weight}) {
      for (const Work& one : *list) {
        const int64_t share = int64_t(one.bytes) / t * (t - 1) * one.count * m;
        if (one.kind == WorkKind::kAllReduce) sent.all_reduce += 2 * share;
        if (one.kind == WorkKind::kReduceScatter) sent.reduce_scatter += share;
        if (one.kind == WorkKind::kAllGather) sent.all_gather += share;
      }
    }
  }
  return sent;
}

}  // namespace

TEST_CASE("the engine's collectives over the tensor axis are those that its ranks count",
          "[work]") {
  int cases = 0;
  for (const int64_t tensor : {2, 4}) {
    for (const int64_t pipeline : {1, 2}) {
      for (int which = 0; which < 16; ++which) {
        Job job = work_job("plait");
        job.model.sequence_length = job.train.sequence_length = 8192;  // no message is small
        LayoutConfig layout = work_layout(tensor, pipeline, which % 2 == 1);
        layout.micro_batch = 1;
        layout.recompute = which / 2 % 2 == 1 ? RecomputeChoice::kFull : RecomputeChoice::kNone;
        if (which / 4 % 2 == 1) layout.schedule = ScheduleChoice::kZeroBubble;
        if (which / 8 == 1) job.precision.residual = DType::kFloat32;
        // What a step sends once drops out of the difference to a step of twice the batch.
        Job twice = job;
        twice.train.global_batch *= 2;
        for (int64_t coordinate = 0; coordinate < pipeline; ++coordinate) {
          const int64_t rank = coordinate * tensor;
          const AxisTraffic lists = sent_by_lists(job, layout, coordinate);
          const AxisTraffic one = rank_traffic(job, layout, rank).tensor;
          const AxisTraffic two = rank_traffic(twice, layout, rank).tensor;
          CHECK(lists.all_reduce == two.all_reduce - one.all_reduce);
          CHECK(lists.reduce_scatter == two.reduce_scatter - one.reduce_scatter);
          CHECK(lists.all_gather == two.all_gather - one.all_gather);
          ++cases;
        }
      }
    }
  }
  CHECK(cases == 2 * 16 * 3);
}

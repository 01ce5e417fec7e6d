// A whole run against published figures and against the sums that define it.
#include "engine/planner/run_time.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <string>

#include "engine/config/checks.h"

using namespace plait;

namespace {

constexpr double kDay = 86400;

/// The 175B model of the published runs, batch 1536, 300e9 tokens.
Job job_of_175b(int64_t world) {
  Job job;
  job.model = {.family = FamilyChoice::kGpt2,
               .layers = 96,
               .hidden = 12288,
               .heads = 96,
               .key_value_heads = 96,
               .head_size = 128,
               .feed_forward = 4 * 12288,
               .vocab_size = 51200,
               .sequence_length = 2048,
               .tied = true};
  job.train.global_batch = 1536;
  job.train.sequence_length = 2048;
  job.world = world;
  job.tokens = 300'000'000'000;
  job.hardware.memory_bytes_per_second = 2e12;
  job.hardware.stream_efficiency = 0.5;
  return job;
}

/// Seconds of a step at `rate` FLOP/s of each of `job.world` devices, by equation 3 of 2104.04473.
double step_at(const Job& job, double rate) {
  const double b = 1536, s = 2048, l = 96, h = 12288, v = 51200;
  const double flops = 96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h));
  return flops / (static_cast<double>(job.world) * rate);
}

}  // namespace

TEST_CASE("days of a run are those of its steps") {
  // 384 devices at 144 TFLOP/s: published as 90 days; 8TP/(nX), which leaves attention and the
  // vocabulary out, gives 87.7.
  const Job job = job_of_175b(384);
  const double parameters = static_cast<double>(count_parameters(job.model));
  CHECK(8 * 300e9 * parameters / (384 * 144e12) / kDay == Approx(87.7).margin(0.1));
  const RunTime run = run_time(job, step_at(job, 144e12), 0);
  CHECK(run.steps == 95368);
  CHECK(run.useful_seconds / kDay == Approx(90.05).margin(0.05));
  CHECK(run.wall_seconds == run.useful_seconds);  // nothing fails at a rate of 0
  CHECK(run.goodput == 1);
  CHECK(run.device_hours == Approx(384 * run.wall_seconds / 3600));
  CHECK_FALSE(run.cost);
}

TEST_CASE("the days column of Table 2 comes from its rates") {
  struct Row {
    int64_t devices;
    double teraflops, days;
  };
  for (const Row& row : {Row{384, 153, 84}, Row{768, 149, 43}, Row{1536, 141, 23},
                         Row{384, 144, 90}, Row{768, 88, 74}, Row{1536, 44, 74}}) {
    const Job job = job_of_175b(row.devices);
    const RunTime run = run_time(job, step_at(job, row.teraflops * 1e12), 0);
    INFO(row.devices << " devices at " << row.teraflops);
    CHECK(run.wall_seconds / kDay == Approx(row.days).margin(1));
  }
}

TEST_CASE("failures come as often as they were counted") {
  // 419 interruptions of 16,384 devices in 54 days are about one in 50,000 device-hours.
  Job job = job_of_175b(16384);
  job.hardware.failures = {.per_device_hour = 2e-5,
                           .detect_seconds = 0,
                           .restart_seconds = 0,
                           .load_bytes_per_second = {},
                           .save_bytes_per_second = {}};
  job.save_every = 1;
  const double step = 54 * kDay / 95368;
  const RunTime run = run_time(job, step, 0);
  CHECK(run.failures == Approx(424.7).epsilon(0.01));
  CHECK(run.goodput > 0.99);
}

TEST_CASE("wall time makes good what failures cost") {
  Job job = job_of_175b(1024);
  job.hardware.failures = {.per_device_hour = 2e-5,
                           .detect_seconds = 6,
                           .restart_seconds = 600,
                           .load_bytes_per_second = 1e12,
                           .save_bytes_per_second = 2.73e11};
  job.hardware.price_per_device_hour = 2;
  job.save_every = 100;
  job.evaluate_every = 1000;
  const RunTime run = run_time(job, 32, 20);
  const double parameters = static_cast<double>(count_parameters(job.model));
  CHECK(run.checkpoint_bytes == 14 * parameters);
  // A share of each rank is read and written at 1e12 bytes a second; the files are done long
  // before the next save.
  CHECK(run.save_seconds == Approx(2 * 14 * parameters / 1024 / 1e12));
  CHECK(run.useful_seconds == Approx(95368.0 * 32 + 953 * run.save_seconds + 95 * 20));
  const double each = 6 + 600 + 14 * parameters / 1e12 + (100 * 32 + run.save_seconds) / 2;
  CHECK(run.failure_seconds == Approx(each));
  // What is lost by the failures of the wall time is what the wall time has beyond use.
  const double failures = 1024 * 2e-5 / 3600 * run.wall_seconds;
  CHECK(run.failures == Approx(failures));
  CHECK(run.useful_seconds + failures * each == Approx(run.wall_seconds));
  CHECK(run.goodput == Approx(run.useful_seconds / run.wall_seconds));
  CHECK(*run.cost == Approx(2 * 1024 * run.wall_seconds / 3600));
  CHECK(run.does_finish);
}

TEST_CASE("the best distance of saves makes the run shortest") {
  Job job = job_of_175b(4096);
  job.hardware.failures = {.per_device_hour = 2e-5,
                           .detect_seconds = 6,
                           .restart_seconds = 60,
                           .load_bytes_per_second = {},
                           .save_bytes_per_second = {}};
  job.hardware.memory_bytes_per_second = 1e9;  // so that a save costs something
  const auto wall = [&](double every) {
    job.save_every = std::llround(every);
    return run_time(job, 2, 0).wall_seconds;
  };
  job.save_every = 1;
  const double best = run_time(job, 2, 0).best_save_every;
  CHECK(best > 10);
  CHECK(wall(best) < wall(best * 1.5));
  CHECK(wall(best) < wall(best / 1.5));
}

TEST_CASE("a save that is still written when the next one is due holds it up") {
  Job job = job_of_175b(384);
  job.hardware.failures.save_bytes_per_second = 1e9;
  job.save_every = 10;
  const double parameters = static_cast<double>(count_parameters(job.model));
  const RunTime run = run_time(job, 81.5, 0);
  CHECK(run.save_seconds == Approx(14 * parameters / 1e9 - 815 + 2 * 14 * parameters / 384 / 1e12));
}

TEST_CASE("a run that loses more than it does says which number to change") {
  Job job = job_of_175b(100000);
  job.hardware.failures = {.per_device_hour = 2e-5,
                           .detect_seconds = 6,
                           .restart_seconds = 600,
                           .load_bytes_per_second = {},
                           .save_bytes_per_second = {}};
  const RunTime never_saved = run_time(job, 10, 0);
  CHECK_FALSE(never_saved.does_finish);
  CHECK(std::string(never_saved.number_to_change) == "run.save_every");
  job.save_every = 2;
  job.hardware.failures.restart_seconds = 7200;
  const RunTime slow_restart = run_time(job, 10, 0);
  CHECK_FALSE(slow_restart.does_finish);
  CHECK(std::string(slow_restart.number_to_change) == "hardware.failures.restart_seconds");
  job.hardware.failures.restart_seconds = 600;
  CHECK(run_time(job, 10, 0).does_finish);
}

TEST_CASE("epochs count whole samples of a token file") {
  CHECK(run_epochs(300, 301, 100) == 1);
  CHECK(run_epochs(300, 300, 100) == 1.5);  // 299 targets are two samples
  CHECK(run_epochs(16'500'000, 100'001, 1000) == 165);
  CHECK(run_epochs(10, 100, 100) == 0);
}

// Seconds of single operations against what the formulas give by hand.
#include "engine/planner/cost.h"

#include <catch2/catch.hpp>
#include <cmath>

using namespace plait;

namespace {

constexpr double kGiga = 1e9, kMicro = 1e-6;

Approx exactly(double value) { return Approx(value).epsilon(1e-12); }

/// Nodes of 8 with round figures.
Hardware round_hardware() {
  Hardware hardware;
  hardware.units = 4;
  hardware.peak_float32 = 100 * kGiga;
  hardware.peak_bfloat16 = 200 * kGiga;
  hardware.memory_bytes_per_second = 100 * kGiga;
  hardware.stream_efficiency = 0.5;
  hardware.product_efficiency = 0.5;
  hardware.product_k_overhead = 16;
  hardware.tiles = {{64, 64, 1}};
  hardware.node_devices = 8;
  hardware.half_collective_alpha = 0.5;
  hardware.collectives = {{2, 1, 10 * kMicro, 100 * kGiga, 0, {}},
                          {8, 1, 30 * kMicro, 140 * kGiga, 0, {}},
                          {8, 8, 80 * kMicro, 60 * kGiga, 0, {}},
                          {8, 2, 40 * kMicro, 100 * kGiga, 0, {}},
                          {2, 2, 50 * kMicro, 10 * kGiga, 0, {}}};
  hardware.node_transfer = {5 * kMicro, 200 * kGiga};
  hardware.fabric_transfer = {20 * kMicro, 25 * kGiga};
  return hardware;
}

GroupShape shape_of(int64_t members_per_node, int64_t nodes) {
  return {members_per_node * nodes, members_per_node, nodes};
}

}  // namespace

TEST_CASE("groups lie on nodes as their stride says", "[cost]") {
  const Hardware hardware = round_hardware();
  const struct {
    int64_t members, stride, per_node, nodes;
  } cases[] = {
      {1, 1, 1, 1},   {2, 1, 2, 1},  {8, 1, 8, 1},  {16, 1, 8, 2},  // tensor
      {4, 2, 4, 1},   {8, 2, 4, 2},  {2, 4, 2, 1},  {3, 4, 2, 2},   // data, t < devices
      {16, 8, 1, 16}, {2, 16, 1, 2}, {12, 1, 8, 2}, {2, 3, 2, 1},   // beyond a node
      {3, 3, 2, 2},
  };
  for (const auto& c : cases) {
    INFO(c.members << " members, stride " << c.stride);
    const GroupShape group = group_shape(hardware, c.members, c.stride);
    CHECK(group.members == c.members);
    CHECK(group.members_per_node == c.per_node);
    CHECK(group.nodes == c.nodes);
  }
}

TEST_CASE("all-reduces inside a node lie between the rows, held at the ends", "[cost]") {
  Hardware hardware = round_hardware();
  const auto seconds = [&](int64_t members) {
    return all_reduce_seconds(hardware, shape_of(members, 1), kGiga);
  };
  CHECK(seconds(1) == 0);
  CHECK(seconds(2) == exactly(10 * kMicro + 2 * 0.5 * kGiga / (100 * kGiga)));
  CHECK(seconds(8) == exactly(30 * kMicro + 2 * 0.875 * kGiga / (140 * kGiga)));
  // Halfway between 2 and 8 by the logarithm.
  CHECK(seconds(4) == exactly(20 * kMicro + 2 * 0.75 * kGiga / (120 * kGiga)));
  CHECK(seconds(16) == exactly(30 * kMicro + 2 * 0.9375 * kGiga / (140 * kGiga)));
  hardware.collectives.erase(hardware.collectives.begin());
  CHECK(seconds(2) == exactly(30 * kMicro + 2 * 0.5 * kGiga / (140 * kGiga)));
}

TEST_CASE("all-reduces over nodes: latency goes on beyond the last row, the rate is held",
          "[cost]") {
  Hardware hardware = round_hardware();
  const auto seconds = [&](int64_t per_node, int64_t nodes) {
    return all_reduce_seconds(hardware, shape_of(per_node, nodes), kGiga);
  };
  CHECK(seconds(8, 2) == exactly(40 * kMicro + 2 * 15.0 / 16 / 100));
  CHECK(seconds(8, 4) == exactly(60 * kMicro + 2 * 31.0 / 32 / 80));
  CHECK(seconds(8, 8) == exactly(80 * kMicro + 2 * 63.0 / 64 / 60));
  CHECK(seconds(8, 32) == exactly(120 * kMicro + 2 * 255.0 / 256 / 60));
  // The rows of 2 members a node serve 2 to 7; with a single row both figures are held.
  CHECK(seconds(2, 2) == exactly(50 * kMicro + 2 * 3.0 / 4 / 10));
  CHECK(seconds(5, 4) == exactly(50 * kMicro + 2 * 19.0 / 20 / 10));
  // No row has as few as 1: half of two members' rate.
  CHECK(seconds(1, 2) == exactly(50 * kMicro + 2 * 0.5 / 5));
  // Three members on two nodes cross as three.
  CHECK(all_reduce_seconds(hardware, {3, 2, 2}, kGiga) == exactly(50 * kMicro + 2 * 2.0 / 3 / 10));
  // A latency that falls does not fall below nothing.
  hardware.collectives[2].alpha_seconds = 0;
  CHECK(seconds(8, 1024) == exactly(2 * 8191.0 / 8192 / 60));
}

TEST_CASE("half collectives carry half the bytes and a share of the latency", "[cost]") {
  const Hardware hardware = round_hardware();
  CHECK(half_collective_seconds(hardware, shape_of(1, 1), kGiga) == 0);
  CHECK(half_collective_seconds(hardware, shape_of(8, 1), kGiga) ==
        exactly(15 * kMicro + 0.875 / 140));
  CHECK(half_collective_seconds(hardware, shape_of(8, 4), 0) == exactly(30 * kMicro));
}

TEST_CASE("collectives with measured sizes are read between them", "[cost]") {
  Hardware hardware = round_hardware();
  hardware.collectives[1].points = {{1e6, 1e-3}, {4e6, 4e-3}, {16e6, 8e-3}};
  const GroupShape eight = shape_of(8, 1);
  CHECK(all_reduce_seconds(hardware, eight, 1e6) == exactly(1e-3));
  CHECK(all_reduce_seconds(hardware, eight, 4e6) == exactly(4e-3));
  CHECK(all_reduce_seconds(hardware, eight, 2e6) == exactly(2e-3));
  CHECK(all_reduce_seconds(hardware, eight, 8e6) == exactly(std::sqrt(4e-3 * 8e-3)));
  CHECK(all_reduce_seconds(hardware, eight, 1e3) == exactly(1e-3));
  CHECK(all_reduce_seconds(hardware, eight, 30e6) ==
        exactly(8e-3 + 2 * 0.875 * 14e6 / (140 * kGiga)));
  CHECK(half_collective_seconds(hardware, eight, 4e6) ==
        exactly(15 * kMicro + (4e-3 - 30 * kMicro) / 2));
  // Another shape keeps to the lines.
  CHECK(all_reduce_seconds(hardware, shape_of(4, 1), kGiga) ==
        exactly(20 * kMicro + 2 * 0.75 / 120));
}

TEST_CASE("transfers take the link of their level", "[cost]") {
  const Hardware hardware = round_hardware();
  CHECK(transfer_seconds(hardware, true, kGiga) == exactly(5 * kMicro + 1.0 / 200));
  CHECK(transfer_seconds(hardware, false, kGiga) == exactly(20 * kMicro + 1.0 / 25));
  CHECK(transfer_seconds(hardware, false, 0) == exactly(20 * kMicro));
}

TEST_CASE("products come in waves of tiles", "[cost]") {
  Hardware hardware = round_hardware();
  // A wave: 4 units with a tile of 64 × 64 each, at half the peak.
  const double wave = 2.0 * 64 * 64 * (1024 + 16) * 4 / (50 * kGiga);
  const auto seconds = [&](int64_t m, int64_t batch) {
    return product_seconds(hardware, DType::kFloat32, m, 64, 1024, batch);
  };
  CHECK(seconds(64, 1) == exactly(wave));  // one unit works, three wait
  CHECK(seconds(256, 1) == exactly(wave));
  CHECK(seconds(257, 1) == exactly(wave * (1.25 + 2) / 2));
  CHECK(seconds(512, 1) == exactly(wave * 2));
  CHECK(seconds(64, 6) == exactly(wave * (1.5 + 2) / 2));
  CHECK(product_seconds(hardware, DType::kBFloat16, 512, 64, 1024, 1) == exactly(wave));
  // The tile that takes least decides: four of the large one are one wave at 0.8 of the rate.
  hardware.tiles.push_back({128, 64, 0.8});
  CHECK(seconds(512, 1) == exactly(wave * 2));
  hardware.tiles[1].rate = 1;
  hardware.tiles[0].rate = 0.5;
  CHECK(seconds(512, 1) == exactly(wave * 2));
  CHECK(seconds(64, 1) == exactly(wave * 2));
  hardware.operation_seconds = 3 * kMicro;
  CHECK(seconds(64, 1) == exactly(wave * 2 + 3 * kMicro));
}

TEST_CASE("no product is faster than its matrices cross memory", "[cost]") {
  Hardware hardware = round_hardware();
  hardware.product_k_overhead = 0;
  const double bytes = 4.0 * 3 * (4096.0 + 4096 + 4096.0 * 4096);
  CHECK(product_seconds(hardware, DType::kFloat32, 4096, 4096, 1, 3) ==
        exactly(bytes / (50 * kGiga)));
  CHECK(stream_seconds(hardware, 50 * kGiga) == exactly(1));
  hardware.points = {{4096, 4096, 1, 3, DType::kFloat32, 1e-6}};
  CHECK(product_seconds(hardware, DType::kFloat32, 4096, 4096, 1, 3) ==
        exactly(bytes / (50 * kGiga)));
}

TEST_CASE("measured products count where they are near", "[cost]") {
  Hardware hardware = round_hardware();
  hardware.points = {{512, 512, 512, 1, DType::kFloat32, 0.01},
                     {256, 512, 512, 1, DType::kFloat32, 0.01},
                     {512, 512, 512, 1, DType::kBFloat16, 5}};
  const auto seconds = [&](int64_t m, int64_t k, int64_t batch) {
    return product_seconds(hardware, DType::kFloat32, m, 512, k, batch);
  };
  const double cube = 2.0 * 512 * 512 * 512;
  CHECK(seconds(512, 512, 1) == exactly(0.01));
  // Two octaves from the first, one from the second: weights 1/4 and 1.
  const double rate = (cube / 0.01 / 4 + cube / 2 / 0.01) / 1.25;
  CHECK(seconds(128, 512, 1) == exactly(cube / 4 / rate));
  // √(1 + 1) and √(1 + 4) octaves: the second is out of reach.
  CHECK(seconds(1024, 1024, 1) == exactly(cube * 4 / (cube / 0.01)));
  CHECK(seconds(512, 512, 2) == exactly(2 * cube / ((cube + cube / 2 / 2) / 0.01 / 1.5)));
  // None is near: tiles.
  const double tiles = seconds(512, 4096, 1);
  hardware.points.clear();
  CHECK(tiles == seconds(512, 4096, 1));
}

TEST_CASE("of many measured products the four nearest count", "[cost]") {
  Hardware hardware = round_hardware();
  const double cube = 2.0 * 512 * 512 * 512;
  // Seconds make rates of 1, 2, 3 and 4 units for those one octave away, 100 for one further off.
  const double unit = 1 * kGiga;
  hardware.points = {{2048, 512, 512, 1, DType::kFloat32, cube * 4 / (100 * unit)},
                     {1024, 512, 512, 1, DType::kFloat32, cube * 2 / unit},
                     {512, 1024, 512, 1, DType::kFloat32, cube * 2 / (2 * unit)},
                     {512, 512, 1024, 1, DType::kFloat32, cube * 2 / (3 * unit)},
                     {512, 512, 512, 2, DType::kFloat32, cube * 2 / (4 * unit)}};
  CHECK(product_seconds(hardware, DType::kFloat32, 512, 512, 512, 1) ==
        exactly(cube / (2.5 * unit)));
}

TEST_CASE("two activities at once take little more than the longer one", "[cost]") {
  Hardware hardware = round_hardware();
  hardware.overlap_exponent = 2;
  CHECK(both_seconds(hardware, 3, 4) == exactly(5));
  CHECK(both_seconds(hardware, 4, 3) == exactly(5));
  CHECK(both_seconds(hardware, 0, 7) == 7);
  CHECK(both_seconds(hardware, 0, 0) == 0);
  hardware.overlap_exponent = 3;
  CHECK(both_seconds(hardware, 1, 1) == exactly(std::cbrt(2.0)));
  CHECK(both_seconds(hardware, 1e-200, 1) == 1);
  hardware.overlap_exponent = 1;
  CHECK(both_seconds(hardware, 2, 3) == exactly(5));
}

// Hostile bytes: the fuzz entry on mutations of real texts and lists, a fixed sequence of them.
#include <catch2/catch.hpp>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/schedule/schedule_support.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

using namespace plait;

namespace {

void feed(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

std::string mutate(std::string text, std::mt19937_64& random) {
  static const std::vector<std::string> kPieces = {
      "\n",         " ",    "0",        "1 ",    "-",       "9223372036854775807",
      "#",          "step", "forward ", "send ", "gather ", "pipeline ",
      "kind gpipe", "\xFF", "zero 3"};
  const size_t edits = 1 + random() % 3;
  for (size_t i = 0; i < edits; ++i) {
    const size_t at = random() % (text.size() + 1);
    switch (random() % 4) {
      case 0:
        text.insert(at, kPieces[random() % kPieces.size()]);
        break;
      case 1:
        text.erase(at, random() % 24);
        break;
      case 2:
        if (at < text.size()) text[at] = static_cast<char>(random());
        break;
      default:
        text.insert(at, text.substr(random() % (text.size() + 1), random() % 32));
        break;
    }
  }
  return text;
}

}  // namespace

TEST_CASE("mutated texts are schedules or errors of their author", "[hostile]") {
  const std::vector<std::string> seeds = {
      schedule_text(make(ScheduleKind::kGpipe, 1, 1, 2, 3)),
      schedule_text(make(ScheduleKind::kOneForwardOneBackward, 2, 1, 3, 1)),
      schedule_text(make(ScheduleKind::kZeroBubble, 2, 1, 3, 0)),
      schedule_text(make(ScheduleKind::kInterleaved, 2, 2, 2, 2)),
      schedule_text(make(ScheduleKind::kForwardOnly, 3, 2, 4, 3))};
  std::mt19937_64 random(20240607);
  for (size_t round = 0; round < 3000; ++round) {
    feed('\0' + mutate(seeds[round % seeds.size()], random));
  }
  SUCCEED("no crash, no invariant, no schedule that does not end");
}

TEST_CASE("edited lists are refused or equal in their instructions", "[hostile]") {
  std::mt19937_64 random(20240608);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes(1, '\1');
    const size_t size = 5 + 3 * (1 + random() % 3);
    for (size_t i = 0; i < size; ++i) bytes += static_cast<char>(random());
    feed(bytes);
  }
  SUCCEED("what is accepted holds what the generator made");
}

// Texts of schedules. Whatever the bytes, there is an Error that the text's author is told, or a
// schedule that comes back byte for byte and whose lists run to their end.
//
// Input: byte 0 chooses; even: the rest is a text; odd: byte 1 … 5 make a shape, the rest edits
// the lines of its text, three bytes an edit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "engine/planner/simulate.h"
#include "engine/schedule/schedule.h"
#include "kernels/base/error.h"

namespace {

using namespace plait;

void expect(bool condition) {
  if (!condition) std::abort();
}

/// True when the text is a schedule.
bool read_text(const std::string& text, Schedule* out) {
  try {
    *out = parse_schedule(text);
  } catch (const Error& error) {
    expect(error.word() == "argument" || error.word() == "format");
    expect(error.message().find("line=") != std::string::npos);
    return false;
  }
  const std::string again = schedule_text(*out);
  expect(parse_schedule(again) == *out && schedule_text(parse_schedule(again)) == again);
  SimulationPrices prices;
  prices.stages.assign(static_cast<size_t>(out->shape.pipeline * out->shape.chunks), {1, 2, 1, 1});
  const Simulation simulation = simulate(*out, prices);
  const double micro_batches = static_cast<double>(out->shape.micro_batches);
  const double each = out->shape.kind == ScheduleKind::kForwardOnly ? 1 : 3;
  expect(simulation.makespan >= micro_batches * each * static_cast<double>(out->shape.chunks));
  return true;
}

std::vector<std::string> sorted_lines(const InstructionList& list) {
  std::vector<std::string> lines;
  for (const Instruction& instruction : list) lines.push_back(instruction_text(instruction));
  std::sort(lines.begin(), lines.end());
  return lines;
}

void edit(std::vector<std::string>& lines, uint8_t what, uint8_t first, uint8_t second) {
  const size_t a = first % lines.size(), b = second % lines.size();
  switch (what % 6) {
    case 0:
      lines.erase(lines.begin() + static_cast<std::ptrdiff_t>(a));
      break;
    case 1:
      lines.insert(lines.begin() + static_cast<std::ptrdiff_t>(b), lines[a]);
      break;
    case 2:
      std::swap(lines[a], lines[b]);
      break;
    case 3:
      std::swap(lines[a], lines[(a + 1) % lines.size()]);
      break;
    case 4:
      lines[a] += "  # " + std::string(1, static_cast<char>(second));
      break;
    default:
      if (!lines[a].empty())
        lines[a][second % lines[a].size()] = static_cast<char>('0' + what % 10);
      break;
  }
  if (lines.empty()) lines.push_back("step");
}

/// Edits of a good text: what is accepted holds the instructions of the generated lists.
void edit_lists(const uint8_t* data, size_t size) {
  const ScheduleShape shape{static_cast<ScheduleKind>(data[0] % 5), data[1] % 4 + 1,
                            data[2] % 3 + 1, data[3] % 6 + 1, data[4] % 4};
  Schedule good;
  try {
    good = make_schedule(shape);
  } catch (const Error& error) {
    expect(error.word() == "argument");
    return;
  }
  std::vector<std::string> lines;
  std::istringstream stream(schedule_text(good));
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  for (size_t i = 5; i + 3 <= size; i += 3) edit(lines, data[i], data[i + 1], data[i + 2]);
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  Schedule edited;
  if (!read_text(text, &edited) || edited.shape != shape) return;
  for (size_t i = 0; i < good.lists.size(); ++i) {
    // zero_bubble may also run a backward pass whole.
    if (shape.kind == ScheduleKind::kZeroBubble) continue;
    expect(sorted_lines(edited.lists[i]) == sorted_lines(good.lists[i]));
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  if (data[0] % 2 == 0) {
    Schedule ignored;
    read_text(std::string(reinterpret_cast<const char*>(data + 1), size - 1), &ignored);
  } else if (size >= 6) {
    edit_lists(data + 1, size - 1);
  }
  return 0;
}

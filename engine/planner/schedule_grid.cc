#include "engine/planner/schedule_grid.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "engine/planner/simulate.h"

namespace plait {
namespace {

char letter(Operation operation) {
  switch (operation) {
    case Operation::kForward:
      return 'F';
    case Operation::kBackward:
      return 'B';
    case Operation::kBackwardInput:
      return 'I';
    case Operation::kBackwardWeight:
      return 'W';
    default:
      return 0;
  }
}

}  // namespace

std::string schedule_grid(const Schedule& schedule, int64_t most_columns) {
  const ScheduleShape& shape = schedule.shape;
  SimulationPrices prices;
  prices.stages.assign(static_cast<size_t>(shape.pipeline * shape.chunks), {1, 1, 1, 1});
  const Simulation times = simulate(schedule, prices);
  const auto length = static_cast<int64_t>(std::lround(times.makespan));
  const int64_t columns = std::min(length, most_columns);
  std::vector<std::vector<std::string>> cells(
      schedule.lists.size(), std::vector<std::string>(static_cast<size_t>(columns), "·"));
  size_t width = 2;
  for (size_t coordinate = 0; coordinate < schedule.lists.size(); ++coordinate) {
    for (size_t i = 0; i < schedule.lists[coordinate].size(); ++i) {
      const Instruction& instruction = schedule.lists[coordinate][i];
      const auto column =
          static_cast<int64_t>(std::lround(times.coordinates[coordinate].instructions[i].begin));
      if (letter(instruction.operation) == 0 || column >= columns) continue;
      std::string cell = letter(instruction.operation) + std::to_string(instruction.micro);
      if (shape.chunks > 1) cell += "." + std::to_string(instruction.stage);
      width = std::max(width, cell.size());
      cells[coordinate][static_cast<size_t>(column)] = std::move(cell);
    }
  }
  std::string text;
  for (size_t coordinate = 0; coordinate < cells.size(); ++coordinate) {
    text += "pipeline " + std::to_string(coordinate) + " |";
    for (const std::string& cell : cells[coordinate]) {
      const size_t shown = cell == "·" ? 1 : cell.size();
      text += " " + cell + std::string(width - shown, ' ');
    }
    text += length > columns ? " …\n" : "\n";
  }
  return text;
}

}  // namespace plait

// What is proved of every schedule before a rank runs it.
#include <algorithm>
#include <map>

#include "engine/schedule/schedule.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

/// How far one stage has come.
struct Progress {
  int64_t forward = 0, input = 0, weight = 0;  // micro-batches done
  bool is_reduced = false;
};

class Checker {
 public:
  Checker(const Schedule& schedule, int64_t coordinate)
      : shape_(schedule.shape),
        coordinate_(coordinate),
        list_(schedule.lists[static_cast<size_t>(coordinate)]) {}

  void run() {
    for (line_ = 0; line_ < list_.size(); ++line_) check_line(list_[line_]);
    line_ = list_.empty() ? 0 : list_.size() - 1;
    require(!list_.empty() && list_.back().operation == Operation::kStep, "a list ends with step");
    require(static_cast<int64_t>(stages_.size()) == shape_.chunks, "every stage occurs");
    for (const auto& [stage, progress] : stages_) {
      require(progress.forward == shape_.micro_batches && progress.input == shape_.micro_batches &&
                  progress.weight == shape_.micro_batches && progress.is_reduced,
              "every micro-batch of every stage is complete and reduced");
    }
  }

 private:
  void require(bool condition, const char* what) const {
    if (condition) return;
    throw Error("invariant", what)
        .with("pipeline", coordinate_)
        .with("line", line_)
        .with("instruction", line_ < list_.size() ? instruction_text(list_[line_]) : "");
  }

  void check_line(const Instruction& instruction) {
    if (instruction.operation == Operation::kStep) {
      require(line_ + 1 == list_.size(), "step is last");
      return;
    }
    require(instruction.stage % shape_.pipeline == coordinate_, "a stage runs on its coordinate");
    Progress& progress = stages_[instruction.stage];
    const int64_t micro = instruction.micro;
    switch (instruction.operation) {
      case Operation::kForward:
        require(micro == progress.forward++, "forward in ascending micro-batches");
        break;
      case Operation::kBackward:
        require(micro == progress.input++ && micro == progress.weight++ && micro < progress.forward,
                "backward after forward, in ascending micro-batches");
        break;
      case Operation::kBackwardInput:
        require(micro == progress.input++ && micro < progress.forward,
                "backward_input after forward, in ascending micro-batches");
        break;
      case Operation::kBackwardWeight:
        require(micro == progress.weight++ && micro < progress.input,
                "backward_weight after backward_input, in ascending micro-batches");
        break;
      case Operation::kReduce:
        require(progress.weight == shape_.micro_batches && !progress.is_reduced,
                "reduce once, after the last weight gradient");
        progress.is_reduced = true;
        break;
      case Operation::kStep:
        break;
    }
  }

  const ScheduleShape& shape_;
  int64_t coordinate_;
  const std::vector<Instruction>& list_;
  size_t line_ = 0;
  std::map<int64_t, Progress> stages_;
};

}  // namespace

void validate(const Schedule& schedule) {
  check(static_cast<int64_t>(schedule.lists.size()) == schedule.shape.pipeline,
        "a schedule has one list for each pipeline coordinate");
  for (int64_t coordinate = 0; coordinate < schedule.shape.pipeline; ++coordinate) {
    Checker(schedule, coordinate).run();
  }
}

int64_t peak_alive(const std::vector<Instruction>& list) {
  std::map<int64_t, int64_t> alive;
  int64_t peak = 0;
  const bool is_split = std::any_of(list.begin(), list.end(), [](const Instruction& i) {
    return i.operation == Operation::kBackwardWeight;
  });
  const Operation last = is_split ? Operation::kBackwardWeight : Operation::kBackward;
  for (const Instruction& instruction : list) {
    if (instruction.operation == Operation::kForward) {
      peak = std::max(peak, ++alive[instruction.stage]);
    } else if (instruction.operation == last) {
      --alive[instruction.stage];
    }
  }
  return peak;
}

}  // namespace plait

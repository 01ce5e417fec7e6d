// What is proved of one coordinate's list.
#include <algorithm>
#include <vector>

#include "engine/schedule/operation.h"
#include "engine/schedule/proof.h"
#include "engine/schedule/shape.h"

namespace plait {
namespace {

/// How far one stage has come.
struct Progress {
  int64_t forward = 0, input = 0, weight = 0;  // micro-batches done
  int64_t reduced = 0;                         // reduces run
};

/// One (micro, stage), or none.
struct Pair {
  int64_t micro = -1, stage = -1;
  bool operator==(const Pair&) const = default;
};
constexpr Pair kNone;

class ListProof {
 public:
  ListProof(const Schedule& schedule, const ScheduleSource& source, int64_t coordinate)
      : shape_(schedule.shape),
        list_(schedule.lists[static_cast<size_t>(coordinate)]),
        point_{schedule, source, coordinate, 0},
        table_(peak_of_table(shape_, coordinate)) {}

  void run();

 private:
  bool is_forward_only() const { return shape_.kind == ScheduleKind::kForwardOnly; }
  bool reduces_each() const { return shape_.zero >= 2; }
  bool is_here(int64_t stage) const {
    return stage >= 0 && stage < stage_count(shape_) &&
           stage % shape_.pipeline == point_.coordinate;
  }
  Progress& progress(int64_t stage) {
    return progress_[static_cast<size_t>(stage / shape_.pipeline)];
  }
  void require(bool condition, const char* what) const {
    if (!condition) throw point_.error(what);
  }

  void check_operands(const Instruction& i) const;
  void visit(const Instruction& i);
  void forward(const Instruction& i);
  void input_part(const Instruction& i);
  void weight_part(const Instruction& i);
  void use_message(int direction, const Instruction& i);
  void make_message(int direction, const Instruction& i, int64_t stage);
  void use_window(int64_t stage);
  void send(const Instruction& i);
  void receive(const Instruction& i);
  void gather(const Instruction& i);
  void release(const Instruction& i);
  void reduce(const Instruction& i);
  void step();
  void require_complete();

  const ScheduleShape& shape_;
  const InstructionList& list_;
  SchedulePoint point_;
  int64_t table_;
  std::vector<Progress> progress_;  // of each chunk
  Pair unsent_[2], unused_[2];      // of each direction
  Pair unreduced_;                  // ZeRO 2, 3
  int64_t open_ = -1;               // the stage whose weights are gathered, ZeRO 3
  bool is_used_ = false;            // the open stage ran
  int64_t alive_ = 0, peak_ = 0;
  bool is_stepped_ = false;
  int64_t gathered_ = 0;  // chunks, after the step
};

void ListProof::run() {
  // Sizes first: memory for the proof is taken only where a list of that length was given.
  const int64_t pairs = shape_.chunks * shape_.micro_batches;
  point_.index = list_.size();
  require(static_cast<int64_t>(list_.size()) >= pairs * (is_forward_only() ? 1 : 2),
          "every micro-batch of every stage has its instructions");
  progress_.resize(static_cast<size_t>(shape_.chunks));
  for (point_.index = 0; point_.index < list_.size(); ++point_.index) visit(list_[point_.index]);
  if (is_forward_only()) {
    require_complete();
    return;
  }
  require(is_stepped_, "a list has a step at its end");
  const bool gathers = shape_.zero == 1 || shape_.zero == 2;
  require(gathered_ == (gathers ? shape_.chunks : 0),
          "after the step the weights of every stage are gathered");
}

void ListProof::check_operands(const Instruction& i) const {
  const bool has_micro = operand_count(i.operation) == 2;
  require(has_micro ? i.micro >= 0 && i.micro < shape_.micro_batches : i.micro == 0,
          "an instruction names a micro-batch of the step");
  if (operand_count(i.operation) == 0) {
    require(i.stage == 0, "a step names no stage");
    return;
  }
  if (!is_send(i.operation)) {
    require(is_here(i.stage), "an instruction names a stage of its coordinate");
    return;
  }
  const bool is_stage = i.stage >= 0 && i.stage < stage_count(shape_);
  require(is_stage && is_here(direction_of(i.operation) == 0 ? i.stage - 1 : i.stage + 1),
          "a message goes from a stage of its coordinate to the next stage");
}

void ListProof::visit(const Instruction& i) {
  check_operands(i);
  require(!is_stepped_ || i.operation == Operation::kGather, "only gathers follow the step");
  switch (i.operation) {
    case Operation::kForward:
      forward(i);
      break;
    case Operation::kBackward:
      input_part(i);
      weight_part(i);
      break;
    case Operation::kBackwardInput:
      require(shape_.kind == ScheduleKind::kZeroBubble,
              "only zero_bubble splits the backward pass");
      input_part(i);
      break;
    case Operation::kBackwardWeight:
      require(shape_.kind == ScheduleKind::kZeroBubble,
              "only zero_bubble splits the backward pass");
      weight_part(i);
      break;
    case Operation::kSendForward:
    case Operation::kSendBackward:
      send(i);
      break;
    case Operation::kReceiveForward:
    case Operation::kReceiveBackward:
      receive(i);
      break;
    case Operation::kGather:
      gather(i);
      break;
    case Operation::kRelease:
      release(i);
      break;
    case Operation::kReduce:
      reduce(i);
      break;
    case Operation::kStep:
      step();
      break;
  }
}

void ListProof::forward(const Instruction& i) {
  require(i.micro == progress(i.stage).forward,
          "a stage runs forward once for each micro-batch, ascending");
  if (i.stage > 0) use_message(0, i);
  use_window(i.stage);
  if (i.stage + 1 < stage_count(shape_)) make_message(0, i, i.stage + 1);
  ++progress(i.stage).forward;
  if (is_forward_only()) return;
  peak_ = std::max(peak_, ++alive_);
  if (peak_ > table_) {
    throw point_.error("more micro-batches are alive than the table says").with("table", table_);
  }
}

void ListProof::input_part(const Instruction& i) {
  require(!is_forward_only(), "a forward-only list has no backward pass");
  Progress& done = progress(i.stage);
  require(i.micro == done.input, "a stage runs backward once for each micro-batch, ascending");
  require(i.micro < done.forward, "backward follows forward");
  require(unreduced_ == kNone, "a backward pass is reduced before the next one");
  if (i.stage + 1 < stage_count(shape_)) use_message(1, i);
  use_window(i.stage);
  if (i.stage > 0) make_message(1, i, i.stage - 1);
  ++done.input;
}

void ListProof::weight_part(const Instruction& i) {
  Progress& done = progress(i.stage);
  require(i.micro == done.weight,
          "a stage makes weight gradients once for each micro-batch, ascending");
  require(i.micro < done.input, "backward_weight follows backward_input");
  ++done.weight;
  --alive_;
  if (reduces_each()) unreduced_ = {i.micro, i.stage};
}

void ListProof::use_message(int direction, const Instruction& i) {
  Pair& unused = unused_[direction];
  require((unused == Pair{i.micro, i.stage}), "an instruction follows the receive of its message");
  unused = kNone;
}

void ListProof::make_message(int direction, const Instruction& i, int64_t stage) {
  Pair& unsent = unsent_[direction];
  require(unsent == kNone, "a result is sent before the next one of its direction is made");
  unsent = {i.micro, stage};
}

void ListProof::use_window(int64_t stage) {
  if (shape_.zero != 3) return;
  require(open_ == stage && !is_used_, "a forward or backward stands between gather and release");
  is_used_ = true;
}

void ListProof::send(const Instruction& i) {
  Pair& unsent = unsent_[direction_of(i.operation)];
  require((unsent == Pair{i.micro, i.stage}),
          "a send follows the instruction that makes its message");
  unsent = kNone;
}

void ListProof::receive(const Instruction& i) {
  const int direction = direction_of(i.operation);
  const Progress& done = progress(i.stage);
  if (direction == 0) {
    require(i.stage > 0, "no activation goes into the first stage");
  } else {
    require(!is_forward_only(), "a forward-only list has no backward pass");
    require(i.stage + 1 < stage_count(shape_), "no gradient goes into the last stage");
  }
  require(unused_[direction] == kNone, "a message is used before the next one is received");
  require(i.micro == (direction == 0 ? done.forward : done.input),
          "a message is received once, for the next instruction of its stage");
  unused_[direction] = {i.micro, i.stage};
}

void ListProof::gather(const Instruction& i) {
  if (is_stepped_) {
    require(shape_.zero == 1 || shape_.zero == 2, "only ZeRO 1 and 2 gather after the step");
    require(i.stage == gathered_++ * shape_.pipeline + point_.coordinate,
            "after the step stages are gathered once, ascending");
    return;
  }
  require(shape_.zero == 3, "only ZeRO 3 gathers before the step");
  require(open_ < 0, "gathered weights are released before the next gather");
  open_ = i.stage;
  is_used_ = false;
}

void ListProof::release(const Instruction& i) {
  require(open_ == i.stage && is_used_, "a release follows the use of gathered weights");
  open_ = -1;
}

void ListProof::reduce(const Instruction& i) {
  Progress& done = progress(i.stage);
  if (reduces_each()) {
    require((unreduced_ == Pair{i.micro, i.stage}), "a reduce follows the backward pass it names");
    unreduced_ = kNone;
  } else {
    require(i.micro == shape_.micro_batches - 1 && done.weight == shape_.micro_batches &&
                done.reduced == 0,
            "a stage is reduced once, after its last weight gradient");
  }
  ++done.reduced;
}

void ListProof::step() {
  require(!is_forward_only(), "a forward-only list has no step");
  require_complete();
  is_stepped_ = true;
}

void ListProof::require_complete() {
  const int64_t m = shape_.micro_batches;
  for (const Progress& done : progress_) {
    require(done.forward == m, "every micro-batch of every stage runs forward");
    if (is_forward_only()) continue;
    require(done.input == m && done.weight == m, "every micro-batch of every stage runs backward");
    require(done.reduced == (reduces_each() ? m : 1), "every stage is reduced");
  }
  for (const int direction : {0, 1}) {
    require(unsent_[direction] == kNone, "every result is sent");
    require(unused_[direction] == kNone, "every message that is received is used");
  }
  require(open_ < 0, "gathered weights are released");
  if (is_forward_only() || peak_ == table_) return;
  throw point_.error("fewer micro-batches are alive than the table says")
      .with("alive", peak_)
      .with("table", table_);
}

}  // namespace

void prove_list(const Schedule& schedule, const ScheduleSource& source, int64_t coordinate) {
  ListProof(schedule, source, coordinate).run();
}

}  // namespace plait

// A schedule from its text form.
#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "engine/schedule/operation.h"
#include "engine/schedule/proof.h"
#include "engine/schedule/shape.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr std::string_view kFirstLine = "plait-schedule 1";
constexpr std::string_view kFormat = "plait-schedule ";

/// What may stand in an error message of a line of unknown bytes.
std::string printable(std::string_view text) {
  constexpr size_t kMost = 60;
  std::string out(text.substr(0, kMost));
  for (char& c : out) {
    if (c < ' ' || c > '~') c = '?';
  }
  return out;
}

class Parser {
 public:
  explicit Parser(std::string_view text) : rest_(text) {}

  Schedule parse() {
    next_line();
    if (line_ != kFirstLine) {
      const bool is_other = line_.substr(0, kFormat.size()) == kFormat;
      fail(is_other ? "format" : "argument", "a schedule starts with the line plait-schedule 1");
    }
    next_line();
    schedule_.shape = header();
    try {
      check_shape(schedule_.shape);
    } catch (Error& error) {
      throw std::move(error).with("line", number_);
    }
    while (next_line()) {
      if (line_.substr(0, 9) == "pipeline ") {
        heading();
      } else if (schedule_.lists.empty()) {
        fail("argument", "instructions follow the heading of a list");
      } else {
        schedule_.lists.back().push_back(instruction());
        source_.lines.back().push_back(number_);
      }
    }
    if (static_cast<int64_t>(schedule_.lists.size()) != schedule_.shape.pipeline) {
      fail("argument", "a schedule has one list for each pipeline coordinate");
    }
    prove(schedule_, source_);
    return std::move(schedule_);
  }

 private:
  [[noreturn]] void fail(const char* word, const char* sentence) const {
    throw Error(word, sentence)
        .with("line", std::max<int64_t>(number_, 1))
        .with("text", printable(line_));
  }

  /// Moves to the next line that is not empty, its comment and the spaces before that cut off.
  /// False at the end, where the line is empty.
  bool next_line() {
    line_ = {};
    while (line_.empty() && !rest_.empty()) {
      ++number_;
      const size_t end = std::min(rest_.find('\n'), rest_.size());
      line_ = rest_.substr(0, end);
      rest_.remove_prefix(std::min(end + 1, rest_.size()));
      line_ = line_.substr(0, line_.find('#'));
      while (!line_.empty() && line_.back() == ' ') line_.remove_suffix(1);
    }
    return !line_.empty();
  }

  /// Cuts `front` off `text`; it must be there.
  void take(std::string_view* text, std::string_view front, const char* sentence) const {
    if (text->substr(0, front.size()) != front) fail("argument", sentence);
    text->remove_prefix(front.size());
  }

  /// Cuts a number off `text`: decimal digits, no sign, no leading zero.
  int64_t take_number(std::string_view* text) const {
    int64_t value = 0;
    const char* const end = text->data() + text->size();
    const auto [stop, error] = std::from_chars(text->data(), end, value);
    const auto length = static_cast<size_t>(stop - text->data());
    const bool is_plain =
        error == std::errc() && text->front() != '-' && (text->front() != '0' || length == 1);
    if (!is_plain) fail("argument", "a number of a schedule is decimal, without sign");
    text->remove_prefix(length);
    return value;
  }

  ScheduleShape header() const {
    constexpr const char* kSentence =
        "the second line is: kind K pipeline P chunks V microbatches M zero Z";
    std::string_view text = line_;
    take(&text, "kind ", kSentence);
    ScheduleShape shape;
    const std::string_view name = text.substr(0, text.find(' '));
    bool is_known = false;
    for (const ScheduleKind kind : kScheduleKinds) {
      if (name != schedule_kind_name(kind)) continue;
      shape.kind = kind;
      is_known = true;
    }
    if (!is_known) fail("argument", "the kind of schedule is unknown");
    text.remove_prefix(name.size());
    const std::pair<const char*, int64_t*> fields[] = {{" pipeline ", &shape.pipeline},
                                                       {" chunks ", &shape.chunks},
                                                       {" microbatches ", &shape.micro_batches},
                                                       {" zero ", &shape.zero}};
    for (const auto& [field, value] : fields) {
      take(&text, field, kSentence);
      *value = take_number(&text);
    }
    if (!text.empty()) fail("argument", kSentence);
    return shape;
  }

  void heading() {
    std::string_view text = line_;
    take(&text, "pipeline ", "");
    if (take_number(&text) != static_cast<int64_t>(schedule_.lists.size()) || !text.empty()) {
      fail("argument", "lists stand under pipeline 0, pipeline 1 and so on");
    }
    schedule_.lists.emplace_back();
    source_.lines.push_back({number_});
  }

  Instruction instruction() const {
    for (const Operation operation : kOperations) {
      std::string_view text = line_;
      const std::string_view name = operation_name(operation);
      const int operands = operand_count(operation);
      if (text.substr(0, name.size()) != name) continue;
      text.remove_prefix(name.size());
      if (!text.empty() && text.front() != ' ') continue;  // the front of a longer word
      Instruction out{operation, 0, 0};
      for (int64_t* operand : {&out.micro, &out.stage}) {
        if (operands == 0 || (operands == 1 && operand == &out.micro)) continue;
        take(&text, " ", "an instruction lacks a number");
        *operand = take_number(&text);
      }
      if (!text.empty()) fail("argument", "an instruction is followed by something else");
      return out;
    }
    fail("argument", "the instruction is unknown");
  }

  std::string_view rest_, line_;
  int64_t number_ = 0;  // of line_, from 1
  Schedule schedule_;
  ScheduleSource source_{"argument", {}};
};

}  // namespace

Schedule parse_schedule(std::string_view text) { return Parser(text).parse(); }

}  // namespace plait

// Collective agreement by values, as a state machine: every process gives a name and bytes, and all
// get the bytes of all.
//
// The process of the lowest ranks decides: it collects, and tells the result to all at once. So a
// process that gives up in time is either let go before there is a result, and then nobody has one,
// or it gets the result although its time is over. A number that grows with each result keeps calls
// apart. Names that differ are `desync`, with a table of who called what; so is a process that has
// left. Who does not come is named in the `deadline` of those who give up.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/control_types.h"
#include "engine/comm/exchange_stream.h"
#include "engine/comm/wire_bytes.h"
#include "kernels/base/error.h"

namespace plait {

struct ExchangeResult {
  std::optional<Error> error;
  std::vector<std::string> values;  ///< by process, when there is no error
};

class Exchange {
 public:
  static constexpr int64_t kMostBytes = int64_t{64} << 20;        ///< of one value
  static constexpr int64_t kMostTotalBytes = int64_t{512} << 20;  ///< of all together

  Exchange(const ControlOptions& options, Outbox& outbox, ExchangeStream stream);

  void begin(const std::string& name, const std::string& value, int64_t deadline_ns,
             int64_t now_ns);
  /// False: the frame makes no sense.
  bool received(size_t from, const Frame& frame, int64_t now_ns);
  void left(size_t peer, int64_t now_ns);
  void time(int64_t now_ns);
  void shift(int64_t gap_ns) { mismatch_ns_ += gap_ns; }
  /// The call that runs ends with `error`.
  void end(const Error& error);
  /// The time of the call that runs is over.
  void hurry(int64_t now_ns) { deadline_ns_ = std::min(deadline_ns_, now_ns); }
  /// The stream that a frame of an exchange belongs to; nothing: the frame makes no sense.
  static std::optional<ExchangeStream> stream_of(const Frame& frame);

  bool is_running() const { return is_running_; }
  const std::string& name() const { return name_; }
  uint64_t sequence() const { return sequence_; }
  /// Of the call that began last, once.
  std::optional<ExchangeResult> take_result() { return std::exchange(result_, std::nullopt); }

 private:
  enum class Outcome : uint8_t { kValues, kError, kWithdrawn };
  /// What a process has given for the number that is open.
  struct Row {
    bool is_there = false;
    bool has_left = false;
    std::string name, value;
  };
  bool is_coordinator() const { return options_.own == 0; }
  /// The begin of every body: stream and number.
  ByteWriter head(uint64_t sequence) const {
    return ByteWriter().number(static_cast<uint8_t>(stream_)).number(sequence);
  }
  void contribute(size_t from, uint64_t sequence, std::string name, std::string value,
                  int64_t now_ns);
  void withdraw(size_t from, uint64_t sequence);
  void decide(int64_t now_ns);
  bool is_mismatch() const;
  void close_open(Outcome outcome, const std::string& body);
  void reply(size_t to, uint64_t sequence, Outcome outcome, const std::string& body);
  bool take(uint64_t sequence, Outcome outcome, std::string_view body);
  Error desync() const;
  Error late(uint64_t sequence, const std::string& name) const;
  Error gone(size_t peer) const;

  const ControlOptions& options_;
  Outbox& outbox_;
  const ExchangeStream stream_;
  // The own call.
  bool is_running_ = false, is_withdrawing_ = false;
  uint64_t sequence_ = 0;
  std::string name_;
  int64_t deadline_ns_ = 0;
  std::optional<ExchangeResult> result_;
  bool is_deserted_ = false;  // the coordinator has left
  // Of the coordinator.
  uint64_t open_ = 0;
  std::vector<Row> rows_;
  int64_t mismatch_ns_ = 0;                   // since when, 0: none
  std::map<uint64_t, std::string> verdicts_;  // errors of numbers for which not all have come
};

}  // namespace plait

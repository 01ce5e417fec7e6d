#include "engine/comm/exchange.h"

#include <utility>

#include "engine/comm/announcement.h"
#include "engine/comm/card.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr size_t kMostVerdicts = 1024;

}  // namespace

Exchange::Exchange(const ControlOptions& options, Outbox& outbox, ExchangeStream stream)
    : options_(options), outbox_(outbox), stream_(stream), rows_(options.peers.size()) {}

std::optional<ExchangeStream> Exchange::stream_of(const Frame& frame) {
  const size_t stream =
      frame.body.empty() ? kExchangeStreams : static_cast<unsigned char>(frame.body[0]);
  if (stream >= kExchangeStreams) return std::nullopt;
  return static_cast<ExchangeStream>(stream);
}

void Exchange::begin(const std::string& name, const std::string& value, int64_t deadline_ns,
                     int64_t now_ns) {
  check(!is_running_, "one exchange at a time");
  result_.reset();
  name_ = name;
  deadline_ns_ = deadline_ns;
  is_running_ = true;
  is_withdrawing_ = false;
  if (is_deserted_) return end(gone(0));
  if (is_coordinator()) return contribute(0, sequence_, name, value, now_ns);
  outbox_.send(0, FrameKind::kContribute, head(sequence_).text(name).text(value).bytes());
}

bool Exchange::received(size_t from, const Frame& frame, int64_t now_ns) {
  ByteReader in(frame.body);
  if (in.number<uint8_t>() != static_cast<uint8_t>(stream_)) return false;
  const auto sequence = in.number<uint64_t>();
  if (frame.kind == FrameKind::kResult) {
    const auto outcome = in.number<uint8_t>();
    const bool is_sound = in.is_good() && from == 0 && !is_coordinator() &&
                          outcome <= static_cast<uint8_t>(Outcome::kWithdrawn);
    return is_sound && take(sequence, static_cast<Outcome>(outcome), in.rest());
  }
  if (!is_coordinator()) return false;
  if (frame.kind == FrameKind::kWithdraw) {
    if (!in.is_complete()) return false;
    withdraw(from, sequence);
    return true;
  }
  std::string name(in.text());
  std::string value(in.text());
  if (!in.is_complete() || sequence > open_) return false;
  contribute(from, sequence, std::move(name), std::move(value), now_ns);
  return true;
}

void Exchange::left(size_t peer, int64_t now_ns) {
  if (peer == 0) {
    is_deserted_ = true;
    if (is_running_) end(gone(0));
  }
  rows_[peer].has_left = true;
  decide(now_ns);
}

void Exchange::time(int64_t now_ns) {
  if (is_running_ && !is_withdrawing_ && now_ns >= deadline_ns_) {
    is_withdrawing_ = true;
    if (is_coordinator()) {
      withdraw(0, sequence_);
    } else {
      outbox_.send(0, FrameKind::kWithdraw, head(sequence_).bytes());
    }
  }
  decide(now_ns);
}

void Exchange::end(const Error& error) {
  is_running_ = false;
  result_ = ExchangeResult{error, {}};
}

void Exchange::contribute(size_t from, uint64_t sequence, std::string name, std::string value,
                          int64_t now_ns) {
  if (sequence < open_) {  // came too late for a verdict
    const auto verdict = verdicts_.find(sequence);
    if (verdict != verdicts_.end()) reply(from, sequence, Outcome::kError, verdict->second);
    return;
  }
  rows_[from].is_there = true;
  rows_[from].name = std::move(name);
  rows_[from].value = std::move(value);
  decide(now_ns);
}

void Exchange::withdraw(size_t from, uint64_t sequence) {
  if (sequence != open_ || !rows_[from].is_there) return;  // the result is on its way
  const Error error = late(sequence, rows_[from].name);
  rows_[from] = {false, rows_[from].has_left, "", ""};
  if (!is_mismatch()) mismatch_ns_ = 0;
  reply(from, sequence, Outcome::kWithdrawn, encode_error(error));
}

bool Exchange::is_mismatch() const {
  const Row* first = nullptr;
  bool has_left = false;
  bool is_different = false;
  for (const Row& row : rows_) {
    has_left = has_left || row.has_left;
    if (!row.is_there) continue;
    if (first == nullptr) first = &row;
    is_different = is_different || row.name != first->name;
  }
  return first != nullptr && (has_left || is_different);
}

void Exchange::decide(int64_t now_ns) {
  if (!is_coordinator()) return;
  bool is_whole = true, is_any = false;
  int64_t bytes = 0;
  for (const Row& row : rows_) {
    is_whole = is_whole && (row.is_there || row.has_left);
    is_any = is_any || row.is_there;
    bytes += static_cast<int64_t>(row.value.size());
  }
  if (!is_any) return;
  if (is_mismatch()) {
    if (mismatch_ns_ == 0) mismatch_ns_ = now_ns;
    if (!is_whole && now_ns - mismatch_ns_ < options_.desync_ns) return;
    return close_open(Outcome::kError, encode_error(desync()));
  }
  if (!is_whole) return;
  if (bytes > kMostTotalBytes) {
    const Error error = Error("too_large", "the values of all processes are too large together")
                            .with("operation", rows_[0].name)
                            .with("got", bytes)
                            .with("limit", kMostTotalBytes);
    return close_open(Outcome::kError, encode_error(error));
  }
  ByteWriter body;
  body.number(static_cast<uint32_t>(rows_.size()));
  for (const Row& row : rows_) body.text(row.value);
  close_open(Outcome::kValues, body.bytes());
}

void Exchange::close_open(Outcome outcome, const std::string& body) {
  const uint64_t sequence = open_++;
  mismatch_ns_ = 0;
  std::vector<size_t> there;
  for (size_t peer = 0; peer < rows_.size(); ++peer) {
    if (rows_[peer].is_there) there.push_back(peer);
    rows_[peer] = {false, rows_[peer].has_left, "", ""};
  }
  if (there.size() < rows_.size()) verdicts_[sequence] = body;
  if (verdicts_.size() > kMostVerdicts) verdicts_.erase(verdicts_.begin());
  for (const size_t peer : there) reply(peer, sequence, outcome, body);
}

void Exchange::reply(size_t to, uint64_t sequence, Outcome outcome, const std::string& body) {
  if (to == options_.own) {
    take(sequence, outcome, body);
    return;
  }
  outbox_.send(to, FrameKind::kResult,
               head(sequence).number(static_cast<uint8_t>(outcome)).raw(body).bytes());
}

bool Exchange::take(uint64_t sequence, Outcome outcome, std::string_view body) {
  if (!is_running_ || sequence != sequence_) return false;
  ExchangeResult result;
  if (outcome == Outcome::kValues) {
    ByteReader in(body);
    const auto count = in.number<uint32_t>();
    for (uint32_t i = 0; i < count && in.is_good(); ++i) result.values.emplace_back(in.text());
    if (!in.is_complete() || result.values.size() != options_.peers.size()) return false;
  } else {
    Error error("desync", "");
    if (!decode_error(body, &error)) return false;
    result.error = error;
  }
  is_running_ = false;
  result_ = std::move(result);
  if (outcome != Outcome::kWithdrawn) ++sequence_;
  return true;
}

Error Exchange::desync() const {
  // The blame goes to the first that did not call what most called.
  std::map<std::string, int> counts;
  for (const Row& row : rows_) {
    if (row.is_there) ++counts[row.name];
  }
  const std::string* common = nullptr;
  for (const auto& [name, count] : counts) {
    if (common == nullptr || count > counts[*common]) common = &name;
  }
  JsonArray table;
  int64_t blamed = -1;
  for (size_t peer = 0; peer < rows_.size(); ++peer) {
    const Row& row = rows_[peer];
    const int64_t rank = options_.peers[peer].first_rank;
    const std::string name = row.is_there ? row.name : row.has_left ? "leave" : "none";
    if (blamed < 0 && (common == nullptr || name != *common)) blamed = rank;
    table.add(JsonObject()
                  .field("rank", rank)
                  .field("ranks", options_.peers[peer].local_ranks)
                  .field("operation", name)
                  .field("sequence", open_)
                  .field("bytes", row.value.size())
                  .text());
  }
  return Error("desync", "processes called different operations")
      .with("sequence", open_)
      .with_raw("calls", table.text())
      .rank(static_cast<int32_t>(blamed))
      .subsystem("engine/comm");
}

Error Exchange::late(uint64_t sequence, const std::string& name) const {
  std::vector<RankSpan> missing;
  for (size_t peer = 0; peer < rows_.size(); ++peer) {
    if (rows_[peer].is_there || rows_[peer].has_left) continue;
    missing.push_back({options_.peers[peer].first_rank, options_.peers[peer].local_ranks});
  }
  return Error("deadline", "some processes did not come to an operation in time")
      .with("operation", name)
      .with("sequence", sequence)
      .with_raw("missing", rank_list(missing))
      .rank(missing.empty() ? -1 : static_cast<int32_t>(missing[0].first))
      .subsystem("engine/comm");
}

Error Exchange::gone(size_t peer) const {
  const ControlPeer& who = options_.peers[peer];
  const std::string table =
      JsonArray()
          .add(JsonObject().field("rank", who.first_rank).field("operation", "leave").text())
          .add(JsonObject()
                   .field("rank", options_.peers[options_.own].first_rank)
                   .field("operation", name_)
                   .field("sequence", sequence_)
                   .text())
          .text();
  return Error("desync", "a process has left the world")
      .with("sequence", sequence_)
      .with_raw("calls", table)
      .rank(static_cast<int32_t>(who.first_rank))
      .subsystem("engine/comm");
}

}  // namespace plait

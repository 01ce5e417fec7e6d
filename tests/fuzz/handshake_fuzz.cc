// What strangers and damaged peers may send: bytes of a connection, cards, announcements, and
// frames of every kind at each stage of a meeting and of a control channel. Whatever comes, there
// is an Error, a dropped connection, or a verdict.
//
// Input: byte 0 selects the way, the rest is what is sent.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/comm/announcement.h"
#include "engine/comm/card.h"
#include "engine/comm/control.h"
#include "engine/comm/frame.h"
#include "engine/comm/rendezvous.h"

namespace {

using namespace plait;

void expect(bool condition) {
  if (!condition) std::abort();
}

class Counter final : public Entropy {
 public:
  uint64_t next() override { return ++value_; }

 private:
  uint64_t value_ = 0;
};

Card card_of(int64_t rank, uint64_t nonce) {
  Card card;
  card.world = 3;
  card.first_rank = rank;
  card.nonce = nonce;
  card.addresses = {"127.0.0.1:1"};
  return card;
}

/// Cuts the input into frames: a kind, a length, a body.
std::vector<Frame> frames_of(std::string_view bytes) {
  std::vector<Frame> frames;
  while (bytes.size() >= 2) {
    Frame frame;
    const auto kinds = static_cast<unsigned>(kLastFrameKind);
    frame.kind = static_cast<FrameKind>(1 + static_cast<unsigned char>(bytes[0]) % kinds);
    const size_t length = static_cast<unsigned char>(bytes[1]);
    bytes.remove_prefix(2);
    frame.body = bytes.substr(0, length);
    bytes.remove_prefix(frame.body.size());
    frames.push_back(std::move(frame));
  }
  return frames;
}

void read_stream(std::string_view bytes) {
  FrameReader reader(4096);
  Frame frame;
  for (size_t at = 0; at < bytes.size(); at += 61) {
    reader.add(bytes.substr(at, 61));
    while (reader.next(&frame)) {
      FrameReader again(4096);
      frame.sequence = 0;
      again.add(encode_frame(frame));
      Frame copy;
      expect(again.next(&copy) && copy.body == frame.body && copy.kind == frame.kind);
    }
  }
}

void read_card(std::string_view bytes) {
  try {
    const Card card = decode_card(bytes);
    expect(decode_card(encode_card(card)) == card);
  } catch (const Error& error) {
    expect(error.word() == "argument");
  }
  Announcement announcement;
  if (decode_announcement(bytes, &announcement)) {
    Announcement again;
    expect(decode_announcement(encode_announcement(announcement), &again));
    expect(again.error.message() == announcement.error.message());
  }
}

/// A server of cards and a client that meets it honestly up to a point; then one gets the frames.
void disturb_meeting(std::string_view bytes, bool is_server, bool is_trusted) {
  Counter entropy;
  constexpr int64_t kDeadline = 1'000'000'000;
  RendezvousOptions options{"token", "127.0.0.1:2", kDeadline, kDeadline};
  Rendezvous server(options, CardSet(card_of(0, 10)), entropy, 0);
  Rendezvous client(options, CardSet(card_of(1, 11)), entropy, 0);
  const int64_t there = server.accepted("127.0.0.1:3", 0);
  int64_t here = -1;
  for (const RendezvousAction& action : client.take_actions()) here = action.connection;
  client.connected(here, "127.0.0.1:2");
  for (int turn = 0; turn < 4 && is_trusted; ++turn) {
    for (const RendezvousAction& action : server.take_actions()) {
      client.received(here, {action.frame, 0, 0, action.body}, 1);
    }
    for (const RendezvousAction& action : client.take_actions()) {
      server.received(there, {action.frame, 0, 0, action.body}, 1);
    }
  }
  Rendezvous& target = is_server ? server : client;
  const int64_t connection = is_server ? there : here;
  expect(target.is_trusted(connection) == is_trusted);
  for (const Frame& frame : frames_of(bytes)) target.received(connection, frame, 2);
  target.time(3);
  target.closed(connection, 4);
  target.time(kDeadline + 1);
  expect(target.state() == Rendezvous::State::kFailed);
}

void disturb_control(std::string_view bytes, size_t own) {
  ControlOptions options;
  options.peers = {{0, 1, "a", 1}, {1, 1, "b", 2}, {2, 1, "c", 3}};
  options.own = own;
  options.heartbeat_ns = 100;
  options.frozen_ns = 500;
  options.settle_ns = 50;
  options.desync_ns = 50;
  Control control(options, 1);
  int64_t now = 1;
  control.begin_exchange("step", "value", 200, now);
  size_t from = own;
  for (const Frame& frame : frames_of(bytes)) {
    from = (from + 1) % 3;
    if (from == own) from = (from + 1) % 3;
    control.received(from, frame, now);
    control.time(++now);
    control.take_letters();
    if (control.take_result()) control.begin_exchange("step", "next", now + 200, now);
  }
  // Silence: everything ends.
  for (int i = 0; i < 50; ++i) control.time(now += 50);
  expect(control.verdict() != nullptr || control.is_alone());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  switch (data[0] % 8) {
    case 0:
      read_stream(bytes);
      break;
    case 1:
      read_card(bytes);
      break;
    case 2:
    case 3:
    case 4:
    case 5:
      disturb_meeting(bytes, data[0] % 2 == 0, data[0] % 8 >= 4);
      break;
    default:
      disturb_control(bytes, data[0] % 2);
  }
  return 0;
}

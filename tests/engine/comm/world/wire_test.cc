// What goes over the wire before anybody is trusted: frames, cards, announcements, proofs.
#include <catch2/catch.hpp>
#include <cstdio>
#include <string>

#include "engine/comm/announcement.h"
#include "engine/comm/card.h"
#include "engine/comm/frame.h"
#include "engine/comm/token_proof.h"
#include "engine/comm/wire_bytes.h"

namespace plait {
namespace {

std::string hex(const std::string& bytes) {
  std::string text;
  for (const char byte : bytes) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", static_cast<unsigned>(static_cast<unsigned char>(byte)));
    text += two;
  }
  return text;
}

Card sample_card(int64_t first, int64_t count, int64_t world, uint64_t nonce) {
  Card card;
  card.version = 1000;
  card.world = world;
  card.first_rank = first;
  card.local_ranks = count;
  card.pid = 77;
  card.nonce = nonce;
  card.host = "host/boot";
  card.addresses = {"127.0.0.1:4000", "[::1]:4000"};
  return card;
}

}  // namespace

TEST_CASE("frames come out of a stream however it is cut", "[wire]") {
  std::string stream;
  for (uint64_t i = 0; i < 5; ++i) {
    stream += encode_frame({FrameKind::kContribute, 9, i, std::string(i * 100, char('a' + i))});
  }
  for (const size_t step : {size_t{1}, size_t{7}, size_t{39}, size_t{41}, stream.size()}) {
    FrameReader reader(1000);
    Frame frame;
    uint64_t count = 0;
    for (size_t at = 0; at < stream.size(); at += step) {
      reader.add(std::string_view(stream).substr(at, step));
      while (reader.next(&frame)) {
        CHECK(frame.kind == FrameKind::kContribute);
        CHECK(frame.epoch == 9);
        CHECK(frame.sequence == count);
        CHECK(frame.body == std::string(count * 100, char('a' + count)));
        ++count;
      }
    }
    CHECK(count == 5);
    CHECK(reader.fault() == FrameFault::kNone);
  }
}

TEST_CASE("R12: no flipped bit of a frame passes", "[wire]") {
  const std::string good = encode_frame({FrameKind::kResult, 3, 0, "what all agreed upon"});
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    FrameReader reader(1000);
    reader.add(bad);
    Frame frame;
    CHECK_FALSE(reader.next(&frame));
    CHECK(reader.fault() != FrameFault::kNone);
  }
}

TEST_CASE("frames that are no frames are told apart", "[wire]") {
  const auto fault_of = [](const std::string& bytes, uint32_t limit) {
    FrameReader reader(limit);
    reader.add(bytes);
    Frame frame;
    CHECK_FALSE(reader.next(&frame));
    return std::string(frame_fault_name(reader.fault()));
  };
  CHECK(fault_of("GET / HTTP/1.1\r\n\r\n", 1000) == "magic");
  CHECK(fault_of("P", 1000) == "none");  // may become one
  CHECK(fault_of("Q", 1000) == "magic");
  std::string other = encode_frame({FrameKind::kReady, 0, 0, ""});
  other[4] = 2;
  CHECK(fault_of(other, 1000) == "protocol");
  CHECK(fault_of(encode_frame({FrameKind::kReady, 0, 0, std::string(1001, 'x')}), 1000) ==
        "length");
  CHECK(fault_of(encode_frame({static_cast<FrameKind>(99), 0, 0, ""}), 1000) == "operation");
  CHECK(fault_of(encode_frame({FrameKind::kReady, 0, 5, ""}), 1000) == "sequence");
}

TEST_CASE("SHA-256 and HMAC give the published values", "[wire]") {
  // FIPS 180-4 examples; RFC 4231 holds raw HMACs, here every part carries its length.
  CHECK(hex(sha256("abc")) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex(sha256("")) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(sha256(std::string(1000000, 'a'))) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  // hmac.new(b"key", b"\3\0\0\0abc\1\0\0\0d", "sha256") and the same with a key of 100 bytes.
  CHECK(hex(token_proof("key", {"abc", "d"})) ==
        "795424911a205a41ee506f7962286d56f6bcab024eaa7086a3967d67c579b82f");
  CHECK(hex(token_proof(std::string(100, 'k'), {"abc", "d"})) ==
        "62e13a343cb7f355ee5e9ba037b4be38a9190c3a7b5066247870f96de15280d9");
  CHECK(token_proof("key", {"abc", "d"}) != token_proof("key", {"ab", "cd"}));
  CHECK(is_same_proof("same", "same"));
  CHECK_FALSE(is_same_proof("same", "sama"));
  CHECK_FALSE(is_same_proof("same", "sam"));
}

TEST_CASE("a card comes back, and no flipped bit of it passes", "[wire]") {
  const Card card = sample_card(2, 2, 8, 99);
  const std::string bytes = encode_card(card);
  CHECK(bytes.size() <= Card::kMaxBytes);
  CHECK(decode_card(bytes) == card);
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string bad = bytes;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    CHECK_THROWS_AS(decode_card(bad), Error);
  }
  for (size_t length = 0; length < bytes.size(); ++length) {
    CHECK_THROWS_AS(decode_card(bytes.substr(0, length)), Error);
  }
  CHECK_THROWS_AS(decode_card(std::string(5000, 'x')), Error);
}

TEST_CASE("a set of cards names what is missing and who clashes", "[wire]") {
  CardSet set(sample_card(2, 2, 8, 1));
  CHECK(rank_list(set.missing()) == "[0,1,4,5,6,7]");
  set.add(sample_card(0, 1, 8, 2));
  set.add(sample_card(4, 4, 8, 3));
  CHECK(rank_list(set.missing()) == "[1]");
  CHECK(set.own_index() == 1);
  const auto objection = [&](const Card& card) {
    const std::optional<Error> error = set.objection(card);
    return error ? error->message() : "";
  };
  CHECK(objection(sample_card(2, 2, 8, 1)).empty());  // the own one
  const std::string clash = objection(sample_card(3, 2, 8, 4));
  CHECK(clash.find("topology: ") == 0);
  CHECK(clash.find("rank=3 ") != std::string::npos);
  CHECK(objection(sample_card(1, 1, 4, 4)).find("topology: ") == 0);
  Card other = sample_card(1, 1, 8, 4);
  other.version = 2000;
  const std::string versions = objection(other);
  CHECK(versions.find("version_mismatch: ") == 0);
  CHECK(versions.find(R"({"rank":2,"version":1000},{"rank":1,"version":2000})") !=
        std::string::npos);
  set.add(sample_card(1, 1, 8, 4));
  CHECK(set.is_complete());
  set.remove(4);
  CHECK_FALSE(set.is_complete());
  const Error error = missing_ranks("some", {{5, 2}});
  CHECK(error.message() == "missing_ranks: some; missing=[5,6] count=2");
  CHECK(error.rank() == 5);
  CHECK(rank_list({{0, 1000}}).size() < 300);
}

TEST_CASE("an error survives the wire, and damage does not", "[wire]") {
  const Error error = Error("io_error", "a sync; failed")
                          .with("path", "/a b")
                          .with("errno", 5)
                          .with_raw("table", "[1,2]")
                          .rank(3)
                          .disposition(Disposition::kEngineLost)
                          .subsystem("checkpoint")
                          .host_code(-7);
  Announcement sent{error, {0, 4}, true};
  Announcement got;
  REQUIRE(decode_announcement(encode_announcement(sent), &got));
  CHECK(got.error.message() == error.message());
  CHECK(got.error.word() == "io_error");
  CHECK(got.error.details() == error.details());
  CHECK(got.error.rank() == 3);
  CHECK(got.error.disposition() == Disposition::kEngineLost);
  CHECK(got.error.subsystem() == "checkpoint");
  CHECK(got.error.host_code() == -7);
  CHECK(got.excluded == sent.excluded);
  CHECK(got.is_final);
  const std::string bytes = encode_announcement(sent);
  for (size_t length = 0; length < bytes.size(); ++length) {
    CHECK_FALSE(decode_announcement(std::string_view(bytes).substr(0, length), &got));
  }
  Error unknown = Error::restore("no_such_word", "no_such_word: x", {});
  CHECK(unknown.word() == "invariant");
  CHECK_FALSE(decode_error(encode_error(Error::restore("io_error", "other: x", {})), &unknown));
}

TEST_CASE("all prefer the same of two errors", "[wire]") {
  const auto lost = [](const char* word, int rank) { return Error(word, "x").rank(rank); };
  CHECK(is_preferred(lost("io_error", 1), lost("io_error", 2)));
  CHECK(is_preferred(lost("peer_lost", 1), lost("io_error", 2)));
  CHECK(is_preferred(lost("io_error", 1), lost("corrupt", 2)));
  CHECK(is_preferred(lost("stalled", 1), lost("peer_frozen", 1)));
  CHECK(is_preferred(lost("peer_frozen", 1), lost("peer_lost", 1)));
  CHECK_FALSE(is_preferred(lost("io_error", 1), lost("io_error", 1)));
}

}  // namespace plait

// Trailers and shard headers byte by byte, and the hashes in them.
#include <catch2/catch.hpp>
#include <cstring>
#include <string>

#include "checkpoint/format/hash.h"
#include "checkpoint/format/shard_header.h"
#include "checkpoint/format/trailer.h"
#include "tests/checkpoint/format_fixture.h"
#include "tests/checkpoint/hf_fixture.h"

namespace plait {
namespace {

/// The buffer of xxHash's own test vectors.
std::string vector_bytes(size_t count) {
  std::string bytes;
  uint64_t generator = 2654435761u;
  for (size_t i = 0; i < count; ++i) {
    bytes.push_back(static_cast<char>(generator >> 56));
    generator *= 11400714785074694797u;
  }
  return bytes;
}

TEST_CASE("XXH3 has the values of its published vectors") {
  struct Row {
    size_t bytes;
    uint64_t hash;
  };
  for (const Row& row :
       {Row{0, 0x2D06800538D394C2}, Row{1, 0xC44BDFF4074EECDB}, Row{6, 0x27B56A84CD2D7325},
        Row{12, 0xA713DAF0DFBB77E7}, Row{24, 0xA3FE70BF9D3510EB}, Row{48, 0x397DA259ECBA1F11},
        Row{80, 0xBCDEFBBB2C47C90A}, Row{195, 0xCD94217EE362EC3A}, Row{403, 0xCDEB804D65C6DEA4},
        Row{512, 0x617E49599013CB6B}, Row{2048, 0xDD59E2C3A5F038E0}, Row{2240, 0x6E73A90539CF2948},
        Row{2367, 0xCB37AEB9E5D361ED}}) {
    INFO(row.bytes);
    CHECK(xxh3_64(vector_bytes(row.bytes)) == row.hash);
  }
  struct WideRow {
    size_t bytes;
    Hash128 hash;
  };
  for (const WideRow& row : {WideRow{0, {0x6001C324468D497F, 0x99AA06D3014798D8}},
                             WideRow{1, {0xC44BDFF4074EECDB, 0xA6CD5E9392000F6A}},
                             WideRow{6, {0x3E7039BDDA43CFC6, 0x082AFE0B8162D12A}},
                             WideRow{12, {0x061A192713F69AD9, 0x6E3EFD8FC7802B18}},
                             WideRow{24, {0x1E7044D28B1B901D, 0x0CE966E4678D3761}},
                             WideRow{48, {0xF942219AED80F67B, 0xA002AC4E5478227E}},
                             WideRow{81, {0x5E8BAFB9F95FB803, 0x4952F58181AB0042}},
                             WideRow{222, {0xF1AEBD597CEC6B3A, 0x337E09641B948717}},
                             WideRow{403, {0xCDEB804D65C6DEA4, 0x1B6DE21E332DD73D}},
                             WideRow{512, {0x617E49599013CB6B, 0x18D2D110DCC9BCA1}},
                             WideRow{2048, {0xDD59E2C3A5F038E0, 0xF736557FD47073A5}},
                             WideRow{2240, {0x6E73A90539CF2948, 0xCCB134FBFA7CE49D}},
                             WideRow{2367, {0xCB37AEB9E5D361ED, 0xE89C0F6FF369B427}}}) {
    INFO(row.bytes);
    CHECK(xxh3_128(vector_bytes(row.bytes)) == row.hash);
  }
}

template <class Value>
std::string raw_bytes(Value value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof value);
}

TEST_CASE("a trailer is forty bytes of sizes, sequence, hash and magic") {
  std::string file = "payload";
  const Hash128 hash = append_trailer(&file, 0x1122334455667788);
  const std::string head = std::string("payload") + std::string("\7\0\0\0\0\0\0\0", 8) +
                           "\x88\x77\x66\x55\x44\x33\x22\x11";
  CHECK(file == head + raw_bytes(hash.low) + raw_bytes(hash.high) + "PLAITEND");
  CHECK(hash == xxh3_128(head));
  const Sealed sealed = open_sealed(file, "f");
  CHECK(sealed.payload == "payload");
  CHECK(sealed.payload.data() == file.data());
  CHECK(sealed.sequence == 0x1122334455667788);
  CHECK(sealed.hash == hash);
  std::string empty;
  append_trailer(&empty, 0);
  CHECK(open_sealed(empty, "f").payload.empty());
}

TEST_CASE("a file that is not payload and trailer exactly is corrupt") {
  std::string file = "payload";
  append_trailer(&file, 7);
  const auto refuse = [](const std::string& bytes) {
    require_error([&] { open_sealed(bytes, "dir/f"); }, "corrupt", {"path=dir/f", "offset="});
  };
  for (size_t bytes = 0; bytes < file.size(); ++bytes) refuse(file.substr(0, bytes));
  for (size_t bytes = 1; bytes < file.size(); ++bytes) refuse(file.substr(bytes));
  for (size_t bit = 0; bit < file.size() * 8; ++bit) {
    std::string flipped = file;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    refuse(flipped);
  }
  refuse(file + '\0');
  refuse(std::string(1, '\0') + file);
  refuse(file + file);
  for (size_t bytes = 0; bytes <= 256; ++bytes) refuse(std::string(bytes, '\0'));
}

TEST_CASE("the header of a shard, byte by byte") {
  const std::string bytes = encode_shard_header(sample_header());
  const unsigned char head[64] = {
      0x89, 'P',  'L', 'T', '\r', '\n', 0x1a, '\n', 0,    0,    1,    0,    4,    3,    2,    1,
      8,    7,    6,   5,   4,    3,    2,    1,    0x18, 0x17, 0x16, 0x15, 0x14, 0x13, 0x12, 0x11,
      0x34, 0x12, 0,   0,   12,   0,    0,    0,    0x26, 0x25, 0x24, 0x23, 0x22, 0x21, 0,    0,
      0x31, 0,    0,   0,   0,    0,    0,    0,    0x45, 0x44, 0x43, 0x42, 0x41, 0,    0,    0};
  std::string expected(reinterpret_cast<const char*>(head), sizeof head);
  expected.resize(4088, '\0');
  expected += raw_bytes(xxh3_64(expected));
  REQUIRE(bytes.size() == 4096);
  CHECK(bytes == expected);

  const ShardHeader back = decode_shard_header(bytes, "f");
  CHECK(back.major == 0);
  CHECK(back.minor == 1);
  CHECK(back.save_id == sample_header().save_id);
  CHECK(back.ordinal == 0x1234);
  CHECK(back.align_log2 == 12);
  CHECK(back.file_bytes == 0x212223242526);
  CHECK(back.slices == 0x31);
  CHECK(back.step == 0x4142434445);
}

TEST_CASE("a damaged header is corrupt") {
  const std::string bytes = encode_shard_header(sample_header());
  const auto refuse = [](const std::string& changed) {
    require_error([&] { decode_shard_header(changed, "f"); }, "corrupt", {"path=f", "offset="});
  };
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    std::string flipped = bytes;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    refuse(flipped);
  }
  for (const size_t size : {0, 1, 8, 64, 4088, 4095}) refuse(bytes.substr(0, size));
  refuse(std::string(4096, '\0'));
  refuse(std::string(1, '\0') + bytes);
}

TEST_CASE("a header of a later minor, and one of as many slices as there may be, are read") {
  ShardHeader header = sample_header();
  header.minor = 9;
  header.slices = 1 << 21;
  const ShardHeader back = decode_shard_header(encode_shard_header(header), "f");
  CHECK(back.minor == 9);
  CHECK(back.slices == 1 << 21);
}

TEST_CASE("names of shards come from ordinals") {
  CHECK(shard_name(0) == "s00000.plt");
  CHECK(index_name(12) == "s00012.idx");
  CHECK(shard_name(63) == "s00063.plt");
  CHECK(index_name(65535) == "s65535.idx");
}

}  // namespace
}  // namespace plait

#include "engine/comm/frame.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/comm/wire_bytes.h"

namespace plait {
namespace {

constexpr uint32_t kFrameMagic = 0x54494C50;  // "PLIT"
constexpr size_t kHeadCheckAt = 28, kCheckAt = 32;

uint64_t body_check(std::string_view head, std::string_view body) {
  return XXH3_64bits_withSeed(body.data(), body.size(), XXH3_64bits(head.data(), kCheckAt));
}

template <class Integer>
Integer read_at(std::string_view bytes, size_t at) {
  Integer value{};
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

}  // namespace

std::string encode_frame(const Frame& frame) {
  ByteWriter head;
  head.number(kFrameMagic).number(kFrameProtocol).number(static_cast<uint16_t>(frame.kind));
  head.number(frame.epoch).number(frame.sequence).number(static_cast<uint32_t>(frame.body.size()));
  head.number(static_cast<uint32_t>(XXH3_64bits(head.bytes().data(), kHeadCheckAt)));
  head.number(body_check(head.bytes(), frame.body));
  return head.bytes() + frame.body;
}

const char* frame_fault_name(FrameFault fault) {
  switch (fault) {
    case FrameFault::kNone:
      return "none";
    case FrameFault::kMagic:
      return "magic";
    case FrameFault::kProtocol:
      return "protocol";
    case FrameFault::kHead:
      return "head";
    case FrameFault::kTooLong:
      return "length";
    case FrameFault::kKind:
      return "operation";
    case FrameFault::kChecksum:
      return "checksum";
    case FrameFault::kSequence:
      return "sequence";
  }
  return "none";
}

void FrameReader::add(std::string_view bytes) {
  if (begin_ > 0 && begin_ >= buffer_.size() / 2) {
    buffer_.erase(0, begin_);
    begin_ = 0;
  }
  buffer_.append(bytes);
}

FrameFault FrameReader::check_head(std::string_view bytes) const {
  const char magic[4] = {'P', 'L', 'I', 'T'};
  const size_t known = bytes.size() < 4 ? bytes.size() : 4;
  if (std::memcmp(bytes.data(), magic, known) != 0) return FrameFault::kMagic;
  if (bytes.size() >= 6 && read_at<uint16_t>(bytes, 4) != kFrameProtocol) {
    return FrameFault::kProtocol;
  }
  if (bytes.size() < kFrameHeadBytes) return FrameFault::kNone;
  const auto check = static_cast<uint32_t>(XXH3_64bits(bytes.data(), kHeadCheckAt));
  if (read_at<uint32_t>(bytes, kHeadCheckAt) != check) return FrameFault::kHead;
  if (read_at<uint32_t>(bytes, 24) > limit_) return FrameFault::kTooLong;
  const auto kind = read_at<uint16_t>(bytes, 6);
  if (kind == 0 || kind > static_cast<uint16_t>(kLastFrameKind)) return FrameFault::kKind;
  return FrameFault::kNone;
}

bool FrameReader::next(Frame* frame) {
  const std::string_view bytes = std::string_view(buffer_).substr(begin_);
  if (fault_ != FrameFault::kNone || bytes.empty()) return false;
  fault_ = check_head(bytes);
  if (fault_ != FrameFault::kNone || bytes.size() < kFrameHeadBytes) return false;
  const size_t length = read_at<uint32_t>(bytes, 24);
  if (bytes.size() - kFrameHeadBytes < length) return false;
  const std::string_view body = bytes.substr(kFrameHeadBytes, length);
  frame->sequence = read_at<uint64_t>(bytes, 16);
  if (read_at<uint64_t>(bytes, kCheckAt) != body_check(bytes, body)) {
    fault_ = FrameFault::kChecksum;
  } else if (frame->sequence != sequence_) {
    fault_ = FrameFault::kSequence;
  }
  if (fault_ != FrameFault::kNone) return false;
  ++sequence_;
  frame->kind = static_cast<FrameKind>(read_at<uint16_t>(bytes, 6));
  frame->epoch = read_at<uint64_t>(bytes, 8);
  frame->body.assign(body);
  begin_ += kFrameHeadBytes + length;
  return true;
}

}  // namespace plait

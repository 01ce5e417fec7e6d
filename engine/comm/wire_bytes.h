// Integers and text as bytes, little endian, for frames and cards. What is read comes from
// strangers: a reader never goes beyond its bytes and remembers that it would have had to.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace plait {

class ByteWriter {
 public:
  template <class Integer>
  ByteWriter& number(Integer value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  /// Length (32 bits) and bytes.
  ByteWriter& text(std::string_view value) {
    number(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
    return *this;
  }
  /// Bytes alone.
  ByteWriter& raw(std::string_view value) {
    bytes_.append(value);
    return *this;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class ByteReader {
 public:
  explicit ByteReader(std::string_view bytes) : left_(bytes) {}

  /// 0 when there are not enough bytes.
  template <class Integer>
  Integer number() {
    Integer value{};
    const std::string_view from = raw(sizeof value);
    if (from.size() == sizeof value) std::memcpy(&value, from.data(), sizeof value);
    return value;
  }
  /// Empty when there are not enough bytes.
  std::string_view text() { return raw(number<uint32_t>()); }
  std::string_view raw(size_t bytes) {
    if (bytes > left_.size()) {
      is_good_ = false;
      left_ = {};
      return {};
    }
    const std::string_view value = left_.substr(0, bytes);
    left_.remove_prefix(bytes);
    return value;
  }
  std::string_view rest() const { return left_; }
  bool is_good() const { return is_good_; }
  /// Nothing was missing and nothing is left.
  bool is_complete() const { return is_good_ && left_.empty(); }

 private:
  std::string_view left_;
  bool is_good_ = true;
};

}  // namespace plait

// What the values of a step must be, the same for those who write and those who read: what a writer
// accepts, every reader accepts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "checkpoint/format/manifest.h"
#include "checkpoint/json_guard.h"
#include "kernels/base/error.h"

namespace plait {

inline constexpr int kLeastAlignLog2 = 6, kMostAlignLog2 = 16;
inline constexpr int64_t kMostStep =
    999'999'999'999;  ///< twelve digits, as in its directory's name
inline constexpr int64_t kMostTables = int64_t{1} << 20;  ///< of one buffer
inline constexpr int64_t kMostGroups = int64_t{1} << 16;
inline constexpr int64_t kMostStages = int64_t{1} << 16;  ///< virtual ones
inline constexpr int64_t kPropertyNameBytes = 128;
/// Feature bits that this build knows.
inline constexpr uint64_t kKnownRequired = 0;

/// A field in messages, made into text only there: "tensors[3].states[1].dtype".
struct FieldPath {
  const char* outer;
  int64_t index = -1;  ///< −1: none
  const char* inner = nullptr;
  int64_t inner_index = -1;
  const char* leaf = nullptr;

  std::string text() const;
};

/// Refuses values. A reader says `invalid_field` with path, field, value and limit; a writer says
/// `too_large` past a limit of the format, and `invariant` for what none of its callers may give
/// it.
class FieldChecker {
 public:
  static FieldChecker reader(std::string path) { return FieldChecker(true, std::move(path)); }
  static FieldChecker writer(std::string what) { return FieldChecker(false, std::move(what)); }

  template <class Value, class Limit>
  void require(bool condition, const char* sentence, const FieldPath& field, const Value& value,
               const Limit& limit) const {
    if (!condition) [[unlikely]] {
      refuse(is_reader_ ? "invalid_field" : "invariant", sentence, field, value, limit);
    }
  }
  /// A count or size in [0, limit].
  void require_limit(int64_t value, int64_t limit, const FieldPath& field) const {
    if (value < 0 || value > limit) [[unlikely]] {
      refuse(is_reader_ ? "invalid_field" : "too_large", "more than the format permits", field,
             value, limit);
    }
  }
  void require_between(int64_t value, int64_t least, int64_t most, const FieldPath& field) const {
    require(value >= least, "a value is too small", field, value, least);
    require(value <= most, "a value is too large", field, value, most);
  }
  void require_finite(double value, const FieldPath& field) const;
  void require_utf8(std::string_view text, const FieldPath& field) const;
  const std::string& path() const { return path_; }

 private:
  FieldChecker(bool is_reader, std::string path) : is_reader_(is_reader), path_(std::move(path)) {}

  template <class Value, class Limit>
  [[noreturn]] void refuse(const char* word, const char* sentence, const FieldPath& field,
                           const Value& value, const Limit& limit) const {
    throw Error(word, sentence)
        .with("path", path_)
        .with("field", field.text())
        .with("value", printable(value))
        .with("limit", printable(limit));
  }
  static std::string printable(std::string_view text) { return shorten(text); }
  static std::string printable(const std::string& text) { return shorten(text); }
  static std::string printable(const char* text) { return text; }
  static const char* printable(bool value) { return value ? "true" : "false"; }
  template <class Number>
  static Number printable(Number value) {
    return value;
  }

  bool is_reader_;
  std::string path_;
};

/// Everything but versions and feature bits, which are for readers alone.
void check_manifest(const Manifest& manifest, const FieldChecker& checker);

/// Slices by themselves: counts, kinds, dtypes, boxes, sizes, order, places.
void check_slices(const ShardIndex& index, int align_log2, const FieldChecker& checker);

/// The volume of `shape`, whose elements, 8 bytes each, have an address.
int64_t checked_volume(const Shape& shape, int64_t tensor, const FieldChecker& checker);

}  // namespace plait

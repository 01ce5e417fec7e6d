// The one error type of the library. Thrown anywhere, caught in the C guard and at a rank's entry.
//
//   throw Error("argument", "value out of range").with("key", key).with("value", v).with("limit",
//   8);
//
// The word fixes code and default disposition (one table in error.cc). The message is one line,
// `<word>: <sentence>; key=value …`; the same fields make the details object.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace plait {

/// Numbers of Abseil's and gRPC's canonical codes, then Plait's own. Never renumbered.
enum class Code : int32_t {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
  kHostError = 64,
  kPeerLost = 65,
  kStopped = 66,
};

/// "OK", "INVALID_ARGUMENT", …; "UNKNOWN" for a number that is no code.
const char* code_name(Code code);

/// What an error left behind, and what the caller may do next.
enum class Disposition : int32_t {
  kUnchanged = 1,    ///< no effect; fix the call
  kRetry = 2,        ///< no effect; the same call may succeed later
  kEngineLost = 3,   ///< free engine and group, build new ones
  kProcessLost = 4,  ///< device or memory is beyond repair in this process
};

class Error : public std::exception {
 public:
  /// `word` is one of the stable words of error.cc; an unknown one becomes INTERNAL/invariant.
  Error(std::string_view word, std::string sentence);
  /// Keys and JSON values.
  using Fields = std::vector<std::pair<std::string, std::string>>;
  /// The copy of an error of another process: message and fields as they were there.
  static Error restore(std::string_view word, std::string message, Fields fields);

  /// Adds a field to message and details. Text with spaces is quoted in the message.
  Error&& with(std::string_view key, std::string_view value) &&;
  Error&& with(std::string_view key, const char* value) &&;
  Error&& with(std::string_view key, double value) &&;
  Error&& with(std::string_view key, bool value) &&;
  template <class Integer>
  requires std::is_integral_v<Integer> Error && with(std::string_view key, Integer value) && {
    return std::move(*this).with_raw(key, std::to_string(value));
  }
  /// Adds a field whose value is JSON text already (a list or a table).
  Error&& with_raw(std::string_view key, std::string json) &&;
  Error&& subsystem(std::string_view name) &&;
  Error&& disposition(Disposition value) &&;
  Error&& rank(int32_t value) &&;
  Error&& host_code(int64_t value) &&;

  Code code() const { return code_; }
  const std::string& word() const { return word_; }
  const std::string& message() const { return message_; }
  const std::string& subsystem() const { return subsystem_; }
  Disposition disposition() const { return disposition_; }
  int32_t rank() const { return rank_; }            ///< rank of origin, −1: none
  int64_t host_code() const { return host_code_; }  ///< what a host callback returned, 0: none
  const Fields& fields() const { return fields_; }
  std::string details() const;  ///< JSON object of the fields
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string word_, message_, subsystem_;
  Fields fields_;
  int64_t host_code_ = 0;
  Code code_;
  Disposition disposition_;
  int32_t rank_ = -1;
};

/// Throws INTERNAL/invariant when `condition` is false: a fault of Plait, never of its user.
void check(bool condition, const char* what);

/// The error for an errno of operation `operation` on `path`, by the table of faults.
Error errno_error(int error_number, std::string_view operation, std::string_view path);

}  // namespace plait

// What went wrong, as the user sees it, and the exit code that follows from it.
#pragma once

#include <cstdint>
#include <exception>
#include <string>
#include <utility>

#include "plait/plait.h"

namespace plait::cli {

inline constexpr int kExitDone = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitStopped = 3;
inline constexpr int kExitLost = 4;
inline constexpr int kExitDamaged = 5;
inline constexpr int kExitAborted = 130;

/// An error of the library or of this program, thrown as a value.
class Failure : public std::exception {
 public:
  /// Takes and frees `error`; null stands for an error that could not be made.
  Failure(int32_t code, plait_error* error);
  /// An error of the program itself, in the form of the library's: "<word>: <sentence>".
  Failure(int32_t code, const std::string& word, const std::string& sentence);

  /// Adds `key=value` to the message and to the details; `with` for use in a throw.
  void add(const std::string& key, const std::string& value);
  void add(const std::string& key, int64_t value);
  Failure&& with(const std::string& key, const std::string& value) &&;
  Failure&& with(const std::string& key, int64_t value) &&;

  int32_t code() const { return code_; }
  int32_t disposition() const { return disposition_; }
  const std::string& word() const { return word_; }
  const std::string& message() const { return message_; }
  const char* what() const noexcept override { return message_.c_str(); }

  /// {"error": {…}} with all parts, for --json.
  std::string json() const;

  /// Exit code. `is_started`: work on the user's behalf had begun, so that a wrong argument is no
  /// longer a matter of usage.
  int exit_code(bool is_started) const;

 private:
  void add_field(const std::string& key, const std::string& shown, const std::string& json);

  int32_t code_;
  std::string word_, message_, subsystem_, details_;
  int32_t rank_ = -1;
  int32_t disposition_ = PLAIT_DISPOSITION_UNCHANGED;
  int64_t host_code_ = 0;
};

/// INVALID_ARGUMENT/argument about the command line or the configuration.
Failure usage_failure(const std::string& sentence);

/// An error of the operating system about `path`, by errno.
Failure file_failure(int error_number, const std::string& operation, const std::string& path);

}  // namespace plait::cli

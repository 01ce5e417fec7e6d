#include "kernels/base/error.h"

#include <cerrno>
#include <cstring>

#include "kernels/base/json_text.h"

namespace plait {
namespace {

struct WordRow {
  const char* word;
  Code code;
  Disposition disposition;
};

constexpr Disposition kU = Disposition::kUnchanged, kR = Disposition::kRetry,
                      kE = Disposition::kEngineLost, kP = Disposition::kProcessLost;

constexpr WordRow kWords[] = {
    {"cancelled", Code::kCancelled, kU},
    {"argument", Code::kInvalidArgument, kU},
    {"struct_size", Code::kInvalidArgument, kU},
    {"bad_handle", Code::kInvalidArgument, kU},
    {"topology", Code::kInvalidArgument, kU},
    {"token_range", Code::kInvalidArgument, kU},
    {"deadline", Code::kDeadlineExceeded, kR},
    {"missing_ranks", Code::kDeadlineExceeded, kR},
    {"stalled", Code::kDeadlineExceeded, kE},
    {"no_checkpoint", Code::kNotFound, kU},
    {"no_file", Code::kNotFound, kU},
    {"step_exists", Code::kAlreadyExists, kU},
    {"target_exists", Code::kAlreadyExists, kU},
    {"permission", Code::kPermissionDenied, kU},
    {"read_only", Code::kPermissionDenied, kU},
    {"no_space", Code::kResourceExhausted, kR},
    {"quota", Code::kResourceExhausted, kR},
    {"file_too_large", Code::kResourceExhausted, kR},
    {"too_many_files", Code::kResourceExhausted, kR},
    {"no_memory", Code::kResourceExhausted, kR},
    {"too_large", Code::kResourceExhausted, kR},
    {"busy", Code::kFailedPrecondition, kU},
    {"reentrant", Code::kFailedPrecondition, kU},
    {"closed", Code::kFailedPrecondition, kU},
    {"mid_step", Code::kFailedPrecondition, kU},
    {"mismatch", Code::kFailedPrecondition, kU},
    {"version_mismatch", Code::kFailedPrecondition, kU},
    {"config_mismatch", Code::kFailedPrecondition, kU},
    {"dataset_changed", Code::kFailedPrecondition, kU},
    {"numerics_changed", Code::kFailedPrecondition, kU},
    {"root_not_shared", Code::kFailedPrecondition, kU},
    {"name_mismatch", Code::kFailedPrecondition, kU},
    {"tied_mismatch", Code::kFailedPrecondition, kU},
    {"weights_only", Code::kFailedPrecondition, kU},
    {"desync", Code::kFailedPrecondition, kU},
    {"forked", Code::kFailedPrecondition, kP},
    {"aborted", Code::kAborted, kE},
    {"fenced", Code::kAborted, kE},
    {"nonfinite_weights", Code::kOutOfRange, kU},
    {"dtype_overflow", Code::kOutOfRange, kU},
    {"nonfinite_loss", Code::kOutOfRange, kU},
    {"scale_exhausted", Code::kOutOfRange, kU},
    {"format", Code::kUnimplemented, kU},
    {"unsupported_model", Code::kUnimplemented, kU},
    {"no_exchange", Code::kUnimplemented, kU},
    {"not_built", Code::kUnimplemented, kU},
    {"struct_tail", Code::kUnimplemented, kU},
    {"invariant", Code::kInternal, kE},
    {"io_error", Code::kUnavailable, kR},
    {"root_gone", Code::kUnavailable, kR},
    {"locked", Code::kUnavailable, kR},
    {"save_pending", Code::kUnavailable, kR},
    {"address", Code::kUnavailable, kR},
    {"device_lost", Code::kUnavailable, kP},
    {"corrupt", Code::kDataLoss, kU},
    {"missing_shard", Code::kDataLoss, kU},
    {"save_id_mismatch", Code::kDataLoss, kU},
    {"digest_mismatch", Code::kDataLoss, kU},
    {"invalid_field", Code::kDataLoss, kU},
    {"invalid_file", Code::kDataLoss, kU},
    {"dataset_magic", Code::kDataLoss, kU},
    {"dataset_version", Code::kDataLoss, kU},
    {"dataset_dtype", Code::kDataLoss, kU},
    {"dataset_lengths", Code::kDataLoss, kU},
    {"dataset_documents", Code::kDataLoss, kU},
    {"dataset_truncated", Code::kDataLoss, kU},
    {"dataset_token", Code::kDataLoss, kU},
    {"replica_diverged", Code::kDataLoss, kE},
    {"token", Code::kUnauthenticated, kU},
    {"callback", Code::kHostError, kU},
    {"peer_lost", Code::kPeerLost, kE},
    {"peer_frozen", Code::kPeerLost, kE},
};

const WordRow* find_word(std::string_view word) {
  for (const WordRow& row : kWords) {
    if (word == row.word) return &row;
  }
  return nullptr;
}

bool needs_quotes(std::string_view text) {
  if (text.empty()) return true;
  for (char c : text) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == ';') return true;
  }
  return false;
}

}  // namespace

const char* code_name(Code code) {
  switch (code) {
    case Code::kOk:
      return "OK";
    case Code::kCancelled:
      return "CANCELLED";
    case Code::kUnknown:
      return "UNKNOWN";
    case Code::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case Code::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case Code::kNotFound:
      return "NOT_FOUND";
    case Code::kAlreadyExists:
      return "ALREADY_EXISTS";
    case Code::kPermissionDenied:
      return "PERMISSION_DENIED";
    case Code::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case Code::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case Code::kAborted:
      return "ABORTED";
    case Code::kOutOfRange:
      return "OUT_OF_RANGE";
    case Code::kUnimplemented:
      return "UNIMPLEMENTED";
    case Code::kInternal:
      return "INTERNAL";
    case Code::kUnavailable:
      return "UNAVAILABLE";
    case Code::kDataLoss:
      return "DATA_LOSS";
    case Code::kUnauthenticated:
      return "UNAUTHENTICATED";
    case Code::kHostError:
      return "HOST_ERROR";
    case Code::kPeerLost:
      return "PEER_LOST";
    case Code::kStopped:
      return "STOPPED";
  }
  return "UNKNOWN";
}

Error::Error(std::string_view word, std::string sentence) {
  const WordRow* row = find_word(word);
  if (row == nullptr) row = find_word("invariant");
  word_ = row->word;
  code_ = row->code;
  disposition_ = row->disposition;
  message_ = word_ + ": " + sentence;
}

Error Error::restore(std::string_view word, std::string message, Fields fields) {
  Error copy(word, "");
  copy.message_ = std::move(message);
  copy.fields_ = std::move(fields);
  return copy;
}

Error&& Error::with(std::string_view key, std::string_view value) && {
  std::string quoted = json_string(value);
  message_ += fields_.empty() ? "; " : " ";
  message_.append(key) += '=';
  message_ += needs_quotes(value) ? quoted : std::string(value);
  fields_.emplace_back(std::string(key), std::move(quoted));
  return std::move(*this);
}

Error&& Error::with(std::string_view key, const char* value) && {
  return std::move(*this).with(key, std::string_view(value));
}

Error&& Error::with(std::string_view key, double value) && {
  return std::move(*this).with_raw(key, json_number(value));
}

Error&& Error::with(std::string_view key, bool value) && {
  return std::move(*this).with_raw(key, value ? "true" : "false");
}

Error&& Error::with_raw(std::string_view key, std::string json) && {
  message_ += fields_.empty() ? "; " : " ";
  message_.append(key) += '=';
  message_ += json;
  fields_.emplace_back(std::string(key), std::move(json));
  return std::move(*this);
}

Error&& Error::subsystem(std::string_view name) && {
  subsystem_ = name;
  return std::move(*this);
}

Error&& Error::disposition(Disposition value) && {
  disposition_ = value;
  return std::move(*this);
}

Error&& Error::rank(int32_t value) && {
  rank_ = value;
  return std::move(*this);
}

Error&& Error::host_code(int64_t value) && {
  host_code_ = value;
  return std::move(*this);
}

std::string Error::details() const {
  JsonObject object;
  for (const auto& [key, json] : fields_) object.raw(key, json);
  return object.text();
}

void check(bool condition, const char* what) {
  if (!condition) throw Error("invariant", what);
}

Error errno_error(int error_number, std::string_view operation, std::string_view path) {
  const char* word = "io_error";
  switch (error_number) {
    case ENOSPC:
      word = "no_space";
      break;
    case EDQUOT:
      word = "quota";
      break;
    case EFBIG:
      word = "file_too_large";
      break;
    case EMFILE:
    case ENFILE:
      word = "too_many_files";
      break;
    case ENOMEM:
      word = "no_memory";
      break;
    case EACCES:
    case EPERM:
      word = "permission";
      break;
    case EROFS:
      word = "read_only";
      break;
    case ENOENT:
      word = "no_file";
      break;
    case ESTALE:
    case ENODEV:
      word = "root_gone";
      break;
    case ENAMETOOLONG:
      word = "argument";
      break;
    default:
      break;
  }
  char text[128] = "";
  const char* reason = strerror_r(error_number, text, sizeof text);
  return Error(word, std::string(operation) + " failed: " + reason)
      .with("path", path)
      .with("errno", error_number);
}

}  // namespace plait

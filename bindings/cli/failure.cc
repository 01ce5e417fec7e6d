#include "bindings/cli/failure.h"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "bindings/cli/text.h"

namespace plait::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string quoted_where_needed(const std::string& value) {
  for (const char c : value) {
    if (static_cast<unsigned char>(c) <= ' ' || c == '"' || c == ';') return json_text(value);
  }
  return value.empty() ? "\"\"" : value;
}

}  // namespace

Failure::Failure(int32_t code, plait_error* error) : code_(code) {
  word_ = plait_error_word(error);
  message_ = plait_error_message(error);
  subsystem_ = plait_error_subsystem(error);
  details_ = plait_error_details(error);
  if (error != nullptr) {
    rank_ = plait_error_rank(error);
    disposition_ = plait_error_disposition(error);
    host_code_ = plait_error_host_code(error);
  }
  plait_error_free(error);
}

Failure::Failure(int32_t code, const std::string& word, const std::string& sentence)
    : code_(code), word_(word), message_(word + ": " + sentence), subsystem_("cli") {}

void Failure::add_field(const std::string& key, const std::string& shown, const std::string& json) {
  message_ += (message_.find("; ") == std::string::npos ? "; " : " ") + key + "=" + shown;
  Json fields = Json::parse(details_, nullptr, false);
  if (!fields.is_object()) fields = Json::object();
  fields[key] = Json::parse(json);
  details_ = fields.dump();
}

void Failure::add(const std::string& key, const std::string& value) {
  add_field(key, quoted_where_needed(value), json_text(value));
}

void Failure::add(const std::string& key, int64_t value) {
  add_field(key, std::to_string(value), std::to_string(value));
}

Failure&& Failure::with(const std::string& key, const std::string& value) && {
  add(key, value);
  return std::move(*this);
}

Failure&& Failure::with(const std::string& key, int64_t value) && {
  add(key, value);
  return std::move(*this);
}

std::string Failure::json() const {
  Json details = Json::parse(details_, nullptr, false);
  if (details.is_discarded()) details = Json::object();
  const Json object = {{"error",
                        {{"code", code_},
                         {"name", plait_code_name(code_)},
                         {"word", word_},
                         {"message", message_},
                         {"subsystem", subsystem_},
                         {"details", details},
                         {"rank", rank_},
                         {"disposition", disposition_},
                         {"host_code", host_code_}}}};
  return object.dump(-1, ' ', false, Json::error_handler_t::replace);
}

int Failure::exit_code(bool is_started) const {
  if (code_ == PLAIT_DATA_LOSS) return kExitDamaged;
  if (code_ == PLAIT_PEER_LOST || disposition_ == PLAIT_DISPOSITION_ENGINE_LOST ||
      disposition_ == PLAIT_DISPOSITION_PROCESS_LOST) {
    return kExitLost;
  }
  if (code_ == PLAIT_CANCELLED || code_ == PLAIT_STOPPED) return kExitStopped;
  const bool is_usage = code_ == PLAIT_INVALID_ARGUMENT || code_ == PLAIT_NOT_FOUND ||
                        code_ == PLAIT_FAILED_PRECONDITION || code_ == PLAIT_PERMISSION_DENIED;
  return is_usage && !is_started ? kExitUsage : kExitFailed;
}

Failure usage_failure(const std::string& sentence) {
  return Failure(PLAIT_INVALID_ARGUMENT, "argument", sentence);
}

Failure file_failure(int error_number, const std::string& operation, const std::string& path) {
  int32_t code = PLAIT_UNAVAILABLE;
  const char* word = "io_error";
  if (error_number == ENOENT || error_number == ENOTDIR) {
    code = PLAIT_NOT_FOUND, word = "no_file";
  } else if (error_number == EACCES || error_number == EPERM || error_number == EROFS) {
    code = PLAIT_PERMISSION_DENIED, word = error_number == EROFS ? "read_only" : "permission";
  } else if (error_number == ENOSPC || error_number == EDQUOT) {
    code = PLAIT_RESOURCE_EXHAUSTED, word = error_number == ENOSPC ? "no_space" : "quota";
  }
  return Failure(code, word, operation + " failed: " + std::strerror(error_number))
      .with("path", path)
      .with("errno", error_number);
}

}  // namespace plait::cli

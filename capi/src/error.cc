#include "capi/src/error.h"

#include <cstring>
#include <new>
#include <string>

#include "capi/src/guard.h"

namespace plait {
namespace {

// Static storage whose destruction does nothing, so that errors can be read until the process ends.
union StaticError {
  constexpr StaticError(Code code, Disposition disposition, const char* word, const char* message)
      : error(code, disposition, word, message) {}
  ~StaticError() {}
  plait_error error;
};

constinit StaticError no_memory_error{Code::kResourceExhausted, Disposition::kRetry, "no_memory",
                                      "no_memory: an allocation failed"};
constinit StaticError bad_error{Code::kInvalidArgument, Disposition::kUnchanged, "bad_handle",
                                "bad_handle: what was read is no error object; parameter=error"};

// What a getter reads: null for null, and an error of its own for a wrong handle.
const plait_error* readable(const plait_error* error) {
  if (error == nullptr) return nullptr;
  return is_live(error) ? error : &bad_error.error;
}

}  // namespace

int32_t report_error(const Error& error, plait_error** err) {
  if (err == nullptr) return static_cast<int32_t>(error.code());
  try {
    *err = new plait_error(error);
  } catch (const std::bad_alloc&) {
    return report_no_memory(err);
  }
  return static_cast<int32_t>(error.code());
}

int32_t report_no_memory(plait_error** err) {
  if (err != nullptr) *err = &no_memory_error.error;
  return PLAIT_RESOURCE_EXHAUSTED;
}

int32_t report_exception(const char* what, plait_error** err) {
  try {
    return report_error(Error("invariant", "an exception reached the guard").with("what", what),
                        err);
  } catch (const std::bad_alloc&) {
    return report_no_memory(err);
  }
}

}  // namespace plait

plait_error::plait_error(const plait::Error& error)
    : Handle(kKind),
      host_code(error.host_code()),
      code(static_cast<int32_t>(error.code())),
      disposition(static_cast<int32_t>(error.disposition())),
      rank(error.rank()) {
  const std::string fields = error.details();
  const std::string* parts[] = {&error.word(), &error.message(), &error.subsystem(), &fields};
  size_t bytes = 0;
  for (const std::string* part : parts) bytes += part->size() + 1;
  text = std::make_unique<char[]>(bytes);
  const char** places[] = {&word, &message, &subsystem, &details};
  char* next = text.get();
  for (size_t i = 0; i < 4; ++i) {
    std::memcpy(next, parts[i]->c_str(), parts[i]->size() + 1);
    *places[i] = next;
    next += parts[i]->size() + 1;
  }
}

int32_t plait_error_code(const plait_error* error) {
  const plait_error* read = plait::readable(error);
  return read == nullptr ? PLAIT_OK : read->code;
}

int32_t plait_error_rank(const plait_error* error) {
  const plait_error* read = plait::readable(error);
  return read == nullptr ? -1 : read->rank;
}

int32_t plait_error_disposition(const plait_error* error) {
  const plait_error* read = plait::readable(error);
  return read == nullptr ? -1 : read->disposition;
}

const char* plait_error_message(const plait_error* error) {
  const plait_error* read = plait::readable(error);
  return read == nullptr ? "" : read->message;
}

const char* plait_error_word(const plait_error* error) {
  const plait_error* read = plait::readable(error);
  return read == nullptr ? "" : read->word;
}

const char* plait_error_subsystem(const plait_error* error) {
  const plait_error* read = plait::readable(error);
  return read == nullptr ? "" : read->subsystem;
}

const char* plait_error_details(const plait_error* error) {
  const plait_error* read = plait::readable(error);
  return read == nullptr ? "" : read->details;
}

int64_t plait_error_host_code(const plait_error* error) {
  const plait_error* read = plait::readable(error);
  return read == nullptr ? -1 : read->host_code;
}

void plait_error_free(plait_error* error) {
  if (!plait::is_live(error) || error->is_static || plait::is_forked()) return;
  plait::free_handle(error);
}

#include "engine/trainer/answers.h"

#include <new>
#include <string_view>
#include <utility>

#include "engine/comm/announcement.h"
#include "engine/comm/exchange.h"

namespace plait {

Error as_error(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  } catch (const std::bad_alloc&) {
    return Error("no_memory", "the system has no memory left");
  } catch (const std::exception& other) {
    return Error("invariant", other.what());
  }
}

Answer answer_of(FunctionRef<std::string()> work) {
  Answer answer;
  try {
    answer.text = work();
  } catch (...) {
    answer.error = as_error(std::current_exception());
  }
  return answer;
}

std::vector<Answer> tell_all(World& world, const std::string& name, const Answer& own,
                             int64_t limit_ms, ExchangeStream stream) {
  std::string value = own.error ? "!" + encode_error(*own.error) : "+" + own.text;
  if (static_cast<int64_t>(value.size()) > Exchange::kMostBytes) {
    const Error error = Error("too_large", "what a process tells the others is too large")
                            .with("call", name)
                            .with("got", value.size())
                            .with("limit", Exchange::kMostBytes);
    value = "!" + encode_error(error);
  }
  std::vector<Answer> answers;
  for (const std::string& text : world.exchange(name, value, limit_ms, stream)) {
    Answer& answer = answers.emplace_back();
    if (!text.empty() && text[0] == '+') {
      answer.text = text.substr(1);
      continue;
    }
    Error error("invariant", "a process failed and could not say why");
    if (!text.empty()) decode_error(std::string_view(text).substr(1), &error);
    answer.error = std::move(error);
  }
  return answers;
}

const Error* first_error(const std::vector<Answer>& answers, bool (*is_final)(const Error&)) {
  const Error* first = nullptr;
  for (const Answer& answer : answers) {
    if (!answer.error) continue;
    if (is_final(*answer.error)) return &*answer.error;
    if (first == nullptr) first = &*answer.error;
  }
  return first;
}

}  // namespace plait

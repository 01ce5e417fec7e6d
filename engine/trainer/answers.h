// What the processes of a world tell one another in a round: bytes, or why there are none.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "engine/comm/world.h"
#include "kernels/base/error.h"
#include "kernels/base/function_ref.h"

namespace plait {

/// Bytes, or the error that kept a process from giving any.
struct Answer {
  std::optional<Error> error;
  std::string text;
};

/// What was thrown, as an Error that other processes can be told.
Error as_error(const std::exception_ptr& failure);

/// Does the work; what it throws becomes the answer.
Answer answer_of(FunctionRef<std::string()> work);

/// One exchange: the answers of all, by process. Throws as World::exchange.
std::vector<Answer> tell_all(World& world, const std::string& name, const Answer& own,
                             int64_t limit_ms, ExchangeStream stream = ExchangeStream::kCalls);

/// The answers' errors, as all processes throw them: the first that is final, else the first. Null:
/// there are none.
const Error* first_error(const std::vector<Answer>& answers, bool (*is_final)(const Error&));

}  // namespace plait

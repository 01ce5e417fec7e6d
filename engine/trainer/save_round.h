// What the processes of a world tell one another about a save, and what they agree on before it.
#pragma once

#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "engine/comm/world.h"
#include "kernels/base/error.h"
#include "kernels/base/function_ref.h"

namespace plait {

/// Bytes, or the error that kept a process from giving any.
struct SaveAnswer {
  std::optional<Error> error;
  std::string text;
};

/// What was thrown, as an Error that other processes can be told.
Error error_of_save(const std::exception_ptr& failure);

/// Does the work; what it throws becomes the answer.
SaveAnswer answer_of(FunctionRef<std::string()> work);

/// One exchange: the answers of all, by process.
std::vector<SaveAnswer> tell_all(World& world, ExchangeStream stream, const std::string& name,
                                 const SaveAnswer& own, int64_t limit_ms);

/// The error that all processes end with: the first that is no wish to cancel, else the first.
/// Null: all went well.
const Error* first_failure(const std::vector<SaveAnswer>& answers);

/// What must be the same in every process when a save opens. `config`: its fingerprint.
std::string save_facts(const Manifest& manifest, const std::string& root, uint64_t config);

/// Compares the facts of all processes. Throws `version_mismatch` where format or library differ,
/// `mismatch` for the rest, with all differences.
void compare_facts(const World& world, const std::vector<std::string>& facts);

}  // namespace plait

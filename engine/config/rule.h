// Vocabulary of the rules between keys; private to this room.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "engine/config/config.h"
#include "kernels/base/error.h"

namespace plait {

/// `error` with one more field. (Error::with returns its own object, so assigning its result to the
/// same variable would be a move onto itself.)
template <class Value>
Error with_field(Error error, std::string_view key, const Value& value) {
  return std::move(error).with(key, value);
}

/// `argument` that says `sentence` and quotes the effective value of each key.
Error rule_error(const Config& config, std::string sentence,
                 std::initializer_list<std::string_view> keys);

/// Throws unless key `whole` is a multiple of key `part`; skipped while one of them is `auto`.
void require_multiple(const Config& config, std::string_view whole, std::string_view part);

/// Throws unless key `low` ≤ key `high` (numbers).
void require_order(const Config& config, std::string_view low, std::string_view high);

/// Throws `not_built` when `key` holds another word than `built`.
void require_built(const Config& config, std::string_view key, std::string_view built);

/// True when one of the keys is left to the planner.
bool any_auto(const Config& config, std::initializer_list<std::string_view> keys);

}  // namespace plait

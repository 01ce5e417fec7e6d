// What the processes of a world tell one another about a save, and what they agree on before it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/format/manifest.h"
#include "engine/comm/world.h"
#include "engine/trainer/answers.h"

namespace plait {

/// The error that all processes end with: the first that is no wish to cancel, else the first.
/// Null: all went well.
const Error* first_failure(const std::vector<Answer>& answers);

/// What must be the same in every process when a save opens. `config`: its fingerprint.
std::string save_facts(const Manifest& manifest, const std::string& root, uint64_t config);

/// Compares the facts of all processes. Throws `version_mismatch` where format or library differ,
/// `mismatch` for the rest, with all differences.
void compare_facts(const World& world, const std::vector<std::string>& facts);

}  // namespace plait

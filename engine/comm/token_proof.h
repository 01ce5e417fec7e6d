// Proof that a process knows the job's token, without showing it: HMAC-SHA-256 (RFC 2104, FIPS
// 180-4) over random bytes of the other side and over what is said.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

namespace plait {

/// 32 bytes.
std::string sha256(std::string_view data);

/// HMAC with `token` as the key over the parts, each with its length. 32 bytes.
std::string token_proof(std::string_view token, std::initializer_list<std::string_view> parts);

/// Equality in a time that does not depend on the bytes.
bool is_same_proof(std::string_view a, std::string_view b);

}  // namespace plait

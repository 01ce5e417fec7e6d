// One pass over everything that the library does for one process.
#pragma once

#include <string>

namespace host {

/// Configuration, data set, tokenizer, file encoding, engine, steps, evaluation, scores,
/// generation, tensors, Hugging Face in and out, and calls that fail. `directory` exists and is
/// writable. Returns text that holds every number it got, reals as hexadecimal, so that two passes
/// can be compared to the bit. Throws std::runtime_error when a call that must succeed does not.
std::string workout(const std::string& directory, const std::string& keys = "{}");

}  // namespace host

// A small complete configuration, and errors as their fields.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "engine/config/config.h"
#include "kernels/base/error.h"

namespace plait {

/// The word and fields of an error; word is empty when nothing was thrown.
struct Caught {
  std::string word;
  nlohmann::json fields;
  std::string message;
};

template <class Action>
Caught caught(Action action) {
  try {
    action();
  } catch (const Error& error) {
    return {error.word(), nlohmann::json::parse(error.details()), error.message()};
  }
  return {};
}

/// GPT-2, 4 layers of width 48, batches of 16: passes every rule.
inline Config small_config() {
  Config config;
  config.load_json(R"({
    "model": {"family": "gpt2", "layers": 4, "hidden": 48, "heads": 6, "vocab_size": 131,
              "sequence_length": 32},
    "train.global_batch": 16})");
  return config;
}

}  // namespace plait

// What a file must know of a model: its family and sizes, as plain values.
#pragma once

#include <cstdint>

namespace plait {

struct ModelFacts {
  enum class Family { kGpt2, kLlama };
  Family family = Family::kGpt2;
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t heads = 0;            ///< query heads
  int64_t key_value_heads = 0;  ///< divides `heads`; equal to it in gpt2
  int64_t head_size = 0;        ///< heads · head_size may differ from `hidden` in llama
  int64_t feed_forward = 0;
  int64_t vocab_size = 0;       ///< real rows, without padding
  int64_t sequence_length = 0;  ///< longest sequence; rows of gpt2's position table
  bool tied = true;             ///< the head is the token embedding
  double norm_epsilon = 1e-5;
  double rope_base = 10000.0;  ///< llama only

  bool operator==(const ModelFacts&) const = default;
};

constexpr const char* family_name(ModelFacts::Family family) {
  return family == ModelFacts::Family::kGpt2 ? "gpt2" : "llama";
}

}  // namespace plait

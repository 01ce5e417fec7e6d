// Byte-pair merges: a word's bytes become tokens, and while any adjacent pair has a rule, all
// occurrences of the pair with the lowest rank are merged, from left to right.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "engine/data/tokenizer_files.h"

namespace plait {

/// Working memory of one thread, kept between words.
struct BpeScratch {
  std::vector<int32_t> ids, previous, next;
  std::vector<uint32_t> ranks;
  std::vector<std::pair<uint32_t, int32_t>> heap;  // rank, place of the left token
  std::vector<int32_t> places;
};

class BpeMerger {
 public:
  /// `files` as checked by parse_bpe_files.
  explicit BpeMerger(const BpeFiles& files);

  /// Appends the tokens of `word`, at most 2³¹ − 1 bytes, to `out`.
  void encode(std::string_view word, BpeScratch* scratch, std::vector<int32_t>* out) const;

 private:
  struct Merge {
    uint32_t rank;
    int32_t merged;
  };
  static constexpr uint32_t kNone = ~uint32_t{0};

  const Merge* find(int32_t left, int32_t right) const;
  uint32_t rank(int32_t left, int32_t right) const;
  void encode_short(std::string_view word, BpeScratch* scratch, std::vector<int32_t>* out) const;
  void encode_long(std::string_view word, BpeScratch* scratch, std::vector<int32_t>* out) const;
  void merge_at(int32_t place, uint32_t rank, BpeScratch* scratch) const;
  void push_pair(int32_t place, BpeScratch* scratch) const;
  uint32_t rank_at(int32_t place, const BpeScratch& scratch) const;

  absl::flat_hash_map<uint64_t, Merge> merges_;  // key: left id, right id
  std::array<int32_t, 256> byte_ids_{};
};

}  // namespace plait

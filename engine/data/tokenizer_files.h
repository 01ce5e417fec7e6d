// Reading the two files of a byte-level BPE vocabulary.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/env.h"

namespace plait {

/// Two tokens that become one. A rule's place in the list is its rank; lower ones go first.
struct MergeRule {
  int32_t left = 0;
  int32_t right = 0;
  int32_t merged = 0;
};

struct BpeFiles {
  std::vector<std::string> tokens;  ///< bytes of each id; none is empty, all differ
  std::vector<MergeRule> merges;
};

/// Reads `vocab.bpe` and `encoder.json`, or `merges.txt` and `vocab.json`, of `directory`.
/// `no_file` when neither pair is there; `invalid_file` (path, and offset or line) for text that is
/// no such file; `invalid_field` (path, and token or line) for ids that are not 0 … V − 1, tokens
/// outside the alphabet of bytes, merges of unknown tokens.
BpeFiles read_bpe_files(Files& files, const std::string& directory);

/// The same from the contents of the files; the paths only name them in errors.
BpeFiles parse_bpe_files(std::string_view vocabulary, const std::string& vocabulary_path,
                         std::string_view merges, const std::string& merges_path);

}  // namespace plait

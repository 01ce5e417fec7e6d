// Data sets as the trainer sees them: an endless, reproducible order of samples over one or more
// token files.
//
// The documents of a file form one stream of T tokens; sample j is tokens [j·s, j·s + s + 1), so
// neighbours share one token and an epoch has n = ⌊(T − 1)/s⌋ samples. Ordinal i of a set is sample
// π_ε(i mod n) of epoch ε = ⌊i/n⌋. Everything is a pure function of (seed, files, ordinal).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "engine/data/blend.h"
#include "engine/data/shuffle.h"
#include "engine/data/token_file.h"
#include "kernels/base/env.h"

namespace plait {

struct DataOptions {
  std::vector<std::string> paths;     ///< one data set each, at least one
  std::vector<double> weights;        ///< one per path; empty: equal
  std::vector<double> split = {1.0};  ///< shares of every file, normalised by their sum
  int64_t role = 0;                   ///< which share: 0 train, 1 evaluate; beyond the list: empty
  uint64_t seed = 1234;
  int64_t sequence_length = 0;  ///< s ≥ 1
  int64_t vocab_size = 0;       ///< ids must be below it
  bool shuffle = true;
  bool isolate_documents = false;           ///< wish of the configuration, only handed through
  TokenType token_type = TokenType::kAuto;  ///< of flat files
};

/// The part of one token file that a role reads: positions [begin, end) of its stream.
class SampleSet {
 public:
  /// Opens `options.paths[number]`; `argument` with path, split, tokens and sequence_length when
  /// its share is empty or holds no whole sample, `dataset_*` for a damaged file.
  SampleSet(Files& files, const DataOptions& options, int64_t number);

  const TokenFile& file() const { return *file_; }
  int64_t tokens() const { return end_ - begin_; }
  int64_t documents() const { return documents_; }       ///< of the share; 1 for a flat file
  int64_t samples() const { return samples_; }           ///< n, at least 1
  uint64_t fingerprint() const { return fingerprint_; }  ///< of the whole file
  const TokenFileFacts& facts() const { return facts_; }

  /// Sample of the set's own `ordinal` ≥ 0, any number of epochs on.
  int64_t sample_of(int64_t ordinal) const;
  /// out[0, s + 1) = tokens of sample `sample` in [0, n), else `argument`.
  void read(int64_t sample, int32_t* out) const;
  /// out[0, s + 1) = document of each token, from 0 within the sample.
  void read_documents(int64_t sample, int32_t* out) const;

 private:
  int64_t position(int64_t sample) const;

  std::unique_ptr<TokenFile> file_;
  TokenFileFacts facts_;
  int64_t begin_ = 0, end_ = 0;
  int64_t documents_ = 0;
  int64_t sequence_length_;
  int64_t samples_ = 0;
  uint64_t fingerprint_ = 0;
  bool is_shuffled_;
  std::unique_ptr<Shuffle> shuffle_;
};

/// Where a sample of the run comes from.
struct SampleSource {
  int64_t set = 0;
  int64_t ordinal = 0;  ///< the set's own
  int64_t sample = 0;   ///< index in the set
};

/// All const methods may run in any thread, at once; none allocates but those that return vectors.
class Dataset {
 public:
  static std::unique_ptr<Dataset> open(Files& files, const DataOptions& options);

  int64_t sets() const { return static_cast<int64_t>(sets_.size()); }
  const SampleSet& set(int64_t number) const { return *sets_[static_cast<size_t>(number)]; }
  int64_t weight(int64_t set) const { return blend_.weight(set); }  ///< W_j, of sum 2³²
  int64_t sequence_length() const { return options_.sequence_length; }
  bool isolates_documents() const { return options_.isolate_documents; }
  const DataOptions& options() const { return options_; }
  int64_t samples_per_epoch() const;  ///< of all sets together
  int64_t tokens() const;             ///< of this role's share
  int64_t documents() const;          ///< of this role's share
  /// XXH3-64 over the facts of all files in order; equal for equal contents under any names.
  uint64_t fingerprint() const { return fingerprint_; }

  /// tokens[count, s + 1] = samples [first, first + count) of the run.
  void read(int64_t first, int64_t count, int32_t* tokens) const;
  /// documents[count, s + 1]: for each token its document, from 0 within the sample.
  void read_documents(int64_t first, int64_t count, int32_t* documents) const;
  SampleSource locate(int64_t ordinal) const;

  /// Draws of each set before sample `ordinal` of the run: what a checkpoint stores.
  BlendState state_at(int64_t ordinal) const;
  /// Makes the position of a checkpoint reachable without a replay; not needed for right results.
  void seek(const BlendState& state) const;

 private:
  explicit Dataset(const DataOptions& options, const std::vector<double>& weights)
      : options_(options), blend_(weights) {}
  SampleSource locate_locked(int64_t ordinal) const;
  static void check_ordinals(int64_t first, int64_t count);

  DataOptions options_;
  std::vector<std::unique_ptr<SampleSet>> sets_;
  mutable std::mutex mutex_;  // guards blend_'s position
  mutable Blend blend_;
  uint64_t fingerprint_ = 0;
};

}  // namespace plait

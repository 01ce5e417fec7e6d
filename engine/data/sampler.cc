#include "engine/data/sampler.h"

#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "engine/data/fingerprint.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kMaxRole = 1 << 20;

std::string role_name(int64_t role) {
  constexpr std::string_view kNames[] = {"train", "evaluate", "rest"};
  if (role >= 0 && role < 3) return std::string(kNames[role]);
  return std::to_string(role);
}

void check_options(const DataOptions& options) {
  if (options.paths.empty()) {
    throw Error("argument", "no token file is named").with("key", "data.train");
  }
  if (!options.weights.empty() && options.weights.size() != options.paths.size()) {
    throw Error("argument", "there must be a weight for every path")
        .with("key", "data.train_weights")
        .with("got", options.weights.size())
        .with("want", options.paths.size());
  }
  if (options.sequence_length < 1) {
    throw Error("argument", "the sequence length must be at least 1")
        .with("key", "train.sequence_length")
        .with("got", options.sequence_length);
  }
  if (options.role < 0 || options.role > kMaxRole) {
    throw Error("argument", "no such share of a split")
        .with("key", "data.split")
        .with("got", options.role)
        .with("limit", kMaxRole);
  }
  double sum = 0;
  for (const double share : options.split) {
    if (!(share >= 0) || !std::isfinite(share)) {
      throw Error("argument", "a share of the split is negative or not finite")
          .with("key", "data.split")
          .with("got", share);
    }
    sum += share;
  }
  if (!(sum > 0) || !std::isfinite(sum)) {
    throw Error("argument", "the shares of the split add up to nothing")
        .with("key", "data.split")
        .with("got", sum);
  }
}

/// ⌊f·count⌋ for f = the share of the first `parts` parts. Decimal shares such as .7 + .2 are meant
/// exactly, so a product within rounding of an integer is that integer.
int64_t split_bound(const std::vector<double>& split, int64_t parts, int64_t count) {
  if (parts >= static_cast<int64_t>(split.size())) return count;
  long double before = 0, all = 0;
  for (size_t i = 0; i < split.size(); ++i) {
    if (static_cast<int64_t>(i) < parts) before += split[i];
    all += split[i];
  }
  const long double exact = before / all * static_cast<long double>(count);
  const long double nearest = std::round(exact);
  const long double tolerance = static_cast<long double>(count) * 0x1p-48L;
  const bool is_whole = std::fabs(exact - nearest) <= tolerance;
  return static_cast<int64_t>(is_whole ? nearest : std::floor(exact));
}

Error split_error(const TokenFile& file, const DataOptions& options, const char* sentence) {
  return Error("argument", sentence)
      .with("path", file.path())
      .with("split", role_name(options.role));
}

}  // namespace

SampleSet::SampleSet(Files& files, const DataOptions& options, int64_t number)
    : sequence_length_(options.sequence_length), is_shuffled_(options.shuffle) {
  const std::string& path = options.paths[static_cast<size_t>(number)];
  file_ = TokenFile::open(files, path, {options.token_type, options.vocab_size});
  if (file_->bytes() == 0) {
    throw Error("dataset_truncated", "the token file is empty")
        .with("path", path)
        .with("want", (options.sequence_length + 1) * token_bytes(file_->type()))
        .with("got", 0);
  }
  const int64_t units = file_->is_indexed() ? file_->documents() : file_->tokens();
  const int64_t first = split_bound(options.split, options.role, units);
  const int64_t last = split_bound(options.split, options.role + 1, units);
  begin_ = file_->is_indexed() ? file_->document_start(first) : first;
  end_ = file_->is_indexed() ? file_->document_start(last) : last;
  documents_ = file_->is_indexed() ? last - first : 1;
  if (tokens() == 0) {
    throw split_error(*file_, options, "the split is empty")
        .with("tokens", tokens())
        .with("documents", file_->is_indexed() ? documents_ : 0)
        .with("file_tokens", file_->tokens())
        .with("file_documents", file_->documents())
        .with("sequence_length", sequence_length_);
  }
  samples_ = (tokens() - 1) / sequence_length_;
  if (samples_ == 0) {
    throw split_error(*file_, options, "the split holds no whole sample")
        .with("tokens", tokens())
        .with("file_tokens", file_->tokens())
        .with("sequence_length", sequence_length_);
  }
  shuffle_ = std::make_unique<Shuffle>(options.seed, number, samples_);
  facts_ = file_->facts();
  fingerprint_ = fingerprint_of({facts_});
}

int64_t SampleSet::sample_of(int64_t ordinal) const {
  const int64_t within = ordinal % samples_;
  return is_shuffled_ ? shuffle_->permute(ordinal / samples_, within) : within;
}

int64_t SampleSet::position(int64_t sample) const {
  if (sample < 0 || sample >= samples_) {
    throw Error("argument", "no such sample")
        .with("path", file_->path())
        .with("got", sample)
        .with("limit", samples_);
  }
  return begin_ + sample * sequence_length_;
}

void SampleSet::read(int64_t sample, int32_t* out) const {
  file_->read(position(sample), sequence_length_ + 1, out);
}

void SampleSet::read_documents(int64_t sample, int32_t* out) const {
  file_->read_documents(position(sample), sequence_length_ + 1, out);
}

std::unique_ptr<Dataset> Dataset::open(Files& files, const DataOptions& options) {
  check_options(options);
  const std::vector<double> equal(options.paths.size(), 1.0);
  std::unique_ptr<Dataset> dataset(
      new Dataset(options, options.weights.empty() ? equal : options.weights));
  std::vector<TokenFileFacts> facts;
  for (int64_t j = 0; j < static_cast<int64_t>(options.paths.size()); ++j) {
    dataset->sets_.push_back(std::make_unique<SampleSet>(files, options, j));
    facts.push_back(dataset->sets_.back()->facts());
  }
  dataset->fingerprint_ = fingerprint_of(facts);
  return dataset;
}

int64_t Dataset::samples_per_epoch() const {
  int64_t sum = 0;
  for (const auto& set : sets_) sum += set->samples();
  return sum;
}

int64_t Dataset::tokens() const {
  int64_t sum = 0;
  for (const auto& set : sets_) sum += set->tokens();
  return sum;
}

int64_t Dataset::documents() const {
  int64_t sum = 0;
  for (const auto& set : sets_) sum += set->documents();
  return sum;
}

SampleSource Dataset::locate_locked(int64_t ordinal) const {
  blend_.seek(ordinal);
  const Draw draw = blend_.next();
  return {draw.set, draw.ordinal, set(draw.set).sample_of(draw.ordinal)};
}

void Dataset::check_ordinals(int64_t first, int64_t count) {
  if (first >= 0 && count >= 0 && count <= std::numeric_limits<int64_t>::max() - first) return;
  throw Error("argument", "a range of samples is negative or overflows")
      .with("first", first)
      .with("count", count);
}

SampleSource Dataset::locate(int64_t ordinal) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return locate_locked(ordinal);
}

void Dataset::read(int64_t first, int64_t count, int32_t* tokens) const {
  check_ordinals(first, count);
  for (int64_t row = 0; row < count; ++row) {
    const SampleSource source = locate(first + row);
    set(source.set).read(source.sample, tokens + row * (sequence_length() + 1));
  }
}

void Dataset::read_documents(int64_t first, int64_t count, int32_t* documents) const {
  check_ordinals(first, count);
  for (int64_t row = 0; row < count; ++row) {
    const SampleSource source = locate(first + row);
    set(source.set).read_documents(source.sample, documents + row * (sequence_length() + 1));
  }
}

BlendState Dataset::state_at(int64_t ordinal) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  blend_.seek(ordinal);
  return blend_.state();
}

void Dataset::seek(const BlendState& state) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  blend_.seek(state);
}

}  // namespace plait

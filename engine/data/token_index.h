// The `.idx` of an indexed token file: checked once in blocks, then read by pread where needed.
// In memory stay at most some 65,000 running sums, however many sequences there are.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/data/token_type.h"
#include "kernels/base/env.h"

namespace plait {

/// One sequence of the stream.
struct SequenceSpan {
  int64_t sequence = 0;
  int64_t start = 0;   ///< stream position of its first token
  int64_t length = 0;  ///< tokens
};

class TokenIndex {
 public:
  /// Checks the whole index against `.bin` size `bin_bytes`; the words are those of
  /// TokenFile::open.
  static std::unique_ptr<TokenIndex> open(Files& files, const std::string& path, int64_t bin_bytes);

  TokenType type() const { return type_; }
  int64_t sequences() const { return sequences_; }
  int64_t documents() const { return document_entries_ - 1; }
  int64_t tokens() const { return tokens_; }
  /// True when sequence after sequence lies without gaps in the `.bin`, from first_byte() on.
  bool is_contiguous() const { return is_contiguous_; }
  int64_t first_byte() const { return first_byte_; }

  /// The sequence that holds stream position `position` in [0, tokens()); never an empty one.
  SequenceSpan find(int64_t position) const;
  /// Stream position at which `sequence` in [0, sequences()] begins.
  int64_t sequence_start(int64_t sequence) const;
  /// The last document that begins at or before `sequence`.
  int64_t document_of(int64_t sequence) const;
  /// First sequence of document `entry` in [0, documents()].
  int64_t document_entry(int64_t entry) const;
  int64_t offset_of(int64_t sequence) const;  ///< byte offset in the `.bin`
  /// Reads lengths [first, first + count) of the sequences.
  void read_lengths(int64_t first, int64_t count, int32_t* out) const;
  /// Reads entries [first, first + count) of the document list.
  void read_document_entries(int64_t first, int64_t count, int64_t* out) const;
  const std::string& path() const { return file_->path(); }

  uint64_t hash() const;  ///< XXH3-64 of the whole file; reads it

 private:
  explicit TokenIndex(std::unique_ptr<File> file) : file_(std::move(file)) {}
  void read_header();
  void check_size() const;
  void check_sequences(int64_t bin_bytes);
  void check_documents() const;
  int64_t lengths_at() const;
  int64_t offsets_at() const;
  int64_t documents_at() const;

  std::unique_ptr<File> file_;
  std::vector<int64_t> starts_;  // stream position of every stride_-th sequence
  int64_t stride_ = 1;
  int64_t sequences_ = 0;
  int64_t document_entries_ = 0;
  int64_t tokens_ = 0;
  int64_t first_byte_ = 0;
  bool is_contiguous_ = true;
  TokenType type_ = TokenType::kAuto;
};

/// Walks the sequences of a stream forward from a position, reading ahead in small blocks.
class SequenceCursor {
 public:
  /// At the sequence that holds `position` in [0, tokens()).
  SequenceCursor(const TokenIndex& index, int64_t position);
  const SequenceSpan& span() const { return span_; }
  /// The document that holds the sequence; looked up at the first call, then followed.
  int64_t document();
  /// To the next sequence that is not empty; there must be one.
  void next();

 private:
  static constexpr int64_t kBlock = 128;
  int64_t length_at(int64_t sequence);
  int64_t entry_at(int64_t entry);

  const TokenIndex& index_;
  SequenceSpan span_;
  int64_t document_ = -1;
  int64_t lengths_first_ = 0, lengths_count_ = 0;
  int64_t entries_first_ = 0, entries_count_ = 0;
  std::array<int32_t, kBlock> lengths_;
  std::array<int64_t, kBlock> entries_;
};

}  // namespace plait

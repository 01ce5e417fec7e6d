#include "engine/data/token_index.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "engine/data/fingerprint.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr std::string_view kMagic("MMIDIDX\0\0", 9);
constexpr int64_t kHeaderBytes = 34;
constexpr uint64_t kVersion = 1;
constexpr int64_t kCheckBlock = 8192;  // entries checked at a time
constexpr int64_t kWalkBlock = 512;    // entries read at a time while looking something up
constexpr int64_t kMinStride = 256;
constexpr int64_t kMaxStarts = 65536;

std::string hex(std::string_view bytes) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : bytes) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

template <class T>
T load(const char* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof value);
  return value;
}

Error sequence_error(const char* word, const char* sentence, const std::string& path,
                     int64_t sequence) {
  return Error(word, sentence).with("path", path).with("sequence", sequence);
}

void check_magic(const std::string& path, std::string_view start) {
  if (start == kMagic.substr(0, start.size())) return;
  throw Error("dataset_magic", "not an index of tokens")
      .with("path", path)
      .with("want", hex(kMagic))
      .with("got", hex(start));
}

TokenType type_of_code(const std::string& path, int code) {
  const TokenType type = static_cast<TokenType>(code);
  if (token_bytes(type) > 0) return type;
  const bool is_float = code == 6 || code == 7;
  throw Error("dataset_dtype",
              is_float ? "tokens cannot be of a floating type" : "the element type is unknown")
      .with("path", path)
      .with("got", code)
      .with("want", "1, 2, 3, 4, 5 or 8");
}

Error truncated(const std::string& path, const char* sentence, uint64_t want, uint64_t got) {
  return Error("dataset_truncated", sentence)
      .with("path", path)
      .with("want", want)
      .with("got", got);
}

/// What was checked at open no longer holds.
Error changed(const TokenIndex& index, int64_t position) {
  return Error("dataset_lengths", "the index has changed since it was opened")
      .with("path", index.path())
      .with("index", position);
}

}  // namespace

std::unique_ptr<TokenIndex> TokenIndex::open(Files& files, const std::string& path,
                                             int64_t bin_bytes) {
  std::unique_ptr<TokenIndex> index(new TokenIndex(files.open_read(path)));
  index->read_header();
  index->check_sequences(bin_bytes);
  index->check_documents();
  return index;
}

void TokenIndex::read_header() {
  const std::string& path = file_->path();
  std::array<char, kHeaderBytes> header{};
  const int64_t got = file_->pread(header.data(), kHeaderBytes, 0);
  check_magic(path, {header.data(), static_cast<size_t>(std::min<int64_t>(got, 9))});
  if (got < kHeaderBytes) {
    throw truncated(path, "the index ends inside its header", kHeaderBytes,
                    static_cast<uint64_t>(got));
  }
  const uint64_t version = load<uint64_t>(header.data() + 9);
  if (version != kVersion) {
    throw Error("dataset_version", "the index has another version")
        .with("path", path)
        .with("got", version)
        .with("want", kVersion);
  }
  type_ = type_of_code(path, static_cast<unsigned char>(header[17]));
  const uint64_t sequences = load<uint64_t>(header.data() + 18);
  const uint64_t entries = load<uint64_t>(header.data() + 26);
  const uint64_t rest = static_cast<uint64_t>(file_->size() - kHeaderBytes);
  if (sequences > rest / 12) {
    throw truncated(path, "the index is too short for its sequences", sequences, rest / 12);
  }
  const uint64_t after_sequences = rest - 12 * sequences;
  if (entries > after_sequences / 8) {
    throw truncated(path, "the index is too short for its documents", entries, after_sequences / 8);
  }
  const uint64_t modes = after_sequences - 8 * entries;
  if (modes != 0 && modes < sequences) {
    throw truncated(path, "the index ends inside its modes", sequences, modes);
  }
  if (modes != 0 && modes != sequences) {
    throw Error("dataset_lengths", "the index has bytes after its arrays")
        .with("path", path)
        .with("want", file_->size() - static_cast<int64_t>(modes))
        .with("got", file_->size());
  }
  sequences_ = static_cast<int64_t>(sequences);
  document_entries_ = static_cast<int64_t>(entries);
}

int64_t TokenIndex::lengths_at() const { return kHeaderBytes; }
int64_t TokenIndex::offsets_at() const { return kHeaderBytes + 4 * sequences_; }
int64_t TokenIndex::documents_at() const { return kHeaderBytes + 12 * sequences_; }

void TokenIndex::check_sequences(int64_t bin_bytes) {
  const std::string& path = file_->path();
  const int64_t element = token_bytes(type_);
  const int64_t blocks = (sequences_ + kMaxStarts - 1) / kMaxStarts;
  stride_ = std::max(kMinStride, blocks);
  std::vector<int32_t> lengths(static_cast<size_t>(std::min(sequences_, kCheckBlock)));
  std::vector<int64_t> offsets(lengths.size());
  int64_t next_byte = -1;  // where a gapless next sequence would begin
  for (int64_t first = 0; first < sequences_; first += kCheckBlock) {
    const int64_t count = std::min(kCheckBlock, sequences_ - first);
    read_lengths(first, count, lengths.data());
    file_->read_exactly(offsets.data(), 8 * count, offsets_at() + 8 * first, "dataset_truncated");
    for (int64_t i = 0; i < count; ++i) {
      const int64_t sequence = first + i;
      const int64_t length = lengths[static_cast<size_t>(i)];
      const int64_t offset = offsets[static_cast<size_t>(i)];
      if (sequence % stride_ == 0) starts_.push_back(tokens_);
      if (length < 0) {
        throw sequence_error("dataset_lengths", "a sequence has a negative length", path, sequence)
            .with("got", length);
      }
      if (offset < 0) {
        throw sequence_error("dataset_lengths", "a sequence has a negative offset", path, sequence)
            .with("got", offset);
      }
      int64_t end = 0;  // length · element is below 2³⁴
      if (__builtin_add_overflow(offset, length * element, &end) || end > bin_bytes) {
        throw sequence_error("dataset_truncated", "a sequence lies outside the .bin", path,
                             sequence)
            .with("offset", offset)
            .with("want", length * element)
            .with("got", std::max<int64_t>(0, bin_bytes - offset));
      }
      if (length > 0) {
        if (next_byte < 0) first_byte_ = offset;
        if (next_byte >= 0 && offset != next_byte) is_contiguous_ = false;
        next_byte = end;
      }
      if (__builtin_add_overflow(tokens_, length, &tokens_)) {
        throw sequence_error("dataset_lengths", "the lengths overflow 64 bits", path, sequence);
      }
    }
  }
}

void TokenIndex::check_documents() const {
  const std::string& path = file_->path();
  std::vector<int64_t> block(static_cast<size_t>(std::min(document_entries_, kCheckBlock)));
  int64_t last = 0;
  for (int64_t first = 0; first < document_entries_; first += kCheckBlock) {
    const int64_t count = std::min(kCheckBlock, document_entries_ - first);
    read_document_entries(first, count, block.data());
    for (int64_t i = 0; i < count; ++i) {
      const int64_t value = block[static_cast<size_t>(i)];
      const bool is_first = first + i == 0;
      if (is_first ? value != 0 : value < last) {
        throw Error("dataset_documents", is_first ? "the document list does not begin with 0"
                                                  : "the document list falls")
            .with("path", path)
            .with("index", first + i)
            .with("got", value)
            .with("want", last);
      }
      last = value;
    }
  }
  if (document_entries_ == 0 || last != sequences_) {
    throw Error("dataset_documents", "the document list does not end at the number of sequences")
        .with("path", path)
        .with("index", document_entries_ - 1)
        .with("got", last)
        .with("want", sequences_);
  }
}

void TokenIndex::read_lengths(int64_t first, int64_t count, int32_t* out) const {
  file_->read_exactly(out, 4 * count, lengths_at() + 4 * first, "dataset_truncated");
}

void TokenIndex::read_document_entries(int64_t first, int64_t count, int64_t* out) const {
  file_->read_exactly(out, 8 * count, documents_at() + 8 * first, "dataset_truncated");
}

int64_t TokenIndex::offset_of(int64_t sequence) const {
  int64_t offset = 0;
  file_->read_exactly(&offset, 8, offsets_at() + 8 * sequence, "dataset_truncated");
  return offset;
}

int64_t TokenIndex::document_entry(int64_t entry) const {
  int64_t sequence = 0;
  read_document_entries(entry, 1, &sequence);
  return sequence;
}

SequenceSpan TokenIndex::find(int64_t position) const {
  const auto above = std::upper_bound(starts_.begin(), starts_.end(), position);
  const int64_t block = above - starts_.begin() - 1;
  SequenceSpan span{block * stride_, starts_[static_cast<size_t>(block)], 0};
  std::array<int32_t, kWalkBlock> lengths;
  while (span.sequence < sequences_) {
    const int64_t count = std::min(kWalkBlock, sequences_ - span.sequence);
    read_lengths(span.sequence, count, lengths.data());
    for (int64_t i = 0; i < count; ++i, ++span.sequence) {
      span.length = lengths[static_cast<size_t>(i)];
      if (position < span.start + span.length) return span;
      span.start += span.length;
    }
  }
  throw changed(*this, position);
}

int64_t TokenIndex::sequence_start(int64_t sequence) const {
  if (sequence >= sequences_) return tokens_;
  const int64_t block = sequence / stride_;
  int64_t start = starts_[static_cast<size_t>(block)];
  std::array<int32_t, kWalkBlock> lengths;
  for (int64_t at = block * stride_; at < sequence;) {
    const int64_t count = std::min(kWalkBlock, sequence - at);
    read_lengths(at, count, lengths.data());
    for (int64_t i = 0; i < count; ++i) start += lengths[static_cast<size_t>(i)];
    at += count;
  }
  return start;
}

int64_t TokenIndex::document_of(int64_t sequence) const {
  int64_t low = 0, high = documents();  // entry low ≤ sequence; entry high is above it
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (document_entry(middle) <= sequence ? low : high) = middle;
  }
  return low;
}

uint64_t TokenIndex::hash() const { return hash_file(*file_); }

SequenceCursor::SequenceCursor(const TokenIndex& index, int64_t position)
    : index_(index), span_(index.find(position)) {}

int64_t SequenceCursor::length_at(int64_t sequence) {
  if (sequence - lengths_first_ >= lengths_count_) {
    lengths_first_ = sequence;
    lengths_count_ = std::min(kBlock, index_.sequences() - sequence);
    index_.read_lengths(lengths_first_, lengths_count_, lengths_.data());
  }
  return lengths_[static_cast<size_t>(sequence - lengths_first_)];
}

int64_t SequenceCursor::entry_at(int64_t entry) {
  if (entry - entries_first_ >= entries_count_) {
    entries_first_ = entry;
    entries_count_ = std::min(kBlock, index_.documents() + 1 - entry);
    index_.read_document_entries(entries_first_, entries_count_, entries_.data());
  }
  return entries_[static_cast<size_t>(entry - entries_first_)];
}

int64_t SequenceCursor::document() {
  if (document_ < 0) document_ = index_.document_of(span_.sequence);
  while (document_ + 1 < index_.documents() && entry_at(document_ + 1) <= span_.sequence) {
    ++document_;
  }
  return document_;
}

void SequenceCursor::next() {
  do {
    span_.start += span_.length;
    if (++span_.sequence >= index_.sequences()) throw changed(index_, span_.start);
    span_.length = length_at(span_.sequence);
    if (span_.length < 0) throw changed(index_, span_.start);
  } while (span_.length == 0);
}

}  // namespace plait

#include "engine/data/token_file.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <string_view>

#include "engine/data/fingerprint.h"
#include "engine/data/token_index.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kRawBytes = 16384;  // read at a time, on the stack
constexpr int64_t kUnknownVocabulary = int64_t{1} << 31;

/// Widens `count` elements of type T; returns the first that is not in [0, limit), −1 if all are.
template <class T>
int64_t widen(const char* raw, int64_t count, int64_t limit, int32_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    T value;
    std::memcpy(&value, raw + i * static_cast<int64_t>(sizeof(T)), sizeof value);
    if (static_cast<int64_t>(value) < 0 || static_cast<int64_t>(value) >= limit) return i;
    out[i] = static_cast<int32_t>(value);
  }
  return -1;
}

template <class T>
int64_t value_at(const char* raw, int64_t i) {
  T value;
  std::memcpy(&value, raw + i * static_cast<int64_t>(sizeof(T)), sizeof value);
  return static_cast<int64_t>(value);
}

/// As widen<T> for the type's T; *bad becomes the value of the id returned.
int64_t widen_tokens(TokenType type, const char* raw, int64_t count, int64_t limit, int32_t* out,
                     int64_t* bad) {
  const auto run = [&]<class T>(T) {
    const int64_t at = widen<T>(raw, count, limit, out);
    if (at >= 0) *bad = value_at<T>(raw, at);
    return at;
  };
  switch (type) {
    case TokenType::kUint8:
      return run(uint8_t{});
    case TokenType::kInt8:
      return run(int8_t{});
    case TokenType::kInt16:
      return run(int16_t{});
    case TokenType::kUint16:
      return run(uint16_t{});
    case TokenType::kInt32:
      return run(int32_t{});
    case TokenType::kInt64:
      return run(int64_t{});
    case TokenType::kAuto:
      break;
  }
  throw Error("invariant", "an open token file has a type");
}

TokenType flat_type(const TokenFileOptions& options) {
  if (options.flat_type == TokenType::kAuto) return token_type_for(options.vocab_size);
  if (options.flat_type == TokenType::kUint16 || options.flat_type == TokenType::kInt32) {
    return options.flat_type;
  }
  throw Error("argument", "flat files hold uint16 or int32")
      .with("key", "data.token_type")
      .with("got", token_type_name(options.flat_type));
}

/// The index given in place of its tokens would be read as tokens.
void refuse_index(File& file) {
  std::array<char, 7> start{};
  const int64_t got = file.pread(start.data(), start.size(), 0);
  if (std::string_view(start.data(), static_cast<size_t>(got)) != "MMIDIDX") return;
  throw Error("argument", "this is an index; name the .bin beside it").with("path", file.path());
}

}  // namespace

std::string index_path_of(const std::string& path) {
  constexpr std::string_view kBin = ".bin";
  if (!path.ends_with(kBin)) return {};
  return path.substr(0, path.size() - kBin.size()) + ".idx";
}

TokenFile::TokenFile(std::unique_ptr<File> file, const TokenFileOptions& options)
    : file_(std::move(file)),
      path_(file_->path()),
      bytes_(file_->size()),
      limit_(options.vocab_size > 0 ? options.vocab_size : kUnknownVocabulary) {}

TokenFile::~TokenFile() = default;

std::unique_ptr<TokenFile> TokenFile::open(Files& files, const std::string& path,
                                           const TokenFileOptions& options) {
  const std::string index_path = index_path_of(path);
  const bool is_indexed = !index_path.empty() && files.exists(index_path);
  std::unique_ptr<TokenFile> file(new TokenFile(files.open_read(path), options));
  if (is_indexed) {
    file->index_ = TokenIndex::open(files, index_path, file->bytes_);
    file->type_ = file->index_->type();
    file->tokens_ = file->index_->tokens();
  } else {
    refuse_index(*file->file_);
    file->type_ = flat_type(options);
    const int64_t element = token_bytes(file->type_);
    if (file->bytes_ % element != 0) {
      throw Error("dataset_truncated", "the size is no multiple of the token size")
          .with("path", path)
          .with("got", file->bytes_)
          .with("token_bytes", element);
    }
    file->tokens_ = file->bytes_ / element;
  }
  if (file->type_ == TokenType::kUint16 && options.vocab_size > kMaxUint16Vocabulary) {
    throw Error("dataset_dtype", "16-bit tokens cannot hold the ids of this vocabulary")
        .with("path", path)
        .with("got", token_type_name(file->type_))
        .with("vocabulary", options.vocab_size)
        .with("limit", kMaxUint16Vocabulary);
  }
  return file;
}

int64_t TokenFile::documents() const { return index_ ? index_->documents() : 1; }
int64_t TokenFile::sequences() const { return index_ ? index_->sequences() : 1; }

int64_t TokenFile::document_start(int64_t document) const {
  if (document < 0 || document > documents()) {
    throw Error("argument", "no such document")
        .with("path", path_)
        .with("got", document)
        .with("limit", documents());
  }
  if (!index_) return document == 0 ? 0 : tokens_;
  return index_->sequence_start(index_->document_entry(document));
}

void TokenFile::check_range(int64_t first, int64_t count) const {
  if (first >= 0 && count >= 0 && first <= tokens_ && count <= tokens_ - first) return;
  throw Error("argument", "a range of tokens outside the file")
      .with("path", path_)
      .with("first", first)
      .with("count", count)
      .with("limit", tokens_);
}

void TokenFile::read_run(int64_t byte_offset, int64_t first, int64_t count, int32_t* out) const {
  std::array<char, kRawBytes> raw;
  const int64_t element = token_bytes(type_);
  while (count > 0) {
    const int64_t part = std::min(count, kRawBytes / element);
    file_->read_exactly(raw.data(), part * element, byte_offset, "dataset_truncated");
    int64_t value = 0;
    const int64_t bad = widen_tokens(type_, raw.data(), part, limit_, out, &value);
    if (bad >= 0) {
      throw Error("dataset_token", "a token is outside the vocabulary")
          .with("path", path_)
          .with("index", first + bad)
          .with("value", value)
          .with("vocabulary", limit_);
    }
    byte_offset += part * element;
    first += part;
    out += part;
    count -= part;
  }
}

void TokenFile::read(int64_t first, int64_t count, int32_t* out) const {
  check_range(first, count);
  if (count == 0) return;
  const int64_t element = token_bytes(type_);
  if (!index_ || index_->is_contiguous()) {
    const int64_t base = index_ ? index_->first_byte() : 0;
    read_run(base + first * element, first, count, out);
    return;
  }
  SequenceCursor cursor(*index_, first);
  while (true) {
    const SequenceSpan& span = cursor.span();
    const int64_t skip = first - span.start;
    const int64_t part = std::min(count, span.length - skip);
    const int64_t offset = index_->offset_of(span.sequence);
    // Checked at open; an index rewritten since then must not lead outside.
    if (offset < 0 || offset > bytes_) {
      throw Error("dataset_lengths", "the index has changed since it was opened")
          .with("path", path_)
          .with("index", first);
    }
    read_run(offset + skip * element, first, part, out);
    first += part;
    out += part;
    count -= part;
    if (count == 0) return;
    cursor.next();
  }
}

void TokenFile::read_documents(int64_t first, int64_t count, int32_t* out) const {
  check_range(first, count);
  if (count == 0) return;
  if (!index_) {
    std::fill_n(out, count, 0);
    return;
  }
  SequenceCursor cursor(*index_, first);
  int64_t document = cursor.document();
  int32_t ordinal = 0;
  while (true) {
    const int64_t part = std::min(count, cursor.span().start + cursor.span().length - first);
    std::fill_n(out, part, ordinal);
    first += part;
    out += part;
    count -= part;
    if (count == 0) return;
    cursor.next();
    if (cursor.document() != document) ++ordinal;
    document = cursor.document();
  }
}

TokenFileFacts TokenFile::facts() const {
  TokenFileFacts facts;
  facts.bytes = bytes_;
  facts.tokens = tokens_;
  facts.documents = documents();
  facts.index_hash = index_ ? index_->hash() : 0;
  facts.content_hash = hash_file_samples(*file_);
  return facts;
}

}  // namespace plait

#include "engine/data/token_writer.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <limits>

#include "engine/data/token_file.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kBufferBytes = int64_t{1} << 20;
constexpr int64_t kWriteBlock = 16384;  // entries or tokens copied at a time
constexpr int64_t kIndexHeader = 34;
constexpr int64_t kMaxSequence = std::numeric_limits<int32_t>::max();

std::string directory_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void unlink_quietly(Files& files, const std::string& path) {
  try {
    files.unlink(path);
  } catch (const Error&) {
    // It lies there under a temporary name, or was never made; the first error is what counts.
  }
}

/// Narrows tokens to the file's type into `file`.
class TokenSink {
 public:
  TokenSink(int64_t vocab_size, const std::string& path)
      : type_(token_type_for(vocab_size)), vocab_size_(vocab_size), path_(path) {
    if (vocab_size >= 1 && vocab_size <= kMaxSequence) return;
    throw Error("argument", "a token file needs the size of its vocabulary")
        .with("path", path)
        .with("got", vocab_size);
  }

  TokenType type() const { return type_; }

  void write(const int32_t* tokens, int64_t count, int64_t position, SpillFile* file) const {
    std::array<uint16_t, 4096> narrow;
    for (int64_t done = 0; done < count;) {
      const int64_t part = std::min<int64_t>(count - done, narrow.size());
      for (int64_t i = 0; i < part; ++i) {
        const int32_t value = tokens[done + i];
        if (value < 0 || value >= vocab_size_) {
          throw Error("token_range", "a token is outside the vocabulary")
              .with("path", path_)
              .with("index", position + done + i)
              .with("value", value)
              .with("vocabulary", vocab_size_);
        }
        narrow[static_cast<size_t>(i)] = static_cast<uint16_t>(value);
      }
      if (type_ == TokenType::kUint16) {
        file->append(narrow.data(), 2 * part);
      } else {
        file->append(tokens + done, 4 * part);
      }
      done += part;
    }
  }

 private:
  TokenType type_;
  int64_t vocab_size_;
  std::string path_;
};

class FlatWriter final : public TokenWriter {
 public:
  FlatWriter(Env& env, const std::string& path, int64_t vocab_size)
      : path_(path), sink_(vocab_size, path), file_(env, path, "") {
    const std::string index_path = index_path_of(path);
    if (index_path.empty() || !env.files.exists(index_path)) return;
    throw Error("argument", "a flat file beside this index would be read as indexed")
        .with("path", path)
        .with("index", index_path);
  }

  void append(const int32_t* tokens, int64_t count) override {
    sink_.write(tokens, count, tokens_, &file_);
    tokens_ += count;
  }
  void end_document() override {}
  void end_sequence() override {}
  void finish() override { file_.rename_to(path_); }

 private:
  std::string path_;
  TokenSink sink_;
  SpillFile file_;
};

class IndexedWriter final : public TokenWriter {
 public:
  IndexedWriter(Env& env, const std::string& path, int64_t vocab_size)
      : files_(env.files),
        bin_path_(path.ends_with(".bin") ? path : path + ".bin"),
        index_path_(index_path_of(bin_path_)),
        sink_(vocab_size, bin_path_),
        bin_(env, bin_path_, ""),
        index_(env, index_path_, ""),
        documents_(env, index_path_, ".documents") {
    const std::array<char, kIndexHeader> header{};
    index_.append(header.data(), kIndexHeader);  // the counts are known at the end only
  }

  void append(const int32_t* tokens, int64_t count) override {
    sink_.write(tokens, count, tokens_, &bin_);
    tokens_ += count;
    while (count > kMaxSequence - length_) {
      count -= kMaxSequence - length_;
      length_ = kMaxSequence;
      end_sequence();
    }
    length_ += count;
  }

  void end_sequence() override {
    const int32_t length = static_cast<int32_t>(length_);
    index_.append(&length, sizeof length);
    length_ = 0;
    ++sequences_;
  }

  void end_document() override {
    if (length_ > 0) end_sequence();
    add_document(first_sequence_);
    first_sequence_ = sequences_;
  }

  void finish() override {
    if (length_ > 0 || first_sequence_ < sequences_) end_document();
    add_document(sequences_);
    append_offsets();
    append_documents();
    index_.flush();
    write_header();
    publish();
  }

 private:
  void add_document(int64_t first_sequence) {
    documents_.append(&first_sequence, sizeof first_sequence);
    ++document_entries_;
  }

  void append_offsets() {
    std::vector<int32_t> lengths(static_cast<size_t>(kWriteBlock));
    std::vector<int64_t> offsets(lengths.size());
    const int64_t element = token_bytes(sink_.type());
    int64_t offset = 0;
    index_.flush();
    for (int64_t first = 0; first < sequences_; first += kWriteBlock) {
      const int64_t count = std::min(kWriteBlock, sequences_ - first);
      index_.file().read_exactly(lengths.data(), 4 * count, kIndexHeader + 4 * first, "io_error");
      for (int64_t i = 0; i < count; ++i) {
        offsets[static_cast<size_t>(i)] = offset;
        offset += lengths[static_cast<size_t>(i)] * element;
      }
      index_.append(offsets.data(), 8 * count);
    }
  }

  void append_documents() {
    std::vector<int64_t> entries(static_cast<size_t>(kWriteBlock));
    documents_.flush();
    for (int64_t first = 0; first < document_entries_; first += kWriteBlock) {
      const int64_t count = std::min(kWriteBlock, document_entries_ - first);
      documents_.file().read_exactly(entries.data(), 8 * count, 8 * first, "io_error");
      index_.append(entries.data(), 8 * count);
    }
  }

  void write_header() {
    std::array<char, kIndexHeader> header{};
    const uint64_t version = 1;
    const uint64_t sequences = static_cast<uint64_t>(sequences_);
    const uint64_t entries = static_cast<uint64_t>(document_entries_);
    std::memcpy(header.data(), "MMIDIDX\0\0", 9);
    std::memcpy(header.data() + 9, &version, 8);
    header[17] = static_cast<char>(sink_.type());
    std::memcpy(header.data() + 18, &sequences, 8);
    std::memcpy(header.data() + 26, &entries, 8);
    index_.file().pwrite(header.data(), kIndexHeader, 0);
  }

  /// At no moment an index stands beside tokens of another time.
  void publish() {
    bin_.sync();
    if (files_.exists(bin_path_)) files_.unlink(bin_path_);
    index_.rename_to(index_path_);
    try {
      bin_.rename_to(bin_path_);
    } catch (...) {
      unlink_quietly(files_, index_path_);
      throw;
    }
  }

  Files& files_;
  std::string bin_path_, index_path_;
  TokenSink sink_;
  SpillFile bin_, index_, documents_;
  int64_t length_ = 0;          // of the current sequence
  int64_t sequences_ = 0;       // ended ones
  int64_t first_sequence_ = 0;  // of the current document
  int64_t document_entries_ = 0;
};

}  // namespace

SpillFile::SpillFile(Env& env, const std::string& target, const char* suffix)
    : files_(env.files),
      path_(target + suffix + ".tmp-" + std::to_string(env.entropy.next())),
      file_(files_.create(path_, true)) {
  buffer_.reserve(static_cast<size_t>(kBufferBytes));
}

SpillFile::~SpillFile() {
  if (!is_renamed_) unlink_quietly(files_, path_);
}

void SpillFile::append(const void* data, int64_t bytes) {
  if (bytes > kBufferBytes - static_cast<int64_t>(buffer_.size())) flush();
  if (bytes > kBufferBytes) {
    file_->pwrite(data, bytes, flushed_);
    flushed_ += bytes;
    return;
  }
  const char* first = static_cast<const char*>(data);
  buffer_.insert(buffer_.end(), first, first + bytes);
}

void SpillFile::flush() {
  if (buffer_.empty()) return;
  file_->pwrite(buffer_.data(), static_cast<int64_t>(buffer_.size()), flushed_);
  flushed_ += static_cast<int64_t>(buffer_.size());
  buffer_.clear();
}

void SpillFile::sync() {
  flush();
  if (!is_synced_) file_->sync();
  is_synced_ = true;
}

void SpillFile::rename_to(const std::string& path) {
  sync();
  files_.rename(path_, path);
  is_renamed_ = true;
  files_.sync_directory(directory_of(path));
}

std::unique_ptr<TokenWriter> make_flat_writer(Env& env, const std::string& path,
                                              int64_t vocab_size) {
  return std::make_unique<FlatWriter>(env, path, vocab_size);
}

std::unique_ptr<TokenWriter> make_indexed_writer(Env& env, const std::string& path,
                                                 int64_t vocab_size) {
  return std::make_unique<IndexedWriter>(env, path, vocab_size);
}

}  // namespace plait

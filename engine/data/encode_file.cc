#include "engine/data/encode_file.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <memory>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "engine/data/token_file.h"
#include "engine/data/token_writer.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kMaxPieceBytes = int64_t{256} << 20;  // that end in no safe place
constexpr int64_t kDecodeBlock = 65536;                 // tokens
constexpr int64_t kPiecesPerThread = 4;                 // so that threads end at about one time

/// Part of the text, cut where its ids are those of the whole.
struct Piece {
  std::string text;
  std::vector<int32_t> ids;
  std::vector<int64_t> document_ends;  // in ids
  std::exception_ptr failure;
};

void check_cancel(const EncodeFileOptions& options) {
  if (options.cancel == nullptr || !options.cancel->load(std::memory_order_relaxed)) return;
  throw Error("cancelled", "the file is not written, as asked");
}

class PieceReader {
 public:
  PieceReader(Files& files, const std::string& path, const Tokenizer& tokenizer,
              const EncodeFileOptions& options)
      : file_(files.open_read(path)), tokenizer_(tokenizer), options_(options) {}

  int64_t total_bytes() const { return file_->size(); }
  int64_t read_bytes() const { return read_bytes_; }

  /// The next piece of text; false at the end of the file.
  bool next(std::string* text) {
    int64_t want = std::max<int64_t>(1, options_.chunk_bytes);
    while (true) {
      if (!is_at_end_) fill(want);
      if (is_at_end_) {
        *text = std::exchange(pending_, {});
        return !text->empty();
      }
      const int64_t cut = safe_cut();
      if (cut > 0) {
        const size_t bytes = static_cast<size_t>(cut);
        text->assign(pending_, 0, bytes);
        pending_.erase(0, bytes);
        return true;
      }
      if (want >= kMaxPieceBytes) {
        throw Error("too_large", "a word of the text is too long")
            .with("path", file_->path())
            .with("offset", read_bytes_ - static_cast<int64_t>(pending_.size()))
            .with("limit", kMaxPieceBytes);
      }
      want = std::min(2 * want, kMaxPieceBytes);
    }
  }

 private:
  /// Reads until `want` bytes are pending or the file ends.
  void fill(int64_t want) {
    const int64_t have = static_cast<int64_t>(pending_.size());
    if (have >= want) return;
    pending_.resize(static_cast<size_t>(want));
    const int64_t got = file_->pread(pending_.data() + have, want - have, read_bytes_);
    pending_.resize(static_cast<size_t>(have + got));
    read_bytes_ += got;
    is_at_end_ = have + got < want;
  }

  int64_t safe_cut() const {
    if (options_.lines) {
      const size_t newline = pending_.rfind('\n');
      if (newline != std::string::npos) return static_cast<int64_t>(newline) + 1;
    }
    return tokenizer_.safe_cut(pending_, options_.is_special);
  }

  std::unique_ptr<File> file_;
  const Tokenizer& tokenizer_;
  const EncodeFileOptions& options_;
  std::string pending_;  // read and not yet given out
  int64_t read_bytes_ = 0;
  bool is_at_end_ = false;
};

void encode_piece(Encoder* encoder, const EncodeFileOptions& options, Piece* piece) {
  piece->ids.clear();
  piece->document_ends.clear();
  std::string_view text = piece->text;
  if (!options.lines) {
    encoder->encode(text, options.is_special, &piece->ids);
    return;
  }
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const bool is_whole = newline != std::string_view::npos;
    const size_t bytes = is_whole ? newline + 1 : text.size();
    encoder->encode(text.substr(0, bytes), options.is_special, &piece->ids);
    if (is_whole) piece->document_ends.push_back(static_cast<int64_t>(piece->ids.size()));
    text.remove_prefix(bytes);
  }
}

/// Encodes pieces on several threads, each with an encoder of its own.
class PieceEncoder {
 public:
  PieceEncoder(const Tokenizer& tokenizer, const EncodeFileOptions& options) : options_(options) {
    for (int i = 0; i < std::max(1, options.threads); ++i) {
      encoders_.push_back(tokenizer.make_encoder());
    }
  }

  void run(std::vector<Piece>* pieces, int64_t count) {
    std::atomic<int64_t> next{0};
    const auto work = [&](Encoder* encoder) {
      for (int64_t i = next.fetch_add(1); i < count; i = next.fetch_add(1)) {
        Piece& piece = (*pieces)[static_cast<size_t>(i)];
        try {
          check_cancel(options_);
          encode_piece(encoder, options_, &piece);
        } catch (...) {
          piece.failure = std::current_exception();
        }
      }
    };
    {
      std::vector<std::jthread> threads;  // joined when they leave the scope, also by an exception
      const size_t helpers = std::min(encoders_.size(), static_cast<size_t>(count)) - 1;
      for (size_t i = 1; i <= helpers; ++i) threads.emplace_back(work, encoders_[i].get());
      work(encoders_[0].get());
    }
    for (int64_t i = 0; i < count; ++i) {
      const std::exception_ptr failure = (*pieces)[static_cast<size_t>(i)].failure;
      if (failure) std::rethrow_exception(failure);
    }
  }

 private:
  const EncodeFileOptions& options_;
  std::vector<std::unique_ptr<Encoder>> encoders_;
};

void write_piece(const Piece& piece, TokenWriter* writer, EncodeFileResult* result) {
  int64_t done = 0;
  for (const int64_t end : piece.document_ends) {
    writer->append(piece.ids.data() + done, end - done);
    writer->end_document();
    done = end;
  }
  const int64_t count = static_cast<int64_t>(piece.ids.size());
  writer->append(piece.ids.data() + done, count - done);
  result->documents += static_cast<int64_t>(piece.document_ends.size());
  result->tokens += count;
  result->bytes += static_cast<int64_t>(piece.text.size());
}

std::unique_ptr<TokenWriter> make_writer(Env& env, const std::string& path, int64_t vocab_size,
                                         bool is_indexed) {
  return is_indexed ? make_indexed_writer(env, path, vocab_size)
                    : make_flat_writer(env, path, vocab_size);
}

}  // namespace

EncodeFileResult encode_file(Env& env, const Tokenizer& tokenizer, const std::string& input,
                             const std::string& output, const EncodeFileOptions& options) {
  if (options.is_special) tokenizer.require_special();
  PieceReader reader(env.files, input, tokenizer, options);
  const std::unique_ptr<TokenWriter> writer =
      make_writer(env, output, tokenizer.vocab_size(), options.is_indexed);
  PieceEncoder encoder(tokenizer, options);
  std::vector<Piece> pieces(static_cast<size_t>(std::max(1, options.threads)) * kPiecesPerThread);
  EncodeFileResult result;
  bool is_line_open = false;
  while (true) {
    check_cancel(options);
    int64_t count = 0;
    while (count < static_cast<int64_t>(pieces.size()) &&
           reader.next(&pieces[static_cast<size_t>(count)].text)) {
      ++count;
    }
    if (count == 0) break;
    encoder.run(&pieces, count);
    for (int64_t i = 0; i < count; ++i) {
      write_piece(pieces[static_cast<size_t>(i)], writer.get(), &result);
    }
    is_line_open = !pieces[static_cast<size_t>(count - 1)].text.ends_with('\n');
    if (options.progress) options.progress(reader.read_bytes(), reader.total_bytes());
  }
  if (!options.lines || is_line_open) {
    writer->end_document();
    ++result.documents;
  }
  check_cancel(options);
  writer->finish();
  return result;
}

EncodeFileResult decode_file(Env& env, const Tokenizer& tokenizer, const std::string& input,
                             const std::string& output, TokenType token_type,
                             const EncodeFileOptions& options) {
  const std::unique_ptr<TokenFile> file =
      TokenFile::open(env.files, input, {token_type, tokenizer.vocab_size()});
  SpillFile out(env, output, "");
  std::vector<int32_t> ids(static_cast<size_t>(kDecodeBlock));
  std::string text;
  for (int64_t first = 0; first < file->tokens(); first += kDecodeBlock) {
    check_cancel(options);
    const int64_t count = std::min(kDecodeBlock, file->tokens() - first);
    file->read(first, count, ids.data());
    text.clear();
    tokenizer.decode(ids.data(), count, &text);
    out.append(text.data(), static_cast<int64_t>(text.size()));
    if (options.progress) options.progress(first + count, file->tokens());
  }
  check_cancel(options);
  out.rename_to(output);
  return {out.bytes(), file->tokens(), file->documents()};
}

}  // namespace plait

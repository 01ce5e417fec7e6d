#include "engine/data/tokenizer.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/string_view.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "engine/data/bpe.h"
#include "engine/data/pretokenizer.h"
#include "engine/data/tokenizer_files.h"
#include "kernels/base/error.h"

namespace plait {
namespace {

Error id_error(int64_t index, int32_t value, int64_t vocabulary) {
  return Error("token_range", "a token is outside the vocabulary")
      .with("index", index)
      .with("value", value)
      .with("vocabulary", vocabulary);
}

class ByteEncoder final : public Encoder {
 public:
  explicit ByteEncoder(const Tokenizer& tokenizer) : tokenizer_(tokenizer) {}
  void encode(std::string_view text, bool is_special, std::vector<int32_t>* out) override {
    if (is_special) tokenizer_.require_special();
    out->reserve(out->size() + text.size());
    for (const char byte : text) out->push_back(static_cast<unsigned char>(byte));
  }

 private:
  const Tokenizer& tokenizer_;
};

class ByteTokenizer final : public Tokenizer {
 public:
  int64_t vocab_size() const override { return 256; }
  int32_t end_of_text() const override { return -1; }
  std::unique_ptr<Encoder> make_encoder() const override {
    return std::make_unique<ByteEncoder>(*this);
  }
  void decode(const int32_t* tokens, int64_t count, std::string* out) const override {
    for (int64_t i = 0; i < count; ++i) {
      if (tokens[i] < 0 || tokens[i] > 255) throw id_error(i, tokens[i], 256);
      out->push_back(static_cast<char>(tokens[i]));
    }
  }
  int64_t safe_cut(std::string_view text, bool) const override {
    return static_cast<int64_t>(text.size());
  }
};

/// The words of a text are few; each is merged once. Long words are not kept, and all are
/// forgotten when the cache is full.
class WordCache {
 public:
  static constexpr size_t kMaxWordBytes = 64;

  /// Appends the ids of `word`; false when it is not known.
  bool find(std::string_view word, std::vector<int32_t>* out) const {
    const auto found = spans_.find(absl::string_view(word.data(), word.size()));
    if (found == spans_.end()) return false;
    const auto first = ids_.begin() + found->second.first;
    out->insert(out->end(), first, first + found->second.count);
    return true;
  }

  void add(std::string_view word, const int32_t* ids, int64_t count) {
    constexpr size_t kMaxWords = 1 << 16;
    if (spans_.size() == kMaxWords) {
      spans_.clear();
      ids_.clear();
    }
    spans_.emplace(std::string(word),
                   Span{static_cast<uint32_t>(ids_.size()), static_cast<uint32_t>(count)});
    ids_.insert(ids_.end(), ids, ids + count);
  }

 private:
  struct Span {
    uint32_t first, count;  // in ids_
  };
  absl::flat_hash_map<std::string, Span> spans_;
  std::vector<int32_t> ids_;
};

class BpeEncoder final : public Encoder {
 public:
  BpeEncoder(const Tokenizer& tokenizer, const BpeMerger& merger)
      : tokenizer_(tokenizer), merger_(merger) {}

  void encode(std::string_view text, bool is_special, std::vector<int32_t>* out) override {
    if (!is_special) return encode_plain(text, out);
    tokenizer_.require_special();
    while (true) {
      const size_t marker = text.find(kEndOfText);
      encode_plain(text.substr(0, marker), out);
      if (marker == std::string_view::npos) return;
      out->push_back(tokenizer_.end_of_text());
      text.remove_prefix(marker + kEndOfText.size());
    }
  }

 private:
  void encode_plain(std::string_view text, std::vector<int32_t>* out) {
    while (!text.empty()) {
      const size_t bytes = static_cast<size_t>(first_word(text));
      encode_word(text.substr(0, bytes), out);
      text.remove_prefix(bytes);
    }
  }

  void encode_word(std::string_view word, std::vector<int32_t>* out) {
    if (word.size() > kMaxWordBytes) {
      throw Error("too_large", "a word of the text is too long")
          .with("got", word.size())
          .with("limit", kMaxWordBytes);
    }
    if (word.size() > WordCache::kMaxWordBytes) return merger_.encode(word, &scratch_, out);
    if (cache_.find(word, out)) return;
    const size_t before = out->size();
    merger_.encode(word, &scratch_, out);
    cache_.add(word, out->data() + before, static_cast<int64_t>(out->size() - before));
  }

  static constexpr size_t kMaxWordBytes = size_t{256} << 20;

  const Tokenizer& tokenizer_;
  const BpeMerger& merger_;
  BpeScratch scratch_;
  WordCache cache_;
};

class BpeTokenizer final : public Tokenizer {
 public:
  explicit BpeTokenizer(BpeFiles files) : merger_(files), tokens_(std::move(files.tokens)) {
    const auto marker = std::find(tokens_.begin(), tokens_.end(), kEndOfText);
    if (marker != tokens_.end()) end_of_text_ = static_cast<int32_t>(marker - tokens_.begin());
  }

  int64_t vocab_size() const override { return static_cast<int64_t>(tokens_.size()); }
  int32_t end_of_text() const override { return end_of_text_; }

  std::unique_ptr<Encoder> make_encoder() const override {
    return std::make_unique<BpeEncoder>(*this, merger_);
  }

  void decode(const int32_t* tokens, int64_t count, std::string* out) const override {
    for (int64_t i = 0; i < count; ++i) {
      if (tokens[i] < 0 || tokens[i] >= vocab_size()) throw id_error(i, tokens[i], vocab_size());
      *out += tokens_[static_cast<size_t>(tokens[i])];
    }
  }

  int64_t safe_cut(std::string_view text, bool is_special) const override {
    if (!is_special) return last_word_end(text, 0);
    const size_t marker = text.rfind(kEndOfText);
    const size_t after = marker == std::string_view::npos ? 0 : marker + kEndOfText.size();
    const int64_t margin = static_cast<int64_t>(kEndOfText.size()) - 1;
    return static_cast<int64_t>(after) + last_word_end(text.substr(after), margin);
  }

 private:
  BpeMerger merger_;
  std::vector<std::string> tokens_;  // bytes of each id
  int32_t end_of_text_ = -1;
};

}  // namespace

std::vector<int32_t> Tokenizer::encode(std::string_view text, bool is_special) const {
  std::vector<int32_t> ids;
  make_encoder()->encode(text, is_special, &ids);
  return ids;
}

std::string Tokenizer::decode(const std::vector<int32_t>& tokens) const {
  std::string text;
  decode(tokens.data(), static_cast<int64_t>(tokens.size()), &text);
  return text;
}

void Tokenizer::require_special() const {
  if (end_of_text() >= 0) return;
  throw Error("argument", "the vocabulary has no end-of-text marker")
      .with("key", "tokenize.special")
      .with("want", kEndOfText);
}

std::unique_ptr<Tokenizer> open_tokenizer(Files& files, std::string_view kind,
                                          const std::string& directory) {
  if (kind == "byte") return std::make_unique<ByteTokenizer>();
  if (kind == "gpt2") return std::make_unique<BpeTokenizer>(read_bpe_files(files, directory));
  throw Error("argument", "the kind of tokenizer is unknown")
      .with("got", kind)
      .with("want", "byte or gpt2");
}

}  // namespace plait

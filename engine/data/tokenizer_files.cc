#include "engine/data/tokenizer_files.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <array>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

using Ids = absl::flat_hash_map<std::string, int32_t>;

constexpr int64_t kMaxFileBytes = int64_t{256} << 20;

Error field_error(const std::string& path, const char* sentence, std::string_view token) {
  return Error("invalid_field", sentence).with("path", path).with("token", token);
}

/// Takes one flat object of names and whole numbers, without building a tree of it.
class VocabularyHandler final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit VocabularyHandler(const std::string& path) : path_(path) {}

  bool null() override { refuse(); }
  bool boolean(bool) override { refuse(); }
  bool number_float(number_float_t, const string_t&) override { refuse(); }
  bool string(string_t&) override { refuse(); }
  bool binary(binary_t&) override { refuse(); }
  bool start_array(std::size_t) override { refuse(); }
  bool end_array() override { refuse(); }

  bool number_integer(number_integer_t value) override {
    if (!is_open_) refuse();
    throw field_error(path_, "an id is negative", key_).with("got", value);
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!is_open_) refuse();
    constexpr uint64_t kLimit = std::numeric_limits<int32_t>::max();
    if (value >= kLimit) {
      throw field_error(path_, "an id is too large", key_).with("got", value).with("limit", kLimit);
    }
    if (!ids_.emplace(key_, static_cast<int32_t>(value)).second) {
      throw field_error(path_, "a token occurs twice", key_).with("got", value);
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (is_open_) refuse();
    is_open_ = true;
    return true;
  }

  bool key(string_t& name) override {
    key_ = name;
    return true;
  }

  bool end_object() override { return true; }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    throw Error("invalid_file", "not JSON").with("path", path_).with("offset", position);
  }

  Ids take() { return std::move(ids_); }

 private:
  [[noreturn]] void refuse() const {
    if (!is_open_) {
      throw Error("invalid_file", "the vocabulary is no JSON object").with("path", path_);
    }
    throw field_error(path_, "an id is no whole number", key_);
  }

  const std::string& path_;
  std::string key_;
  Ids ids_;
  bool is_open_ = false;
};

/// Vocabulary files write byte b as one printable character: those of Latin-1 that print stand for
/// themselves, the other 68 bytes are U+0100 and up, in order.
class ByteAlphabet {
 public:
  ByteAlphabet() {
    bytes_.fill(-1);
    int next = 256;
    for (int byte = 0; byte < 256; ++byte) {
      const bool is_printed =
          (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
      bytes_[static_cast<size_t>(is_printed ? byte : next++)] = static_cast<int16_t>(byte);
    }
  }

  /// The bytes that `text` stands for; false when a character stands for none.
  bool decode(std::string_view text, std::string* out) const {
    for (size_t i = 0; i < text.size(); ++i) {
      unsigned code = static_cast<unsigned char>(text[i]);
      if (code >= 0xC2 && code <= 0xC5 && i + 1 < text.size()) {
        code = (code & 0x1F) << 6 | (static_cast<unsigned char>(text[++i]) & 0x3F);
      } else if (code >= 128) {
        return false;
      }
      if (code >= bytes_.size() || bytes_[code] < 0) return false;
      out->push_back(static_cast<char>(bytes_[code]));
    }
    return true;
  }

 private:
  std::array<int16_t, 324> bytes_;
};

Ids parse_vocabulary(std::string_view text, const std::string& path) {
  VocabularyHandler handler(path);
  nlohmann::json::sax_parse(text.begin(), text.end(), &handler);
  return handler.take();
}

std::vector<std::string> tokens_by_id(const Ids& ids, const std::string& path) {
  const ByteAlphabet alphabet;
  std::vector<std::string> tokens(ids.size());
  for (const auto& [name, id] : ids) {
    if (static_cast<size_t>(id) >= tokens.size()) {
      throw field_error(path, "the ids leave a hole", name)
          .with("got", id)
          .with("limit", tokens.size());
    }
    std::string& token = tokens[static_cast<size_t>(id)];
    if (!token.empty()) throw field_error(path, "two tokens have one id", name).with("got", id);
    if (name.empty() || !alphabet.decode(name, &token)) {
      throw field_error(path, "a token is no text of the byte alphabet", name).with("got", id);
    }
  }
  return tokens;
}

int32_t known_id(const Ids& ids, const std::string& token, const std::string& path, int64_t line) {
  const auto found = ids.find(token);
  if (found != ids.end()) return found->second;
  throw field_error(path, "a merge names a token that the vocabulary lacks", token)
      .with("line", line);
}

MergeRule parse_merge(std::string_view line, int64_t number, const Ids& ids,
                      const std::string& path) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos) {
    throw Error("invalid_file", "a line of merges is no pair of tokens")
        .with("path", path)
        .with("line", number);
  }
  const std::string left(line.substr(0, space)), right(line.substr(space + 1));
  return {known_id(ids, left, path, number), known_id(ids, right, path, number),
          known_id(ids, left + right, path, number)};
}

std::vector<MergeRule> parse_merges(std::string_view text, const Ids& ids,
                                    const std::string& path) {
  std::vector<MergeRule> merges;
  absl::flat_hash_set<std::pair<int32_t, int32_t>> seen;
  int64_t number = 0;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text = end == std::string_view::npos ? std::string_view{} : text.substr(end + 1);
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const bool is_comment = number == 1 && line.starts_with("#version");
    if (line.empty() || is_comment) continue;
    const MergeRule rule = parse_merge(line, number, ids, path);
    if (!seen.emplace(rule.left, rule.right).second) {
      throw field_error(path, "a merge occurs twice", line).with("line", number);
    }
    merges.push_back(rule);
  }
  return merges;
}

void require_all_bytes(const std::vector<std::string>& tokens, const std::string& path) {
  std::array<bool, 256> is_there{};
  for (const std::string& token : tokens) {
    if (token.size() == 1) is_there[static_cast<unsigned char>(token[0])] = true;
  }
  for (size_t byte = 0; byte < is_there.size(); ++byte) {
    if (is_there[byte]) continue;
    throw Error("invalid_field", "the vocabulary has no token for a byte")
        .with("path", path)
        .with("byte", byte);
  }
}

}  // namespace

BpeFiles parse_bpe_files(std::string_view vocabulary, const std::string& vocabulary_path,
                         std::string_view merges, const std::string& merges_path) {
  const Ids ids = parse_vocabulary(vocabulary, vocabulary_path);
  BpeFiles out;
  out.tokens = tokens_by_id(ids, vocabulary_path);
  require_all_bytes(out.tokens, vocabulary_path);
  out.merges = parse_merges(merges, ids, merges_path);
  return out;
}

BpeFiles read_bpe_files(Files& files, const std::string& directory) {
  constexpr std::pair<const char*, const char*> kNames[] = {{"encoder.json", "vocab.bpe"},
                                                            {"vocab.json", "merges.txt"}};
  for (const auto& [vocabulary_name, merges_name] : kNames) {
    const std::string vocabulary_path = join_path(directory, vocabulary_name);
    const std::string merges_path = join_path(directory, merges_name);
    if (!files.exists(vocabulary_path) && !files.exists(merges_path)) continue;
    const std::string vocabulary = read_file(files, vocabulary_path, kMaxFileBytes);
    const std::string merges = read_file(files, merges_path, kMaxFileBytes);
    return parse_bpe_files(vocabulary, vocabulary_path, merges, merges_path);
  }
  throw Error("no_file", "the directory has no BPE vocabulary")
      .with("path", directory)
      .with("want", "vocab.bpe and encoder.json, or merges.txt and vocab.json");
}

}  // namespace plait

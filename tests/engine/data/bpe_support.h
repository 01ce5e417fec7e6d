// A small byte-level vocabulary made in the test, and plain merging of strings to compare with.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "engine/data/pretokenizer.h"

namespace plait {

/// One character per byte, as vocabulary files write it.
inline std::string byte_letter(unsigned char byte) {
  const bool is_printed =
      (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  unsigned code = byte;
  if (!is_printed) {
    code = byte <= 32 ? 256u + byte : byte == 173 ? 256u + 67 : 256u + 33 + (byte - 127);
  }
  if (code < 128) return std::string(1, static_cast<char>(code));
  return {static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))};
}

inline std::string byte_letters(const std::string& text) {
  std::string out;
  for (const char byte : text) out += byte_letter(static_cast<unsigned char>(byte));
  return out;
}

struct SmallBpe {
  std::vector<std::pair<std::string, std::string>> merges;  // bytes
  std::map<std::string, int32_t> ids;                       // bytes → id

  std::string vocabulary(bool has_marker = true) const {
    nlohmann::json json;
    for (const auto& [token, id] : ids) json[byte_letters(token)] = id;
    if (has_marker) json["<|endoftext|>"] = ids.size();
    return json.dump();
  }
  std::string merges_text() const {
    std::string out = "#version: 0.2\n";
    for (const auto& [left, right] : merges) {
      out += byte_letters(left) + " " + byte_letters(right) + "\n";
    }
    return out;
  }
};

using Symbols = std::vector<std::string>;

inline Symbols merge_pair(const Symbols& word, const std::string& left, const std::string& right) {
  Symbols out;
  for (size_t i = 0; i < word.size();) {
    const bool is_pair = i + 1 < word.size() && word[i] == left && word[i + 1] == right;
    out.push_back(is_pair ? left + right : word[i]);
    i += is_pair ? 2 : 1;
  }
  return out;
}

inline std::vector<Symbols> words_of_bytes(std::string_view text) {
  std::vector<Symbols> words;
  while (!text.empty()) {
    const size_t bytes = static_cast<size_t>(first_word(text));
    Symbols word;
    for (const char byte : text.substr(0, bytes)) word.emplace_back(1, byte);
    words.push_back(word);
    text.remove_prefix(bytes);
  }
  return words;
}

/// The `count` most frequent merges of `text`, ids after those of the 256 bytes.
inline SmallBpe train_small_bpe(const std::string& text, int count) {
  SmallBpe bpe;
  for (int byte = 0; byte < 256; ++byte) {
    bpe.ids[std::string(1, static_cast<char>(byte))] = byte;
  }
  std::vector<Symbols> words = words_of_bytes(text);
  for (int step = 0; step < count; ++step) {
    std::map<std::pair<std::string, std::string>, int> counts;
    for (const Symbols& word : words) {
      for (size_t i = 0; i + 1 < word.size(); ++i) ++counts[{word[i], word[i + 1]}];
    }
    std::pair<std::string, std::string> best;
    int most = 0;
    for (const auto& [pair, number] : counts) {
      if (number > most && bpe.ids.count(pair.first + pair.second) == 0) {
        best = pair;
        most = number;
      }
    }
    if (most < 2) break;
    bpe.merges.push_back(best);
    bpe.ids.emplace(best.first + best.second, static_cast<int32_t>(bpe.ids.size()));
    for (Symbols& word : words) word = merge_pair(word, best.first, best.second);
  }
  return bpe;
}

/// Ids by the definition: merge all occurrences of the first rule that applies, again and again.
inline std::vector<int32_t> encode_plainly(const SmallBpe& bpe, const std::string& text) {
  std::map<std::pair<std::string, std::string>, size_t> ranks;
  for (size_t i = 0; i < bpe.merges.size(); ++i) ranks[bpe.merges[i]] = i;
  std::vector<int32_t> out;
  for (Symbols word : words_of_bytes(text)) {
    while (true) {
      size_t lowest = bpe.merges.size();
      for (size_t i = 0; i + 1 < word.size(); ++i) {
        const auto found = ranks.find({word[i], word[i + 1]});
        if (found != ranks.end()) lowest = std::min(lowest, found->second);
      }
      if (lowest == bpe.merges.size()) break;
      word = merge_pair(word, bpe.merges[lowest].first, bpe.merges[lowest].second);
    }
    for (const std::string& symbol : word) out.push_back(bpe.ids.at(symbol));
  }
  return out;
}

/// Text with repetitions, contractions, numbers, wide characters and runs of white space.
inline std::string sample_text() {
  std::string text;
  const char* parts[] = {"the cat's hat and the bat's mat; ",
                         "they're here,\n\n  we've seen 1234 of them.\n",
                         "banana bandana anagram ",
                         "\tna\xC3\xAFve caf\xC3\xA9 \xE4\xB8\xAD\xE6\x96\x87 ",
                         "aaaa aaaaaaa aa ",
                         "don't   stop    me\r\n",
                         "x=1;y=22;zz=333 "};
  for (int i = 0; i < 40; ++i) text += parts[i % 7];
  return text;
}

}  // namespace plait

// The two files of a BPE vocabulary, and texts. Whatever the bytes, there is an Error or a
// tokenizer under which texts come back byte for byte.
//
// Input: byte 0 chooses; odd: the rest is a vocabulary, even: the rest is merges beside a good
// vocabulary. What follows the last zero byte is also taken as a text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/encode_file.h"
#include "engine/data/tokenizer.h"
#include "kernels/base/error.h"
#include "tests/engine/data/bpe_support.h"
#include "tests/support/memory_files.h"

namespace {

using namespace plait;

void expect(bool condition) {
  if (!condition) std::abort();
}

const SmallBpe& small() {
  static const SmallBpe bpe = train_small_bpe(sample_text(), 60);
  return bpe;
}

void encode_in_pieces(const Tokenizer& tokenizer, const std::string& text, int64_t chunk) {
  MemoryFiles files;
  Env env = memory_env(files);
  files.put("in", text);
  EncodeFileOptions options;
  options.chunk_bytes = chunk;
  options.is_special = tokenizer.end_of_text() >= 0;
  const EncodeFileResult result = encode_file(env, tokenizer, "in", "out", options);
  expect(result.tokens == static_cast<int64_t>(tokenizer.encode(text, options.is_special).size()));
  decode_file(env, tokenizer, "out", "back", TokenType::kAuto, {});
  expect(files.at("back").bytes == text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string rest(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t zero = rest.rfind('\0');
  const std::string text = zero == std::string::npos ? rest : rest.substr(zero + 1);
  const std::string good_vocabulary = small().vocabulary(), good_merges = small().merges_text();
  try {
    MemoryFiles files;
    files.put("v/vocab.json", data[0] % 2 == 1 ? rest : good_vocabulary);
    files.put("v/merges.txt", data[0] % 2 == 1 ? good_merges : rest);
    const auto tokenizer = open_tokenizer(files, "gpt2", "v");
    expect(tokenizer->decode(tokenizer->encode(text)) == text);
  } catch (const Error& error) {
    expect(error.word() == "invalid_file" || error.word() == "invalid_field");
  }
  MemoryFiles files;
  files.put("v/vocab.json", good_vocabulary);
  files.put("v/merges.txt", good_merges);
  encode_in_pieces(*open_tokenizer(files, "gpt2", "v"), text, 1 + data[0] / 2);
  return 0;
}

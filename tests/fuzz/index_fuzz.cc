// Token files: `.idx` with `.bin`, flat files, and a data set over them. Whatever the bytes, there
// is an Error or there are tokens inside the vocabulary.
//
// Input: byte 0 says how many of the other bytes (in 256ths) are the `.idx`, the rest is the
// `.bin`.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "engine/data/sampler.h"
#include "engine/data/token_file.h"
#include "engine/data/token_merge.h"
#include "kernels/base/error.h"
#include "tests/support/memory_files.h"

namespace {

using namespace plait;

constexpr int64_t kVocabulary = 1000;

void expect(bool condition) {
  if (!condition) std::abort();
}

void read_everything(const TokenFile& file) {
  // The tokens may be many more than the bytes: sequences may share them.
  const int64_t count = file.tokens() < 4096 ? file.tokens() : 4096;
  std::vector<int32_t> out(static_cast<size_t>(count));
  for (const int64_t first : {int64_t{0}, file.tokens() - count}) {
    file.read_documents(first, count, out.data());
    for (int64_t i = 1; i < count; ++i) expect(out[i] == out[i - 1] || out[i] == out[i - 1] + 1);
    file.read(first, count, out.data());
    for (const int32_t token : out) expect(token >= 0 && token < kVocabulary);
  }
  int64_t last = 0;
  for (int64_t d = 0; d <= file.documents() && d < 1000; ++d) {
    const int64_t start = file.document_start(d);
    expect(start >= last && start <= file.tokens());
    last = start;
  }
  file.facts();
}

template <class Action>
void run(const Action& action) {
  try {
    action();
  } catch (const Error& error) {
    expect(error.word() != "invariant");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  const std::string bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  const size_t cut = bytes.size() * data[0] / 255;
  MemoryFiles files;
  files.put("d.idx", bytes.substr(0, cut));
  files.put("d.bin", bytes.substr(cut));
  files.put("flat", bytes);
  for (const std::string path : {"d.bin", "flat"}) {
    run([&] { read_everything(*TokenFile::open(files, path, {TokenType::kAuto, kVocabulary})); });
    run([&] {
      DataOptions options;
      options.paths = {path};
      options.split = {.6, .4};
      options.role = data[0] % 2;
      options.sequence_length = 3;
      options.vocab_size = kVocabulary;
      const auto dataset = Dataset::open(files, options);
      std::vector<int32_t> rows(4 * 8);
      dataset->read(data[0], 8, rows.data());
      for (const int32_t token : rows) expect(token >= 0 && token < kVocabulary);
      dataset->read_documents(data[0], 8, rows.data());
    });
  }
  run([&] {
    const auto file = TokenFile::open(files, "d.bin", {TokenType::kAuto, kVocabulary});
    if (file->tokens() > 4096) return;
    Env env = memory_env(files);
    merge_token_files(env, {"d.bin"}, "merged", kVocabulary);
    const auto merged = TokenFile::open(files, "merged.bin", {TokenType::kAuto, kVocabulary});
    expect(merged->tokens() == file->tokens());
    expect(merged->documents() == file->documents());
  });
  return 0;
}

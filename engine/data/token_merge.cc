#include "engine/data/token_merge.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "engine/data/token_file.h"
#include "engine/data/token_index.h"
#include "engine/data/token_writer.h"

namespace plait {
namespace {

constexpr int64_t kMergeBlock = 16384;  // tokens copied at a time

void copy_tokens(const TokenFile& file, int64_t first, int64_t count, std::vector<int32_t>* block,
                 TokenWriter* writer) {
  while (count > 0) {
    const int64_t part = std::min(count, kMergeBlock);
    file.read(first, part, block->data());
    writer->append(block->data(), part);
    first += part;
    count -= part;
  }
}

void copy_documents(const TokenFile& file, std::vector<int32_t>* block, TokenWriter* writer) {
  const TokenIndex& index = *file.index();
  int64_t position = 0, sequence = 0;
  for (int64_t document = 0; document < index.documents(); ++document) {
    const int64_t end = index.document_entry(document + 1);
    for (; sequence < end; ++sequence) {
      int32_t length = 0;
      index.read_lengths(sequence, 1, &length);
      copy_tokens(file, position, length, block, writer);
      writer->end_sequence();
      position += length;
    }
    writer->end_document();
  }
}

}  // namespace

void merge_token_files(Env& env, const std::vector<std::string>& inputs, const std::string& output,
                       int64_t vocab_size) {
  const std::unique_ptr<TokenWriter> writer = make_indexed_writer(env, output, vocab_size);
  std::vector<int32_t> block(static_cast<size_t>(kMergeBlock));
  for (const std::string& input : inputs) {
    const std::unique_ptr<TokenFile> file =
        TokenFile::open(env.files, input, {TokenType::kAuto, vocab_size});
    if (file->is_indexed()) {
      copy_documents(*file, &block, writer.get());
    } else {
      copy_tokens(*file, 0, file->tokens(), &block, writer.get());
      writer->end_document();
    }
  }
  writer->finish();
}

}  // namespace plait

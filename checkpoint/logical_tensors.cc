#include "checkpoint/logical_tensors.h"

#include <utility>

namespace plait {
namespace {

class Builder {
 public:
  explicit Builder(bool has_biases) : has_biases_(has_biases) {}
  void matrix(const std::string& name, int64_t rows, int64_t columns) {
    tensors_.push_back({name + ".weight", {rows, columns}});
    if (has_biases_) tensors_.push_back({name + ".bias", {rows}});
  }
  void norm(const std::string& name, int64_t hidden) {
    tensors_.push_back({name + ".weight", {hidden}});
    if (has_biases_) tensors_.push_back({name + ".bias", {hidden}});
  }
  void table(const std::string& name, int64_t rows, int64_t columns) {
    tensors_.push_back({name + ".weight", {rows, columns}});
  }
  std::vector<CheckpointTensor> take() { return std::move(tensors_); }

 private:
  bool has_biases_;
  std::vector<CheckpointTensor> tensors_;
};

}  // namespace

std::vector<CheckpointTensor> logical_tensors(const ModelFacts& facts) {
  const bool is_gpt2 = facts.family == ModelFacts::Family::kGpt2;
  const int64_t hidden = facts.hidden;
  const int64_t query_rows = facts.heads * facts.head_size;
  const int64_t key_rows = facts.key_value_heads * facts.head_size;
  Builder builder(is_gpt2);
  builder.table("embedding.token", facts.vocab_size, hidden);
  if (is_gpt2) builder.table("embedding.position", facts.sequence_length, hidden);
  for (int64_t i = 0; i < facts.layers; ++i) {
    const std::string layer = "layers." + std::to_string(i) + ".";
    builder.norm(layer + "attention_norm", hidden);
    builder.matrix(layer + "attention.query", query_rows, hidden);
    builder.matrix(layer + "attention.key", key_rows, hidden);
    builder.matrix(layer + "attention.value", key_rows, hidden);
    builder.matrix(layer + "attention.output", hidden, query_rows);
    builder.norm(layer + "feed_forward_norm", hidden);
    if (!is_gpt2) builder.matrix(layer + "feed_forward.gate", facts.feed_forward, hidden);
    builder.matrix(layer + "feed_forward.up", facts.feed_forward, hidden);
    builder.matrix(layer + "feed_forward.down", hidden, facts.feed_forward);
  }
  builder.norm("final_norm", hidden);
  if (!facts.tied) builder.table("head", facts.vocab_size, hidden);
  return builder.take();
}

}  // namespace plait

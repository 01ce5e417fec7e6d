#include "engine/data/bpe.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace plait {
namespace {

/// Up to here looking through all pairs is faster than a heap.
constexpr size_t kShortWord = 48;

uint64_t key_of(int32_t left, int32_t right) {
  return uint64_t{static_cast<uint32_t>(left)} << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BpeMerger::BpeMerger(const BpeFiles& files) {
  for (size_t id = 0; id < files.tokens.size(); ++id) {
    const std::string& token = files.tokens[id];
    if (token.size() == 1)
      byte_ids_[static_cast<unsigned char>(token[0])] = static_cast<int32_t>(id);
  }
  merges_.reserve(files.merges.size());
  for (size_t rank = 0; rank < files.merges.size(); ++rank) {
    const MergeRule& rule = files.merges[rank];
    merges_.emplace(key_of(rule.left, rule.right), Merge{static_cast<uint32_t>(rank), rule.merged});
  }
}

const BpeMerger::Merge* BpeMerger::find(int32_t left, int32_t right) const {
  const auto found = merges_.find(key_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

uint32_t BpeMerger::rank(int32_t left, int32_t right) const {
  const Merge* merge = find(left, right);
  return merge == nullptr ? kNone : merge->rank;
}

void BpeMerger::encode(std::string_view word, BpeScratch* scratch,
                       std::vector<int32_t>* out) const {
  if (word.size() <= kShortWord) return encode_short(word, scratch, out);
  encode_long(word, scratch, out);
}

void BpeMerger::encode_short(std::string_view word, BpeScratch* scratch,
                             std::vector<int32_t>* out) const {
  std::vector<int32_t>& ids = scratch->ids;
  std::vector<uint32_t>& ranks = scratch->ranks;  // ranks[i]: of the pair (i, i + 1)
  ids.clear();
  for (const char byte : word) ids.push_back(byte_ids_[static_cast<unsigned char>(byte)]);
  ranks.assign(ids.size(), kNone);
  for (size_t i = 0; i + 1 < ids.size(); ++i) ranks[i] = rank(ids[i], ids[i + 1]);
  while (ids.size() > 1) {
    const uint32_t lowest = *std::min_element(ranks.begin(), ranks.end());
    if (lowest == kNone) break;
    size_t kept = 0;
    int32_t merged = -1;
    for (size_t i = 0; i < ids.size(); ++kept) {
      if (ranks[i] == lowest) {
        merged = find(ids[i], ids[i + 1])->merged;
        ids[kept] = merged;
        i += 2;
      } else {
        ids[kept] = ids[i];
        ranks[kept] = ranks[i];
        i += 1;
      }
    }
    ids.resize(kept);
    ranks.resize(kept);
    for (size_t i = 0; i + 1 < kept; ++i) {
      if (ids[i] == merged || ids[i + 1] == merged) ranks[i] = rank(ids[i], ids[i + 1]);
    }
    ranks[kept - 1] = kNone;
  }
  out->insert(out->end(), ids.begin(), ids.end());
}

uint32_t BpeMerger::rank_at(int32_t place, const BpeScratch& scratch) const {
  const size_t at = static_cast<size_t>(place);
  const int32_t right = scratch.next[at];
  if (scratch.ids[at] < 0 || right < 0) return kNone;
  return rank(scratch.ids[at], scratch.ids[static_cast<size_t>(right)]);
}

void BpeMerger::push_pair(int32_t place, BpeScratch* scratch) const {
  const uint32_t rank = rank_at(place, *scratch);
  if (rank == kNone) return;
  scratch->heap.emplace_back(rank, place);
  std::push_heap(scratch->heap.begin(), scratch->heap.end(), std::greater<>());
}

/// Merges the pair at `place` unless an earlier merge has taken one of its tokens.
void BpeMerger::merge_at(int32_t place, uint32_t rank, BpeScratch* scratch) const {
  if (rank_at(place, *scratch) != rank) return;
  const size_t left = static_cast<size_t>(place);
  const size_t right = static_cast<size_t>(scratch->next[left]);
  scratch->ids[left] = find(scratch->ids[left], scratch->ids[right])->merged;
  scratch->ids[right] = -1;
  const int32_t after = scratch->next[right];
  scratch->next[left] = after;
  if (after >= 0) scratch->previous[static_cast<size_t>(after)] = place;
  push_pair(place, scratch);
  if (scratch->previous[left] >= 0) push_pair(scratch->previous[left], scratch);
}

void BpeMerger::encode_long(std::string_view word, BpeScratch* scratch,
                            std::vector<int32_t>* out) const {
  const int32_t count = static_cast<int32_t>(word.size());
  auto& [ids, previous, next, ranks, heap, places] = *scratch;
  ids.resize(word.size());
  previous.resize(word.size());
  next.resize(word.size());
  for (int32_t i = 0; i < count; ++i) {
    const size_t at = static_cast<size_t>(i);
    ids[at] = byte_ids_[static_cast<unsigned char>(word[at])];
    previous[at] = i - 1;
    next[at] = i + 1 < count ? i + 1 : -1;
  }
  heap.clear();
  for (int32_t i = 0; i + 1 < count; ++i) {
    const uint32_t pair_rank = rank_at(i, *scratch);
    if (pair_rank != kNone) heap.emplace_back(pair_rank, i);
  }
  std::make_heap(heap.begin(), heap.end(), std::greater<>());
  while (!heap.empty()) {
    // All pairs of one rank before any that their merges make.
    const uint32_t lowest = heap.front().first;
    places.clear();
    while (!heap.empty() && heap.front().first == lowest) {
      places.push_back(heap.front().second);
      std::pop_heap(heap.begin(), heap.end(), std::greater<>());
      heap.pop_back();
    }
    for (const int32_t place : places) merge_at(place, lowest, scratch);
  }
  for (int32_t i = 0; i >= 0; i = next[static_cast<size_t>(i)]) {
    out->push_back(ids[static_cast<size_t>(i)]);
  }
}

}  // namespace plait

#include "engine/trainer/replica_check.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <utility>

#include "engine/trainer/world_gather.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr int64_t kReplicaKinds = 4;  // weights, masters and both moments
constexpr int64_t kPieceBytes = int64_t{1} << 20;
constexpr int64_t kAllEqual = std::numeric_limits<int64_t>::max();

int64_t slot_of(TensorKind kind) {
  return static_cast<int64_t>(kind) - static_cast<int64_t>(TensorKind::kParam);
}

TensorKind kind_of_slot(int64_t slot) {
  return static_cast<TensorKind>(slot + static_cast<int64_t>(TensorKind::kParam));
}

const char* kind_name(TensorKind kind) {
  constexpr const char* kNames[kReplicaKinds] = {"param", "master", "moment1", "moment2"};
  return kNames[slot_of(kind)];
}

/// Orders what may differ: the least is reported.
int64_t place_of(const ReplicaPart& part) {
  return part.tensor * kReplicaKinds + slot_of(part.kind);
}

uint64_t hash_of(const void* data, int64_t bytes) {
  return XXH3_64bits(data, static_cast<size_t>(bytes));
}

std::string hash_text(uint64_t hash) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash));
  return text;
}

/// [{"hash": …, "ranks": […]}, …]: each hash once, in the order of its first holder.
std::string copies_text(const std::vector<ReplicaCopy>& copies) {
  JsonArray table;
  std::vector<uint64_t> seen;
  for (const ReplicaCopy& first : copies) {
    if (std::find(seen.begin(), seen.end(), first.hash) != seen.end()) continue;
    seen.push_back(first.hash);
    JsonArray ranks;
    for (const ReplicaCopy& copy : copies) {
      if (copy.hash == first.hash) ranks.add(std::to_string(copy.rank));
    }
    table.add(JsonObject().field("hash", hash_text(first.hash)).raw("ranks", ranks.text()).text());
  }
  return table.text();
}

}  // namespace

Blame blame(std::span<const ReplicaCopy> copies) {
  uint64_t trusted = copies[0].hash;
  size_t most = 0;
  bool is_tie = false;
  for (const ReplicaCopy& copy : copies) {
    const auto votes = static_cast<size_t>(std::count_if(
        copies.begin(), copies.end(), [&](const ReplicaCopy& c) { return c.hash == copy.hash; }));
    if (votes > most) {
      most = votes;
      trusted = copy.hash;
      is_tie = false;
    } else if (votes == most && copy.hash != trusted) {
      is_tie = true;
    }
  }
  if (is_tie) trusted = copies[0].hash;
  for (const ReplicaCopy& copy : copies) {
    if (copy.hash != trusted) return {copy.rank, !is_tie};
  }
  return {};
}

Error divergence_error(const Divergence& divergence, const std::string& tensor, int64_t step) {
  const int64_t rank = divergence.blame.rank;
  return Error("replica_diverged", "copies of a tensor differ between ranks")
      .with("rank", rank)
      .with("tensor", tensor)
      .with("kind", kind_name(divergence.kind))
      .with("step", step)
      .with("decided_by", divergence.blame.is_outvoted ? "majority" : "first_holder")
      .with_raw("copies", copies_text(divergence.copies))
      .rank(static_cast<int32_t>(rank))
      .subsystem("engine/trainer");
}

ReplicaCheck::ReplicaCheck(const StepGroups& groups, std::vector<ReplicaPart> parts,
                           bool has_tied_ends)
    : groups_(groups), parts_(std::move(parts)), has_tied_ends_(has_tied_ends) {
  for (const ReplicaPart& part : parts_) {
    has_data_copies_ = has_data_copies_ || (part.is_on_all_data && groups_.data->size() > 1);
    has_tensor_copies_ = has_tensor_copies_ || part.holders > 1;
    const int64_t bytes = part.values.bytes();
    for (int64_t first = 0; first < bytes; first += kPieceBytes) {
      pieces_.push_back({part.values.as<char>() + first, std::min(kPieceBytes, bytes - first)});
    }
    piece_counts_.push_back((bytes + kPieceBytes - 1) / kPieceBytes);
  }
}

int64_t ReplicaCheck::widest() const {
  return std::max({groups_.data->size(), groups_.tensor->size(), groups_.pipeline->size()});
}

std::optional<Divergence> ReplicaCheck::run(OpContext& context) const {
  Workspace::Frame frame(context.workspace);
  auto* pieces = frame.take<uint64_t>(static_cast<int64_t>(pieces_.size()));
  auto* own = frame.take<uint64_t>(count());
  auto* all = frame.take<uint64_t>(std::max(count(), kReplicaKinds) * widest());
  auto* answers = frame.take<Answer>(2 * world_size(groups_));
  if (context.is_measuring()) return std::nullopt;
  context.check_aborted();
  hash(context, pieces, own);
  const int64_t here =
      std::min({compare_data(own, all), compare_tensor(own, all), compare_ends(own, all)});
  const int64_t place = agree(here, all);
  if (place == kAllEqual) return std::nullopt;
  return ask_all(place, own, answers);
}

void ReplicaCheck::hash(OpContext& context, uint64_t* pieces, uint64_t* hashes) const {
  context.pool().run(static_cast<int64_t>(pieces_.size()), [&](int64_t i, int) {
    const Piece& piece = pieces_[static_cast<size_t>(i)];
    pieces[i] = hash_of(piece.data, piece.bytes);
  });
  for (size_t i = 0; i < parts_.size(); ++i) {
    const int64_t pieces_of_part = piece_counts_[i];
    hashes[i] = hash_of(pieces, pieces_of_part * static_cast<int64_t>(sizeof *pieces));
    pieces += pieces_of_part;
  }
}

int64_t ReplicaCheck::compare_data(const uint64_t* own, uint64_t* all) const {
  if (!has_data_copies_) return kAllEqual;
  groups_.data->all_gather_bytes(own, count() * static_cast<int64_t>(sizeof *own), all);
  int64_t least = kAllEqual;
  for (int64_t i = 0; i < count(); ++i) {
    const ReplicaPart& part = parts_[static_cast<size_t>(i)];
    if (!part.is_on_all_data) continue;
    for (int64_t member = 1; member < groups_.data->size(); ++member) {
      if (all[member * count() + i] != all[i]) least = std::min(least, place_of(part));
    }
  }
  return least;
}

int64_t ReplicaCheck::compare_tensor(const uint64_t* own, uint64_t* all) const {
  if (!has_tensor_copies_) return kAllEqual;
  groups_.tensor->all_gather_bytes(own, count() * static_cast<int64_t>(sizeof *own), all);
  int64_t least = kAllEqual;
  for (int64_t i = 0; i < count(); ++i) {
    const ReplicaPart& part = parts_[static_cast<size_t>(i)];
    const uint64_t* first = all + part.first_holder * count() + i;
    for (int64_t holder = 1; holder < part.holders; ++holder) {
      if (first[holder * count()] != *first) least = std::min(least, place_of(part));
    }
  }
  return least;
}

/// Every member takes part, also those between the ends.
int64_t ReplicaCheck::compare_ends(const uint64_t* own, uint64_t* all) const {
  if (!has_tied_ends_) return kAllEqual;
  const int64_t members = groups_.pipeline->size();
  uint64_t words[kReplicaKinds] = {};
  int64_t least = kAllEqual;
  for (int64_t i = 0; i < count(); ++i) {
    const ReplicaPart& part = parts_[static_cast<size_t>(i)];
    if (part.is_tied_end) words[slot_of(part.kind)] = own[i];
  }
  groups_.pipeline->all_gather_bytes(words, sizeof words, all);
  const uint64_t* last = all + (members - 1) * kReplicaKinds;
  for (const ReplicaPart& part : parts_) {
    const int64_t slot = slot_of(part.kind);
    if (part.is_tied_end && all[slot] != last[slot]) least = std::min(least, place_of(part));
  }
  return least;
}

/// The least of the world.
int64_t ReplicaCheck::agree(int64_t place, uint64_t* all) const {
  auto* places = reinterpret_cast<int64_t*>(all);
  for (Communicator* group : {groups_.data, groups_.tensor, groups_.pipeline}) {
    group->all_gather_bytes(&place, sizeof place, places);
    place = *std::min_element(places, places + group->size());
  }
  return place;
}

/// Ranks with the same slice of the same box are one set; the lowest set that differs counts.
Divergence ReplicaCheck::ask_all(int64_t place, const uint64_t* own, Answer* answers) const {
  Answer answer;
  for (int64_t i = 0; i < count(); ++i) {
    const ReplicaPart& part = parts_[static_cast<size_t>(i)];
    if (place_of(part) != place) continue;
    const int64_t data = part.is_on_all_data ? 0 : groups_.data->index();
    const int64_t set = part.first_holder + groups_.tensor->size() * data;
    const uint64_t both[] = {answer.hash, own[i]};
    // The lanes of a rank hold parts of one tensor; their hashes become one.
    answer = {set, answer.set < 0 ? own[i] : hash_of(both, sizeof both)};
  }
  const int64_t world = world_size(groups_);
  gather_by_rank(groups_, &answer, sizeof answer, answers + world, answers);
  Divergence found;
  found.tensor = place / kReplicaKinds;
  found.kind = kind_of_slot(place % kReplicaKinds);
  const int64_t sets = groups_.tensor->size() * groups_.data->size();
  for (int64_t set = 0; set < sets && found.blame.rank < 0; ++set) {
    found.copies.clear();
    for (int64_t rank = 0; rank < world; ++rank) {
      if (answers[rank].set == set) found.copies.push_back({rank, answers[rank].hash});
    }
    if (!found.copies.empty()) found.blame = blame(found.copies);
  }
  return found;
}

}  // namespace plait

#include "engine/comm/card.h"

#include <algorithm>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "engine/comm/wire_bytes.h"
#include "kernels/base/json_text.h"

namespace plait {
namespace {

constexpr uint32_t kMagic = 0x43494C50;  // "PLIC"
constexpr uint32_t kFormat = 1;
constexpr int64_t kMostRanks = int64_t{1} << 31;
constexpr size_t kMostAddresses = 8;
constexpr int64_t kListed = 64;

std::string owner_json(const Card& card) {
  return JsonObject()
      .field("rank", card.first_rank)
      .field("local_ranks", card.local_ranks)
      .field("world", card.world)
      .field("host", card.host)
      .field("pid", card.pid)
      .text();
}

Error clash(const std::string& sentence, const Card& ours, const Card& theirs, int64_t rank) {
  return Error("topology", sentence)
      .with("rank", rank)
      .with_raw("processes", JsonArray().add(owner_json(ours)).add(owner_json(theirs)).text())
      .rank(static_cast<int32_t>(rank))
      .subsystem("engine/comm");
}

}  // namespace

std::string encode_card(const Card& card) {
  ByteWriter out;
  out.number(kMagic).number(kFormat).number(card.version).number(card.world);
  out.number(card.first_rank).number(card.local_ranks).number(card.pid).number(card.nonce);
  out.text(card.host).number(static_cast<uint32_t>(card.addresses.size()));
  for (const std::string& address : card.addresses) out.text(address);
  out.number(XXH3_64bits(out.bytes().data(), out.bytes().size()));
  return out.bytes();
}

Card decode_card(std::string_view bytes) {
  const auto refuse = [&](const char* sentence) {
    return Error("argument", sentence).with("parameter", "card").with("bytes", bytes.size());
  };
  if (bytes.size() < 12 || bytes.size() > Card::kMaxBytes) throw refuse("the bytes are no card");
  ByteReader in(bytes);
  if (in.number<uint32_t>() != kMagic) throw refuse("the bytes are no card");
  const size_t checked = bytes.size() - 8;
  uint64_t check = 0;
  std::memcpy(&check, bytes.data() + checked, sizeof check);
  if (check != XXH3_64bits(bytes.data(), checked)) throw refuse("the card is damaged");
  if (in.number<uint32_t>() != kFormat) throw refuse("the card has another format");
  Card card;
  card.version = in.number<int64_t>();
  card.world = in.number<int64_t>();
  card.first_rank = in.number<int64_t>();
  card.local_ranks = in.number<int64_t>();
  card.pid = in.number<int64_t>();
  card.nonce = in.number<uint64_t>();
  card.host = in.text();
  const auto count = in.number<uint32_t>();
  for (uint32_t i = 0; i < count && i < kMostAddresses; ++i) {
    card.addresses.emplace_back(in.text());
  }
  in.number<uint64_t>();
  const bool is_sound = in.is_complete() && card.world >= 1 && card.world <= kMostRanks &&
                        card.first_rank >= 0 && card.local_ranks >= 1 &&
                        card.local_ranks <= card.world &&
                        card.first_rank <= card.world - card.local_ranks;
  if (!is_sound) throw refuse("the card contradicts itself");
  return card;
}

std::string rank_list(const std::vector<RankSpan>& spans) {
  JsonArray list;
  int64_t listed = 0;
  for (const RankSpan& span : spans) {
    for (int64_t i = 0; i < span.count && listed < kListed; ++i, ++listed) {
      list.add(std::to_string(span.first + i));
    }
  }
  return list.text();
}

Error missing_ranks(const std::string& sentence, const std::vector<RankSpan>& spans) {
  int64_t count = 0;
  for (const RankSpan& span : spans) count += span.count;
  const int64_t first = spans.empty() ? -1 : spans[0].first;
  return Error("missing_ranks", sentence)
      .with_raw("missing", rank_list(spans))
      .with("count", count)
      .rank(static_cast<int32_t>(first))
      .subsystem("engine/comm");
}

CardSet::CardSet(const Card& own) : own_nonce_(own.nonce), cards_{own} {}

std::optional<Error> CardSet::objection(const Card& card) const {
  const Card& ours = own();
  if (card.version != ours.version) {
    const auto row = [](const Card& one) {
      return JsonObject().field("rank", one.first_rank).field("version", one.version).text();
    };
    return Error("version_mismatch", "processes run different versions of the library")
        .with_raw("versions", JsonArray().add(row(ours)).add(row(card)).text())
        .rank(static_cast<int32_t>(card.first_rank))
        .subsystem("engine/comm");
  }
  if (card.world != ours.world) {
    return clash("processes differ in the size of the world", ours, card, card.first_rank);
  }
  for (const Card& known : cards_) {
    if (known.nonce == card.nonce) continue;
    const int64_t first = std::max(known.first_rank, card.first_rank);
    if (first < std::min(known.end_rank(), card.end_rank())) {
      return clash("two processes drive the same rank", known, card, first);
    }
  }
  return std::nullopt;
}

void CardSet::add(const Card& card) {
  if (const std::optional<Error> error = objection(card)) throw *error;
  const auto known = find(card.nonce);
  if (!known) {
    const auto place = std::find_if(cards_.begin(), cards_.end(), [&](const Card& other) {
      return other.first_rank > card.first_rank;
    });
    cards_.insert(place, card);
    return;
  }
  std::vector<std::string>& addresses = cards_[*known].addresses;
  for (const std::string& address : card.addresses) {
    const bool is_known = std::find(addresses.begin(), addresses.end(), address) != addresses.end();
    if (!is_known && addresses.size() < kMostAddresses) addresses.push_back(address);
  }
}

void CardSet::remove(uint64_t nonce) {
  std::erase_if(cards_,
                [&](const Card& card) { return card.nonce == nonce && card.nonce != own_nonce_; });
}

size_t CardSet::own_index() const { return *find(own_nonce_); }

std::optional<size_t> CardSet::find(uint64_t nonce) const {
  for (size_t i = 0; i < cards_.size(); ++i) {
    if (cards_[i].nonce == nonce) return i;
  }
  return std::nullopt;
}

std::vector<RankSpan> CardSet::missing() const {
  std::vector<RankSpan> spans;
  int64_t next = 0;
  for (const Card& card : cards_) {
    if (card.first_rank > next) spans.push_back({next, card.first_rank - next});
    next = card.end_rank();
  }
  const int64_t world = cards_[0].world;
  if (next < world) spans.push_back({next, world - next});
  return spans;
}

}  // namespace plait

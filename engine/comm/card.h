// Cards: what a process tells the others about itself, and the set of them that makes a world.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/base/error.h"

namespace plait {

struct Card {
  static constexpr size_t kMaxBytes = 4096;
  int64_t version = 0;  ///< of the library
  int64_t world = 1;
  int64_t first_rank = 0;
  int64_t local_ranks = 1;
  int64_t pid = 0;
  uint64_t nonce = 0;                  ///< of this try to make a world
  std::string host;                    ///< processes of one machine share it
  std::vector<std::string> addresses;  ///< of the listener, the best first

  bool operator==(const Card&) const = default;
  int64_t end_rank() const { return first_rank + local_ranks; }
};

std::string encode_card(const Card& card);
/// Throws `argument` on bytes that are no card.
Card decode_card(std::string_view bytes);

/// Ranks [first, first + count).
struct RankSpan {
  int64_t first = 0;
  int64_t count = 0;
};

/// "[0,1,5]": at most 64 of them, as JSON.
std::string rank_list(const std::vector<RankSpan>& spans);
/// `missing_ranks` with the list.
Error missing_ranks(const std::string& sentence, const std::vector<RankSpan>& spans);

/// The cards of one world, by ascending first rank; the own one is in it.
class CardSet {
 public:
  explicit CardSet(const Card& own);

  /// Why `card` does not belong to this world, if so: `version_mismatch`, or `topology` with both
  /// that clash.
  std::optional<Error> objection(const Card& card) const;
  /// Adds it, or adds its addresses where the card is known. Throws the objection.
  void add(const Card& card);
  /// Takes out the card with this nonce.
  void remove(uint64_t nonce);

  const std::vector<Card>& cards() const { return cards_; }
  const Card& own() const { return cards_[own_index()]; }
  size_t own_index() const;
  /// Index of the card with this nonce.
  std::optional<size_t> find(uint64_t nonce) const;
  std::vector<RankSpan> missing() const;
  bool is_complete() const { return missing().empty(); }

 private:
  uint64_t own_nonce_;
  std::vector<Card> cards_;
};

}  // namespace plait

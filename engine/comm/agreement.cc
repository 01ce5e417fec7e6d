#include "engine/comm/agreement.h"

namespace plait {

Agreement::Agreement(const ControlOptions& options, Outbox& outbox)
    : options_(options),
      outbox_(outbox),
      is_out_(options.peers.size()),
      has_left_(options.peers.size()),
      told_(options.peers.size()) {}

void Agreement::begin(const Error& error, std::optional<size_t> lost, int64_t now_ns) {
  if (is_active_) {
    if (lost) this->lost(*lost, now_ns);
    return;
  }
  is_active_ = true;
  best_ = error;
  if (lost) is_out_[*lost] = true;
  tell(now_ns);
}

void Agreement::resign(const Error& own, const Error& told) {
  if (is_final_) return;
  is_active_ = true;
  is_out_[options_.own] = true;
  best_ = told;
  tell(0);
  is_final_ = true;
  best_ = own;
}

void Agreement::heard(size_t from, const Announcement& announcement, int64_t now_ns) {
  if (is_final_) return;
  const std::vector<bool> out = out_of(announcement);
  const bool is_better = !is_active_ || is_preferred(announcement.error, *best_);
  if (is_out_[from] && !(out[options_.own] && is_better)) return;
  if (out[options_.own]) {
    is_out_[options_.own] = true;
    return finish(fenced(announcement));
  }
  bool is_changed = !is_active_;
  is_active_ = true;
  if (is_better) {
    best_ = announcement.error;
    is_changed = true;
  }
  for (size_t peer = 0; peer < out.size(); ++peer) {
    if (out[peer]) put_out(peer, &is_changed);
  }
  told_[from] = {announcement.error, out};
  if (announcement.is_final) {
    best_ = announcement.error;
    is_out_ = out;
    return finish(announcement.error);
  }
  if (is_changed) tell(now_ns);
}

void Agreement::lost(size_t peer, int64_t now_ns) {
  if (!is_active_ || is_final_ || has_left_[peer]) return;
  bool is_changed = false;
  put_out(peer, &is_changed);
  if (is_changed) tell(now_ns);
}

void Agreement::left(size_t peer) { has_left_[peer] = true; }

void Agreement::time(int64_t now_ns) {
  check_final();
  if (!is_active_ || is_final_ || now_ns - changed_ns_ < options_.settle_ns) return;
  bool is_changed = false;
  for (size_t peer = 0; peer < is_out_.size(); ++peer) {
    if (!agrees(peer)) put_out(peer, &is_changed);
  }
  if (is_changed) tell(now_ns);
  check_final();
}

std::vector<bool> Agreement::out_of(const Announcement& announcement) const {
  std::vector<bool> out(options_.peers.size());
  for (size_t peer = 0; peer < out.size(); ++peer) {
    for (const int64_t rank : announcement.excluded) {
      if (rank == options_.peers[peer].first_rank) out[peer] = true;
    }
  }
  return out;
}

void Agreement::put_out(size_t peer, bool* is_changed) {
  if (is_out_[peer]) return;
  is_out_[peer] = true;
  *is_changed = true;
}

void Agreement::tell(int64_t now_ns) {
  changed_ns_ = now_ns;
  Announcement announcement{*best_, {}, is_final_};
  for (size_t peer = 0; peer < is_out_.size(); ++peer) {
    if (is_out_[peer]) announcement.excluded.push_back(options_.peers[peer].first_rank);
  }
  const std::string body = encode_announcement(announcement);
  for (size_t peer = 0; peer < is_out_.size(); ++peer) {
    // Those who are out hear it too: it is how they learn.
    if (peer != options_.own) outbox_.send(peer, FrameKind::kAnnounce, body);
  }
}

bool Agreement::agrees(size_t peer) const {
  if (peer == options_.own || is_out_[peer] || has_left_[peer]) return true;
  const Told& told = told_[peer];
  return told.error && told.out == is_out_ && !is_preferred(*told.error, *best_) &&
         !is_preferred(*best_, *told.error);
}

void Agreement::check_final() {
  if (!is_active_ || is_final_) return;
  for (size_t peer = 0; peer < is_out_.size(); ++peer) {
    if (!agrees(peer)) return;
  }
  finish(*best_);
}

void Agreement::finish(const Error& error) {
  is_active_ = true;
  is_final_ = true;
  best_ = error;
  if (!is_out_[options_.own]) tell(changed_ns_);
}

Error Agreement::fenced(const Announcement& announcement) const {
  // A damaged frame is known at both ends by its own name.
  if (announcement.error.word() == "corrupt") return announcement.error;
  const ControlPeer& own = options_.peers[options_.own];
  return Error("fenced", "the other processes went on without this one")
      .with("rank", own.first_rank)
      .with("ranks", own.local_ranks)
      .with("cause", announcement.error.word())
      .with("origin", announcement.error.rank())
      .rank(static_cast<int32_t>(own.first_rank))
      .subsystem("engine/comm");
}

}  // namespace plait

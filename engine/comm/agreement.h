// How all processes that are left end with one error, as a state machine.
//
// Each has a best error and a set of processes that are out. It begins with an error of its own or
// with the first that it hears of; it takes over what is preferred (is_preferred) and joins the
// sets; whenever either changes it tells all. It is final once every process that is neither out
// nor gone has last told exactly the same. Since nobody begins with an error of its own after it
// has told one, and since a process is put out only after everything that it said was heard, no
// better error can come afterwards: those who become final hold the same one, even when further
// processes die meanwhile. Who says nothing for the settle time is put out.
//
// Who hears that it is out itself ends with `fenced`: the others go on without it. Between two that
// put each other out, the preferred error decides; so a connection that breaks between two live
// processes costs one of them, and a third one's word costs one at most of each pair. Nothing can
// be agreed across a network that is in two parts: each part then ends with its own error.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "engine/comm/announcement.h"
#include "engine/comm/control_types.h"

namespace plait {

class Agreement {
 public:
  Agreement(const ControlOptions& options, Outbox& outbox);

  /// An error of this process, or its word about `lost`. Ignored once agreement has begun, but for
  /// the loss.
  void begin(const Error& error, std::optional<size_t> lost, int64_t now_ns);
  /// This process ends alone with `own`; the others hear `told`.
  void resign(const Error& own, const Error& told);
  void heard(size_t from, const Announcement& announcement, int64_t now_ns);
  /// Closed its connection.
  void lost(size_t peer, int64_t now_ns);
  /// Left in order: nobody waits for it.
  void left(size_t peer);
  /// After all that has come was heard, and soon after: only here does it become final by itself,
  /// so that a process that was stopped first hears what the others made of it.
  void time(int64_t now_ns);
  /// This process did not run for so long.
  void shift(int64_t gap_ns) { changed_ns_ += gap_ns; }

  bool is_active() const { return is_active_; }
  bool is_final() const { return is_final_; }
  bool is_out(size_t peer) const { return is_out_[peer]; }
  const Error& error() const { return *best_; }

 private:
  struct Told {
    std::optional<Error> error;
    std::vector<bool> out;
  };
  std::vector<bool> out_of(const Announcement& announcement) const;
  void put_out(size_t peer, bool* is_changed);
  void tell(int64_t now_ns);
  bool agrees(size_t peer) const;
  void check_final();
  void finish(const Error& error);
  Error fenced(const Announcement& announcement) const;

  const ControlOptions& options_;
  Outbox& outbox_;
  bool is_active_ = false, is_final_ = false;
  std::optional<Error> best_;
  std::vector<bool> is_out_, has_left_;
  std::vector<Told> told_;  // by the others
  int64_t changed_ns_ = 0;
};

}  // namespace plait

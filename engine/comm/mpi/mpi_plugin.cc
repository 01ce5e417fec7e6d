#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include "engine/comm/mpi/mpi_plugin.h"

#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <thread>
#include <vector>

namespace {

constexpr int kTag = 0x506c;
constexpr int kGroupTag = 0x506d;
constexpr int64_t kChunk = 128 << 10;
constexpr int kSendSlots = 4, kReceiveSlots = 2;
constexpr std::chrono::milliseconds kCloseLimit{500};

/// Around every call of MPI: implementations differ in what they stand from several threads.
std::mutex mpi_mutex;
bool has_initialised = false;  // we, not the host
bool may_finalise = true;

int fail(PlaitMpiFailure* failure, const char* word, const char* text) {
  std::snprintf(failure->word, sizeof failure->word, "%s", word);
  std::snprintf(failure->text, sizeof failure->text, "%s", text);
  return -1;
}

int fail_with_code(PlaitMpiFailure* failure, const char* call, int code) {
  char reason[MPI_MAX_ERROR_STRING] = "";
  int length = 0;
  MPI_Error_string(code, reason, &length);
  char text[sizeof failure->text];
  std::snprintf(text, sizeof text, "%s failed: %.180s", call, reason);
  return fail(failure, "io_error", text);
}

/// MPI has to be finalised by who initialised it, or its launcher takes the end of the process for
/// a failure.
struct Finaliser {
  ~Finaliser() {
    int is_finalised = 1;
    if (!has_initialised || !may_finalise) return;
    if (MPI_Finalized(&is_finalised) == MPI_SUCCESS && is_finalised == 0) MPI_Finalize();
  }
};
Finaliser finaliser;

int start(PlaitMpiPlace* place, PlaitMpiFailure* failure) {
  const std::lock_guard lock(mpi_mutex);
  int is_initialised = 0, is_finalised = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&is_initialised);
  MPI_Finalized(&is_finalised);
  if (is_finalised != 0) return fail(failure, "closed", "the host has finalised MPI");
  if (is_initialised == 0) {
    const int code = MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    if (code != MPI_SUCCESS) return fail(failure, "io_error", "MPI_Init_thread failed");
    has_initialised = true;
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  } else {
    MPI_Query_thread(&level);
  }
  // Alone, we call it from one thread at a time; beside the host's own calls that is not enough.
  if (level < (has_initialised ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE)) {
    return fail(failure, "mismatch", "MPI was initialised without enough support for threads");
  }
  MPI_Comm_rank(MPI_COMM_WORLD, &place->rank);
  MPI_Comm_size(MPI_COMM_WORLD, &place->size);
  return 0;
}

struct Slot {
  std::unique_ptr<char[]> data = std::make_unique<char[]>(kChunk);
  MPI_Request request = MPI_REQUEST_NULL;
  int64_t begin = 0, end = 0;  // of what was received and not read
};

class MpiStreams {
 public:
  MpiStreams(MPI_Comm group, int32_t count, int32_t own) : group_(group) {
    for (int32_t rank = 0; rank < count; ++rank) {
      if (rank != own) peers_.push_back(std::make_unique<Peer>(rank));
    }
  }

  int post_receives() {
    for (std::unique_ptr<Peer>& peer : peers_) {
      for (Slot& slot : peer->in) {
        const int code = receive_into(*peer, slot);
        if (code != MPI_SUCCESS) return code;
      }
    }
    return MPI_SUCCESS;
  }

  int64_t write(int32_t number, const void* data, int64_t bytes) {
    Peer& peer = *peers_[static_cast<size_t>(number)];
    int64_t done = 0;
    while (done < bytes) {
      Slot& slot = peer.out[peer.next_out % kSendSlots];
      if (!is_over(slot)) break;
      const int64_t step = std::min(bytes - done, kChunk);
      std::memcpy(slot.data.get(), static_cast<const char*>(data) + done,
                  static_cast<size_t>(step));
      if (MPI_Isend(slot.data.get(), static_cast<int>(step), MPI_BYTE, peer.rank, kTag, group_,
                    &slot.request) != MPI_SUCCESS) {
        return -1;
      }
      done += step;
      ++peer.next_out;
    }
    return has_failed_ ? -1 : done;
  }

  int64_t read(int32_t number, void* data, int64_t bytes) {
    Peer& peer = *peers_[static_cast<size_t>(number)];
    int64_t done = 0;
    while (done < bytes) {
      Slot& slot = peer.in[peer.next_in % kReceiveSlots];
      if (!is_filled(slot)) break;
      const int64_t step = std::min(bytes - done, slot.end - slot.begin);
      std::memcpy(static_cast<char*>(data) + done, slot.data.get() + slot.begin,
                  static_cast<size_t>(step));
      done += step;
      slot.begin += step;
      if (slot.begin < slot.end) break;
      if (receive_into(peer, slot) != MPI_SUCCESS) return -1;
      ++peer.next_in;
    }
    return has_failed_ && done == 0 ? -1 : done;
  }

  void poll(uint8_t* ready) {
    for (size_t i = 0; i < peers_.size(); ++i) {
      Peer& peer = *peers_[i];
      const bool is_readable = is_filled(peer.in[peer.next_in % kReceiveSlots]) || has_failed_;
      const bool is_writable = is_over(peer.out[peer.next_out % kSendSlots]);
      ready[i] = static_cast<uint8_t>((is_readable ? 1 : 0) | (is_writable ? 2 : 0));
    }
  }

  /// True when all that MPI knew of our memory is over.
  bool close(bool is_clean) {
    for (std::unique_ptr<Peer>& peer : peers_) {
      for (Slot& slot : peer->in) {
        if (slot.request != MPI_REQUEST_NULL) MPI_Cancel(&slot.request);
      }
    }
    const auto limit = std::chrono::steady_clock::now() + kCloseLimit;
    while (!is_all_over()) {
      if (!is_clean || std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::yield();
    }
    if (is_clean) MPI_Comm_free(&group_);
    return true;
  }

 private:
  struct Peer {
    explicit Peer(int its_rank) : rank(its_rank) {}
    const int rank;  // in the group
    Slot in[kReceiveSlots], out[kSendSlots];
    uint64_t next_in = 0, next_out = 0;
  };

  // Messages of one sender arrive in the order of the receives that wait for them.
  int receive_into(const Peer& peer, Slot& slot) {
    slot.begin = slot.end = 0;
    return MPI_Irecv(slot.data.get(), static_cast<int>(kChunk), MPI_BYTE, peer.rank, kTag, group_,
                     &slot.request);
  }

  bool is_filled(Slot& slot) {
    if (slot.begin < slot.end) return true;
    if (slot.request == MPI_REQUEST_NULL) return false;
    int is_done = 0, count = 0;
    MPI_Status status;
    if (MPI_Test(&slot.request, &is_done, &status) != MPI_SUCCESS) has_failed_ = true;
    if (is_done == 0 || has_failed_) return false;
    MPI_Get_count(&status, MPI_BYTE, &count);
    slot.end = count;
    return count > 0;
  }

  bool is_over(Slot& slot) {
    int is_done = 1;
    if (slot.request == MPI_REQUEST_NULL) return true;
    if (MPI_Test(&slot.request, &is_done, MPI_STATUS_IGNORE) != MPI_SUCCESS) has_failed_ = true;
    return is_done != 0;
  }

  bool is_all_over() {
    bool is_over_all = true;
    for (std::unique_ptr<Peer>& peer : peers_) {
      for (Slot& slot : peer->in) is_over_all = is_over(slot) && is_over_all;
      for (Slot& slot : peer->out) is_over_all = is_over(slot) && is_over_all;
    }
    return is_over_all;
  }

  MPI_Comm group_;
  std::vector<std::unique_ptr<Peer>> peers_;
  bool has_failed_ = false;
};

void* open_streams(const int32_t* ranks, int32_t count, int32_t own, PlaitMpiFailure* failure) {
  const std::lock_guard lock(mpi_mutex);
  MPI_Group all = MPI_GROUP_NULL, ours = MPI_GROUP_NULL;
  MPI_Comm group = MPI_COMM_NULL;
  MPI_Comm_group(MPI_COMM_WORLD, &all);
  int code = MPI_Group_incl(all, count, ranks, &ours);
  if (code == MPI_SUCCESS) code = MPI_Comm_create_group(MPI_COMM_WORLD, ours, kGroupTag, &group);
  if (ours != MPI_GROUP_NULL) MPI_Group_free(&ours);
  MPI_Group_free(&all);
  if (code != MPI_SUCCESS) return fail_with_code(failure, "MPI_Comm_create_group", code), nullptr;
  MPI_Comm_set_errhandler(group, MPI_ERRORS_RETURN);
  try {
    auto streams = std::make_unique<MpiStreams>(group, count, own);
    code = streams->post_receives();
    if (code == MPI_SUCCESS) return streams.release();
    if (!streams->close(false)) streams.release();  // MPI still knows its memory
    fail_with_code(failure, "MPI_Irecv", code);
  } catch (const std::bad_alloc&) {
    fail(failure, "no_memory", "no memory for the buffers of MPI messages");
  }
  return nullptr;
}

int64_t write(void* streams, int32_t peer, const void* data, int64_t bytes) {
  const std::lock_guard lock(mpi_mutex);
  return static_cast<MpiStreams*>(streams)->write(peer, data, bytes);
}

int64_t read(void* streams, int32_t peer, void* data, int64_t bytes) {
  const std::lock_guard lock(mpi_mutex);
  return static_cast<MpiStreams*>(streams)->read(peer, data, bytes);
}

void poll(void* streams, uint8_t* ready) {
  const std::lock_guard lock(mpi_mutex);
  static_cast<MpiStreams*>(streams)->poll(ready);
}

void close_streams(void* streams, int32_t is_clean) {
  const std::lock_guard lock(mpi_mutex);
  auto* closing = static_cast<MpiStreams*>(streams);
  const bool is_over = closing->close(is_clean != 0);
  if (is_over) delete closing;
  // What is not over belongs to MPI until the process ends, and would keep MPI_Finalize waiting.
  if (!is_over || is_clean == 0) may_finalise = false;
}

const PlaitMpiPlugin plugin = {PLAIT_BUILD_ID, start, open_streams, write,
                               read,           poll,  close_streams};

}  // namespace

extern "C" __attribute__((visibility("default"))) const PlaitMpiPlugin* plait_mpi_plugin();
const PlaitMpiPlugin* plait_mpi_plugin() { return &plugin; }

// The last operations of one rank, for the report "operations" and the trace: what it ran or waited
// for, and whether that ended. One thread writes, any thread reads.
#pragma once

#include <cstdint>
#include <mutex>
#include <vector>

namespace plait {

struct OperationRecord {
  static constexpr size_t kNameBytes = 48;
  char name[kNameBytes] = {};  ///< "forward 0 1", "tensor all_reduce"
  uint64_t number = 0;         ///< in the ring, from 0
  uint64_t sequence = 0;       ///< in its communicator; 0 for instructions
  int64_t bytes = 0;
  int64_t begin_ns = 0, end_ns = 0;
  bool is_communication = false;
  bool is_complete = false;  ///< false: still running, or ended by an error
};

class OperationRing {
 public:
  static constexpr size_t kEntries = 1024;
  OperationRing() : entries_(kEntries) {}

  /// Returns the number to end it with. Names beyond the limit are cut.
  uint64_t begin(const char* name, uint64_t sequence, int64_t bytes, bool is_communication,
                 int64_t begin_ns);
  void end(uint64_t number, int64_t end_ns);
  /// Oldest first. Any thread.
  std::vector<OperationRecord> recent() const;

  /// Makes room for `capacity` more records of communication, whatever the ring holds; records that
  /// were kept so are dropped. 0 gives the room back.
  void trace(int64_t capacity);
  /// Whether communication that ends from now on is kept there.
  void set_tracing(bool is_tracing);
  /// What was kept, in the order of its ends. Read it while the rank is out of its calls.
  const std::vector<OperationRecord>& traced() const { return traced_; }
  /// Records for which there was no room.
  int64_t untraced() const { return untraced_; }

 private:
  mutable std::mutex mutex_;  // guards all
  std::vector<OperationRecord> entries_, traced_;
  uint64_t count_ = 0;
  size_t trace_capacity_ = 0;
  int64_t untraced_ = 0;
  bool is_tracing_ = false;
};

}  // namespace plait

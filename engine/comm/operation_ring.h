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

 private:
  mutable std::mutex mutex_;  // guards both
  std::vector<OperationRecord> entries_;
  uint64_t count_ = 0;
};

}  // namespace plait

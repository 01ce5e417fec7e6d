#include "engine/comm/operation_ring.h"

#include <algorithm>
#include <cstring>

namespace plait {

uint64_t OperationRing::begin(const char* name, uint64_t sequence, int64_t bytes,
                              bool is_communication, int64_t begin_ns) {
  const std::lock_guard lock(mutex_);
  const uint64_t number = count_++;
  OperationRecord& record = entries_[number % kEntries];
  record = {};
  std::memcpy(record.name, name, ::strnlen(name, OperationRecord::kNameBytes - 1));
  record.number = number;
  record.sequence = sequence;
  record.bytes = bytes;
  record.begin_ns = begin_ns;
  record.is_communication = is_communication;
  return number;
}

void OperationRing::end(uint64_t number, int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  OperationRecord& record = entries_[number % kEntries];
  if (record.number != number || number >= count_) return;  // overwritten since
  record.end_ns = end_ns;
  record.is_complete = true;
  if (!is_tracing_ || !record.is_communication) return;
  if (traced_.size() < trace_capacity_) {
    traced_.push_back(record);
  } else {
    ++untraced_;
  }
}

void OperationRing::trace(int64_t capacity) {
  std::vector<OperationRecord> room;
  room.reserve(static_cast<size_t>(capacity));
  const std::lock_guard lock(mutex_);
  traced_.swap(room);
  trace_capacity_ = static_cast<size_t>(capacity);
  untraced_ = 0;
}

void OperationRing::set_tracing(bool is_tracing) {
  const std::lock_guard lock(mutex_);
  is_tracing_ = is_tracing;
}

std::vector<OperationRecord> OperationRing::recent() const {
  std::vector<OperationRecord> records;
  records.reserve(kEntries);
  const std::lock_guard lock(mutex_);
  const uint64_t kept = std::min<uint64_t>(count_, kEntries);
  for (uint64_t number = count_ - kept; number < count_; ++number) {
    records.push_back(entries_[number % kEntries]);
  }
  return records;
}

}  // namespace plait

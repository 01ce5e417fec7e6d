// Device memory on the host: everything is allocated when an engine is created, counted by
// category.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "kernels/base/tensor.h"

namespace plait {

enum class MemoryCategory : int32_t {
  kWeights,
  kGradients,
  kOptimizer,
  kActivations,
  kCommunication,
  kWorkspace,
};
inline constexpr int kMemoryCategories = 6;
const char* memory_category_name(MemoryCategory category);

/// Bytes in use by category, and the most that were in use at once. One rank's thread writes;
/// reports read after it.
class MemoryLedger {
 public:
  void add(MemoryCategory category, int64_t bytes);
  int64_t bytes(MemoryCategory category) const { return bytes_[static_cast<size_t>(category)]; }
  int64_t total() const { return total_; }
  int64_t peak() const { return peak_; }

 private:
  std::array<int64_t, kMemoryCategories> bytes_{};
  int64_t total_ = 0;
  int64_t peak_ = 0;
};

/// Zeroed memory, aligned to 64 bytes (2 MiB with huge pages asked for when large). Owned.
class Buffer {
 public:
  Buffer() = default;
  /// Throws `no_memory` with `need` when the system has none. `ledger` outlives the buffer.
  Buffer(int64_t bytes, MemoryCategory category, MemoryLedger* ledger);
  ~Buffer();
  Buffer(Buffer&& other) noexcept;
  Buffer& operator=(Buffer&& other) noexcept;

  char* data() const { return data_; }
  int64_t bytes() const { return bytes_; }
  TensorView view(DType dtype, const Shape& shape, int64_t byte_offset = 0) const;

 private:
  void release();
  char* data_ = nullptr;
  int64_t bytes_ = 0;
  int64_t mapped_ = 0;
  MemoryCategory category_ = MemoryCategory::kWorkspace;
  MemoryLedger* ledger_ = nullptr;
};

/// Scratch memory of one rank, taken and given back like a stack. It starts in measuring mode, in
/// which it hands out addresses that must not be touched and notes the most that was in use;
/// `allocate` then makes that much real. A request beyond it is INTERNAL/invariant with both sizes.
class Workspace {
 public:
  static constexpr int64_t kAlignment = 64;

  /// Gives back all that was taken since its construction.
  class Frame {
   public:
    explicit Frame(Workspace& workspace) : workspace_(workspace), mark_(workspace.used_) {}
    ~Frame() { workspace_.used_ = mark_; }
    Frame(const Frame&) = delete;
    Frame& operator=(const Frame&) = delete;

    void* take(int64_t bytes) { return workspace_.take(bytes); }
    template <class T>
    T* take(int64_t count) {
      return static_cast<T*>(workspace_.take(count * static_cast<int64_t>(sizeof(T))));
    }
    TensorView tensor(DType dtype, const Shape& shape) {
      return {workspace_.take(shape.elements() * dtype_size(dtype)), dtype, shape};
    }

   private:
    Workspace& workspace_;
    int64_t mark_;
  };

  bool is_measuring() const { return buffer_.data() == nullptr; }
  int64_t needed() const { return peak_; }
  /// Ends measuring mode with `needed()` bytes.
  void allocate(MemoryLedger* ledger);

 private:
  void* take(int64_t bytes);
  Buffer buffer_;
  int64_t used_ = 0;
  int64_t peak_ = 0;
};

}  // namespace plait

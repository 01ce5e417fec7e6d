// Per target: asking for memory ahead of its use. A head's rows lie far apart, one page each, so
// the processor does not guess them; they are asked for a few lines at a time between products.
// Included once for each Highway target.
#if defined(PLAIT_KERNELS_CPU_ATTENTION_FETCH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef PLAIT_KERNELS_CPU_ATTENTION_FETCH_INL_H_
#undef PLAIT_KERNELS_CPU_ATTENTION_FETCH_INL_H_
#else
#define PLAIT_KERNELS_CPU_ATTENTION_FETCH_INL_H_
#endif

#include "kernels/cpu/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace plait {
namespace HWY_NAMESPACE {
namespace {

/// Rows of one head, line by line, into the second-level cache.
class FetchList {
 public:
  /// Rows [first, first + rows) of `from`, to be read or written.
  void add(const Stored& from, int64_t first, int64_t rows, bool is_written) {
    if (rows <= 0 || count_ == kMost) return;
    const int64_t size = dtype_size(from.dtype);
    items_[count_++] = {from.data + first * from.stride * size, from.stride * size,
                        (from.columns * size + 63) / 64, rows, is_written};
  }
  void clear() { *this = FetchList(); }

  /// Asks for up to `lines` lines; returns how many are left of them.
  HWY_INLINE int64_t step(int64_t lines) {
    while (lines > 0 && at_ < count_) {
      Item& item = items_[at_];
      const char* row = item.data;
      if (item.is_written) {
        for (int64_t line = 0; line < item.lines; ++line) __builtin_prefetch(row + line * 64, 1, 2);
      } else {
        for (int64_t line = 0; line < item.lines; ++line) __builtin_prefetch(row + line * 64, 0, 2);
      }
      lines -= item.lines;
      item.data += item.stride;
      if (--item.rows == 0) ++at_;
    }
    return lines;
  }

 private:
  static constexpr int kMost = 6;
  struct Item {
    const char* data;
    int64_t stride;  ///< bytes
    int64_t lines;   ///< of a row
    int64_t rows;    ///< left
    bool is_written;
  };
  Item items_[kMost];
  int count_ = 0;
  int at_ = 0;
};

/// What a unit will want: first what belongs to its block and the next one, then the next unit's.
struct Fetcher {
  static constexpr int64_t kLines = 8;  ///< asked for with one product
  FetchList block;
  FetchList unit;

  HWY_INLINE void step() {
    const int64_t left = block.step(kLines);
    if (left > 0) unit.step(left);
  }
};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace plait
HWY_AFTER_NAMESPACE();

#endif  // PLAIT_KERNELS_CPU_ATTENTION_FETCH_INL_H_

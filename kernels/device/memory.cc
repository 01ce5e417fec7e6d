#include "kernels/device/memory.h"

#include <sys/mman.h>

#include <utility>

#include "kernels/base/error.h"

namespace plait {
namespace {

constexpr int64_t kPage = 4096, kHugePage = int64_t{2} << 20;

int64_t round_up(int64_t bytes, int64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

const char* memory_category_name(MemoryCategory category) {
  static constexpr const char* kNames[kMemoryCategories] = {
      "weights", "gradients", "optimizer", "activations", "communication", "workspace"};
  return kNames[static_cast<size_t>(category)];
}

void MemoryLedger::add(MemoryCategory category, int64_t bytes) {
  bytes_[static_cast<size_t>(category)] += bytes;
  total_ += bytes;
  if (total_ > peak_) peak_ = total_;
}

Buffer::Buffer(int64_t bytes, MemoryCategory category, MemoryLedger* ledger)
    : bytes_(bytes), category_(category), ledger_(ledger) {
  const bool is_huge = bytes >= kHugePage;
  mapped_ = round_up(bytes < 1 ? 1 : bytes, kPage) + (is_huge ? kHugePage : 0);
  void* base = ::mmap(nullptr, static_cast<size_t>(mapped_), PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) {
    mapped_ = 0;
    throw Error("no_memory", "the system has no memory left")
        .with("need", bytes)
        .with("category", memory_category_name(category));
  }
  data_ = static_cast<char*>(base);
  if (is_huge) {  // keep only the part that starts on a huge page
    const auto address = reinterpret_cast<intptr_t>(base);
    const int64_t head = round_up(address, kHugePage) - address;
    if (head > 0) ::munmap(base, static_cast<size_t>(head));
    data_ += head;
    mapped_ -= head;
    ::madvise(data_, static_cast<size_t>(mapped_), MADV_HUGEPAGE);
  }
  if (ledger_ != nullptr) ledger_->add(category_, bytes_);
}

Buffer::~Buffer() { release(); }

Buffer::Buffer(Buffer&& other) noexcept { *this = std::move(other); }

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  if (this == &other) return *this;
  release();
  data_ = std::exchange(other.data_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  mapped_ = std::exchange(other.mapped_, 0);
  category_ = other.category_;
  ledger_ = std::exchange(other.ledger_, nullptr);
  return *this;
}

void Buffer::release() {
  if (data_ == nullptr) return;
  ::munmap(data_, static_cast<size_t>(mapped_));
  if (ledger_ != nullptr) ledger_->add(category_, -bytes_);
  data_ = nullptr;
}

TensorView Buffer::view(DType dtype, const Shape& shape, int64_t byte_offset) const {
  TensorView view{data_ + byte_offset, dtype, shape};
  check(byte_offset + view.bytes() <= bytes_, "a view lies inside its buffer");
  return view;
}

void Workspace::allocate(MemoryLedger* ledger) {
  check(used_ == 0, "the workspace is allocated between steps");
  buffer_ = Buffer(peak_ < kAlignment ? kAlignment : peak_, MemoryCategory::kWorkspace, ledger);
}

void* Workspace::take(int64_t bytes) {
  const int64_t first = used_;
  used_ += round_up(bytes, kAlignment);
  if (is_measuring()) {
    if (used_ > peak_) peak_ = used_;
    return reinterpret_cast<void*>(kAlignment + first);
  }
  if (used_ > buffer_.bytes()) {
    used_ = first;
    throw Error("invariant", "the workspace is smaller than a step needs")
        .with("need", first + bytes)
        .with("have", buffer_.bytes());
  }
  return buffer_.data() + first;
}

}  // namespace plait

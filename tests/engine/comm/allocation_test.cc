// Collectives and messages allocate nothing once every size has been seen: every operator new of
// the program is counted.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <new>

#include "tests/engine/comm/ordered_values.h"

namespace {

std::atomic<bool> is_counting{false};
std::atomic<int64_t> allocations{0};

void* counted(size_t bytes) {
  if (is_counting.load(std::memory_order_relaxed)) allocations.fetch_add(1);
  if (void* memory = std::malloc(bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes); }
void* operator new[](size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }

using namespace plait;
using namespace plait::test;

TEST_CASE("calls allocate nothing after the first", "[comm]") {
  constexpr int64_t kWorld = 4;
  const std::unique_ptr<Fabric> fabric = thread_fabric(kWorld);
  std::vector<int64_t> mailboxes(2);
  run_world(*fabric, [&](Communicator& group) {
    std::vector<float> large(60000), small(20), part(15000);
    std::vector<BFloat16> half(30000);
    uint8_t bytes[kWorld];
    const auto round = [&] {
      group.all_reduce(view_of(large));
      group.all_reduce(view_of(small));
      group.all_reduce(view_of(half));
      group.all_reduce_max(view_of(small));
      group.start_reduce_scatter(view_of(large), view_of(part));
      group.finish();
      group.all_gather(view_of(part), view_of(large));
      group.all_gather_bytes(&bytes[group.index()], 1, bytes);
      group.broadcast(view_of(large), 2);
      const int64_t next = (group.index() + 1) % kWorld, last = (group.index() + 3) % kWorld;
      group.send(next, Lane::kForward, {0, 0}, view_of(part));
      group.receive(last, Lane::kForward, {0, 0}, view_of(large, 0, 15000));
      group.wait_sent(next, Lane::kForward);
      group.barrier();
    };
    const auto count_mailboxes = [&] {
      int64_t sum = 0;
      for (int64_t rank = 0; rank < kWorld; ++rank) sum += fabric->endpoint(rank).mailbox_bytes();
      return sum;
    };
    round();
    if (group.index() == 0) mailboxes[0] = count_mailboxes();
    group.barrier();
    if (group.index() == 0) is_counting = true;
    group.barrier();
    for (int i = 0; i < 5; ++i) round();
    if (group.index() == 0) {
      is_counting = false;
      mailboxes[1] = count_mailboxes();
    }
    group.barrier();
  });
  CHECK(allocations.load() == 0);
  CHECK(mailboxes[0] == mailboxes[1]);
}

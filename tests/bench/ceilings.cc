#include "tests/bench/ceilings.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "kernels/device/memory.h"
#include "tests/bench/ceiling_loops.h"
#include "tests/bench/measure.h"

namespace plait::bench {
namespace {

constexpr int kChunks = 4;  // of each thread: whoever is ready first takes the next

Ceiling arithmetic(ThreadPool& pool, const ArithmeticLoop& loop) {
  if (loop.run == nullptr) return {};
  // Rounds for about 4 ms.
  int64_t rounds = 1000;
  for (;;) {
    const double begin = now();
    loop.run(rounds);
    const double seconds = now() - begin;
    if (seconds > 1e-3) {
      rounds = static_cast<int64_t>(static_cast<double>(rounds) * 4e-3 / seconds) + 1;
      break;
    }
    rounds *= 4;
  }
  std::atomic<float> sink{0};
  const int64_t chunks = int64_t{kChunks} * pool.threads();
  const Samples samples = measure({0.25, 7, 40, 1.0}, [&](int64_t) {
    pool.run(chunks, [&](int64_t, int) { sink.store(loop.run(rounds)); });
  });
  if (!(sink.load() > 0)) throw std::runtime_error("an arithmetic loop computed nothing");
  return {loop.flops * static_cast<double>(rounds * chunks) / samples.least(), samples.spread()};
}

/// Rates of the two in turns: whatever slows the machine meets both.
bool is_faster(const ArithmeticLoop& a, const ArithmeticLoop& b) {
  if (a.run == nullptr) return false;
  constexpr int64_t kRounds = 100000;
  double least_a = 1e9, least_b = 1e9;
  for (int turn = 0; turn < 9; ++turn) {
    const double begin = now();
    a.run(kRounds);
    const double middle = now();
    b.run(kRounds);
    least_a = std::min(least_a, middle - begin);
    least_b = std::min(least_b, now() - middle);
  }
  return a.flops / least_a > 1.1 * b.flops / least_b;
}

void check_stream(const float* to, int64_t count, float want) {
  for (int64_t i = 0; i < count; i += 4099) {
    if (to[i] != want) throw std::runtime_error("a memory loop left a wrong value");
  }
}

}  // namespace

double ProductCeilings::bf16() const {
  if (amx.rate > 0) return amx.rate;
  return is_dot_faster ? bf16_dot.rate : fma.rate;
}

const char* ProductCeilings::bf16_name() const {
  if (amx.rate > 0) return "amx";
  return is_dot_faster ? "dot" : "fma";
}

ProductCeilings product_ceilings(ThreadPool& pool) {
  const IsaLevel level = detected_isa().level;
  ProductCeilings out;
  out.fma = arithmetic(pool, fma_loop(level));
  out.bf16_dot = arithmetic(pool, bf16_dot_loop(level));
  out.amx = arithmetic(pool, amx_loop(level));
  out.is_dot_faster = is_faster(bf16_dot_loop(level), fma_loop(level));
  return out;
}

MemoryCeilings memory_ceilings(ThreadPool& pool) {
  MemoryCeilings out;
  out.array_bytes = int64_t{512} << 20;
  const int64_t count = out.array_bytes / 4;
  MemoryLedger ledger;
  const Buffer a(out.array_bytes, MemoryCategory::kWorkspace, &ledger);
  const Buffer b(out.array_bytes, MemoryCategory::kWorkspace, &ledger);
  const Buffer c(out.array_bytes, MemoryCategory::kWorkspace, &ledger);
  auto* const from = reinterpret_cast<float*>(a.data());
  auto* const other = reinterpret_cast<float*>(b.data());
  auto* const to = reinterpret_cast<float*>(c.data());
  constexpr int64_t kGrain = int64_t{1} << 18;
  pool.run_range(count, kGrain, [&](int64_t first, int64_t last, int) {
    for (int64_t i = first; i < last; ++i) {
      from[i] = 2.0f;
      other[i] = 5.0f;
      to[i] = 0.0f;
    }
  });
  const StreamLoops loops = stream_loops(detected_isa().level);
  const auto stream = [&](int arrays, float want, auto body) {
    const Samples samples = measure({0.3, 5, 20, 1.5}, [&](int64_t) {
      pool.run_range(count, kGrain,
                     [&](int64_t first, int64_t last, int) { body(first, last - first); });
    });
    check_stream(to, count, want);
    return Ceiling{static_cast<double>(arrays * out.array_bytes) / samples.least(),
                   samples.spread()};
  };
  out.copy = stream(2, 2.0f, [&](int64_t i, int64_t n) { loops.copy(from + i, to + i, n); });
  out.triad =
      stream(3, 17.0f, [&](int64_t i, int64_t n) { loops.triad(from + i, other + i, to + i, n); });
  out.copy_past_cache =
      stream(2, 2.0f, [&](int64_t i, int64_t n) { loops.copy_past_cache(from + i, to + i, n); });
  out.triad_past_cache = stream(3, 17.0f, [&](int64_t i, int64_t n) {
    loops.triad_past_cache(from + i, other + i, to + i, n);
  });
  return out;
}

std::string ceilings_json(int threads, const ProductCeilings& products,
                          const MemoryCeilings* memory) {
  const auto ceiling = [](const Ceiling& c) {
    return JsonObject().field("rate", c.rate).field("spread", c.spread).text();
  };
  JsonObject out;
  out.field("threads", threads)
      .field("isa", isa_name(detected_isa().level))
      .field("amx_state", detected_isa().amx)
      .field("fma_loop", fma_loop(detected_isa().level).name)
      .raw("fma", ceiling(products.fma))
      .raw("bf16_dot", ceiling(products.bf16_dot))
      .raw("amx", ceiling(products.amx))
      .field("bf16", products.bf16())
      .field("bf16_name", products.bf16_name());
  if (memory != nullptr) {
    out.raw("copy", ceiling(memory->copy))
        .raw("copy_past_cache", ceiling(memory->copy_past_cache))
        .raw("triad", ceiling(memory->triad))
        .raw("triad_past_cache", ceiling(memory->triad_past_cache))
        .field("array_bytes", memory->array_bytes);
  }
  return out.text();
}

}  // namespace plait::bench

// Ceilings of one thread and of all cores, a JSON line each.
#include <cstdio>
#include <exception>

#include "kernels/device/device.h"
#include "tests/bench/ceilings.h"

int main() try {
  const int cores = plait::usable_cores();
  for (const int threads : {1, cores}) {
    if (threads == 1 && cores == 1) continue;
    plait::ThreadPool pool(threads, {}, false);
    const plait::bench::ProductCeilings products = plait::bench::product_ceilings(pool);
    const plait::bench::MemoryCeilings memory = plait::bench::memory_ceilings(pool);
    std::puts(plait::bench::ceilings_json(threads, products, &memory).c_str());
    std::fflush(stdout);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_ceilings: %s\n", error.what());
  return 1;
}

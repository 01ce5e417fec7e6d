// Every op at the sizes of the shapes; a line for each case, among lines with
// the ceilings of this process. Ends with code 3 when a result was wrong.
//   bench_ops [--quick] [linear] [attention] [rows] [flat]
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "tests/bench/ceilings.h"
#include "tests/bench/measure.h"
#include "tests/bench/op_bench.h"

namespace {

/// What a machine lends a guest changes with its neighbours: measured again after each group.
void print_ceilings(bool has_memory) {
  using namespace plait::bench;
  plait::ThreadPool pool(plait::usable_cores(), {}, false);
  const ProductCeilings products = product_ceilings(pool);
  MemoryCeilings memory;
  if (has_memory) memory = memory_ceilings(pool);
  print_line(plait::JsonObject().raw(
      "ceilings", ceilings_json(plait::usable_cores(), products, has_memory ? &memory : nullptr)));
}

}  // namespace

int main(int argc, char** argv) try {
  using namespace plait::bench;
  bool is_quick = false;
  std::vector<std::string> wanted;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      is_quick = true;
    } else {
      wanted.emplace_back(argv[i]);
    }
  }
  print_ceilings(true);
  OpBench bench(is_quick);
  const struct {
    const char* name;
    void (*run)(OpBench&);
  } groups[] = {{"linear", run_linear_cases},
                {"attention", run_attention_cases},
                {"rows", run_row_cases},
                {"flat", run_flat_cases}};
  for (const auto& group : groups) {
    bool is_wanted = wanted.empty();
    for (const std::string& name : wanted) is_wanted = is_wanted || name == group.name;
    if (!is_wanted) continue;
    group.run(bench);
    print_ceilings(false);
  }
  return bench.wrong() == 0 ? 0 : 3;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_ops: %s\n", error.what());
  return 1;
}

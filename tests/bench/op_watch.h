// Implementations of ops behind a watch: every call passes through to them. Packed weights are
// always counted; while ops are watched, so are each op's calls, its time by the clock of the
// thread that calls it (the pool has joined when an op returns), and what its arguments ask for.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/ops/kernels.h"

namespace plait::bench {

/// What limits an op: rows of the table compare with that ceiling.
enum class Bound { kFp32Product, kBf16Product, kFma, kTriad, kTriadPastCache };
const char* bound_name(Bound bound);

/// What an op cannot do without.
struct OpWork {
  Bound bound = Bound::kTriad;
  double flops = 0;  ///< of products and attention (its lower triangle, backward twice forward)
  double bytes = 0;  ///< of the others: every input read once, every output written once
};

/// All calls of one pass of an op; of a linear, with weights of one size.
struct OpTotal {
  const char* op = "";
  const char* pass = "";
  int64_t n = 0, k = 0;  ///< of a linear's weight, else 0
  OpWork work;
  int64_t calls = 0;
  double seconds = 0;
};

/// The same lists with each implementation behind a watch that lives as long as the process. Lists
/// of ops that no step calls stay as they are.
Kernels watched(const Kernels& kernels);

/// Ops are watched from here on, or no longer. All that is watched must be called from one thread;
/// a call from a second throws std::runtime_error there.
void watch_ops(bool is_on);
/// Of all calls that were watched since `forget_ops`.
std::vector<OpTotal> op_totals();
void forget_ops();

/// Weights that were packed since the program began, and the bytes of their packed forms.
int64_t packs();
int64_t packed_bytes();

}  // namespace plait::bench

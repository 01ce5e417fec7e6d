// The all-reduces and round trips of bench_collectives in MPI, between the two processes that
// mpirun starts:
//   mpirun -n 2 … bench_mpi_peer NAME
// JSON lines of way NAME. A wrong sum ends it with code 1.
#define OMPI_SKIP_MPICXX 1
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "tests/bench/exchange_plan.h"

namespace plait::bench {
namespace {

constexpr size_t kLargePage = 2 << 20;

int own_rank = 0;

void print(const char* kind, const char* way, int64_t bytes, const std::vector<double>& seconds) {
  if (own_rank != 0) return;
  std::printf("{\"kind\":\"%s\",\"way\":\"%s\",\"ranks\":2,\"bytes\":%lld,\"seconds\":[", kind, way,
              static_cast<long long>(bytes));
  for (size_t i = 0; i < seconds.size(); ++i) std::printf("%s%.9g", i > 0 ? "," : "", seconds[i]);
  std::printf("]}\n");
  std::fflush(stdout);
}

void sum(float* values, int64_t count) {
  MPI_Allreduce(MPI_IN_PLACE, values, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

void check(float* values, int64_t count) {
  fill_exchange(values, count, own_rank);
  sum(values, count);
  if (is_exchange_sum(values, count, 2)) return;
  std::fprintf(stderr, "bench_mpi_peer: a wrong sum\n");
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void time_all_reduces(const char* way, const ExchangeSize& size) {
  const auto bytes = static_cast<size_t>(size.bytes);
  const size_t mapped = (bytes + kLargePage - 1) / kLargePage * kLargePage;
  auto* const values = static_cast<float*>(std::aligned_alloc(kLargePage, mapped));
  ::madvise(values, mapped, MADV_HUGEPAGE);
  const int64_t count = size.bytes / 4;
  check(values, count);
  std::fill_n(values, count, 0.0f);
  std::vector<double> seconds;
  for (int i = -kUntimed; i < size.timed; ++i) {
    const double begin = MPI_Wtime();
    sum(values, count);
    if (i >= 0) seconds.push_back(MPI_Wtime() - begin);
  }
  check(values, count);
  std::free(values);
  print("all_reduce", way, size.bytes, seconds);
}

void time_round_trips(const char* way) {
  char message[kPingBytes] = {};
  const int bytes = kPingBytes, peer = 1 - own_rank;
  const auto put = [&] { MPI_Send(message, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD); };
  std::vector<double> seconds;
  for (int i = -kUntimedPings; i < kPings; ++i) {
    const double begin = MPI_Wtime();
    if (own_rank == 0) put();
    MPI_Recv(message, bytes, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (own_rank == 1) put();
    if (i >= 0) seconds.push_back(MPI_Wtime() - begin);
  }
  print("round_trip", way, kPingBytes, seconds);
}

int run(const char* way) {
  int size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &own_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size != 2) {
    std::fprintf(stderr, "bench_mpi_peer: start two processes\n");
    return 2;
  }
  time_round_trips(way);
  for (const ExchangeSize& one : kExchangeSizes) time_all_reduces(way, one);
  return 0;
}

}  // namespace
}  // namespace plait::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  const int code = plait::bench::run(argc > 1 ? argv[1] : "mpi");
  MPI_Finalize();
  return code;
}

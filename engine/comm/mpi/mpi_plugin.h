// What libplait asks of libplait_mpi.so, in plain C: both are of one build, which is checked, and
// share no symbols, so that libplait runs where MPI is not installed.
//
// Thread: any, one at a time inside; but `read` and `poll` of one streams object by one thread.
#pragma once

#include <cstdint>

/// One line, cut where it does not fit.
struct PlaitMpiFailure {
  char word[32];  ///< of a plait::Error
  char text[256];
};

/// This process among those that one launcher started.
struct PlaitMpiPlace {
  int32_t rank;
  int32_t size;
};

struct PlaitMpiPlugin {
  /// Equal in the library and in the plug-in that belongs to it.
  const char* build;
  /// Initialises MPI unless the host has, once in a process. What it initialised is finalised at
  /// the end of the process. Returns 0 or fills `failure`.
  int (*start)(PlaitMpiPlace* place, PlaitMpiFailure* failure);
  /// Byte streams among `count` processes with these ranks of MPI; the caller is ranks[own].
  /// Collective. Null and `failure` when it fails.
  void* (*open)(const int32_t* ranks, int32_t count, int32_t own, PlaitMpiFailure* failure);
  /// As Streams::write and Streams::read; peers are numbered without the caller. −1: MPI failed.
  int64_t (*write)(void* streams, int32_t peer, const void* data, int64_t bytes);
  int64_t (*read)(void* streams, int32_t peer, void* data, int64_t bytes);
  /// Lets MPI make progress; sets for each peer whether it is readable (bit 0) and takes bytes (bit
  /// 1).
  void (*poll)(void* streams, uint8_t* ready);
  /// Not clean: peers may be gone, nothing that could wait for them is called, now or at the end of
  /// the process.
  void (*close)(void* streams, int32_t is_clean);
};

inline constexpr const char* kPlaitMpiFile = "libplait_mpi.so";
inline constexpr const char* kPlaitMpiSymbol = "plait_mpi_plugin";

/// Type of that symbol.
using PlaitMpiEntry = const PlaitMpiPlugin* (*)();

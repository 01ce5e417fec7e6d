// What belongs to the host: counted and compared before and after the library ran.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace host {

int64_t descriptor_count();
int64_t thread_count();
/// True when the process has at most `count` threads, or descriptors, within a second: a joined
/// thread stays in the kernel's list for a moment, and one of an operation closes its files after
/// its end was announced.
bool has_threads(int64_t count);
bool has_descriptors(int64_t count);
/// Bytes that malloc has handed out and not got back; 0 under sanitizers.
int64_t heap_bytes();
/// Resident memory in bytes.
int64_t resident_bytes();

/// Signal dispositions and mask, locales, working directory, umask, environment, floating-point
/// modes, limits, timers, handlers of C++, affinity and name of the calling thread. Each by name,
/// so that a difference names itself.
std::map<std::string, std::string> process_state();

}  // namespace host

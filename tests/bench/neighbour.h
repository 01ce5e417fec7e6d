// A process that wants a core for itself: what else runs on a machine. It is made before the
// program has threads or much memory, spins on arithmetic while it is let, and is stopped else.
#pragma once

#include <sys/types.h>

namespace plait::bench {

class Neighbour {
 public:
  /// Stopped. Throws std::runtime_error where there can be no process.
  Neighbour();
  ~Neighbour();
  Neighbour(const Neighbour&) = delete;
  Neighbour& operator=(const Neighbour&) = delete;

  void resume();
  void pause();
  /// That it has had since it was made, as /proc has it (in ticks of 10 ms).
  double cpu_seconds() const;
  /// Kills it; whether the system knows no such process any more.
  bool end();

 private:
  void wait_for(int options);

  pid_t process_ = -1;
};

}  // namespace plait::bench

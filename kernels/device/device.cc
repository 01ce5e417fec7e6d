#include "kernels/device/device.h"

#include <sched.h>

#include "kernels/base/error.h"

namespace plait {

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  const int count = CPU_COUNT(&set);
  return count < 1 ? 1 : count;
}

Device::Device(const DeviceOptions& options, IsaLevel isa)
    : isa_(isa),
      pool_(options.threads > 0 ? options.threads : usable_cores(), options.hooks,
            options.is_flushing) {}

std::unique_ptr<Device> make_device(const DeviceOptions& options) {
  if (options.kind == "cpu") {
    return std::make_unique<Device>(options, effective_isa(options.isa));
  }
  if (options.kind == "cuda") return make_cuda_device(options);
  throw Error("argument", "no such kind of device")
      .with("key", "device")
      .with("value", options.kind);
}

}  // namespace plait

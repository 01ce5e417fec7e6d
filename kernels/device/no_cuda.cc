// This build carries no CUDA plug-in.
#include "kernels/base/error.h"
#include "kernels/device/device.h"

namespace plait {

std::unique_ptr<Device> make_cuda_device(const DeviceOptions& options) {
  throw Error("not_built", "this build of Plait has no CUDA plug-in")
      .with("feature", "cuda")
      .with("key", "device")
      .with("value", options.kind)
      .subsystem("kernels/device");
}

}  // namespace plait

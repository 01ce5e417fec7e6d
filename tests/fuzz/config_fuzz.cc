// Configurations from hostile bytes: loading either throws plait::Error and changes nothing, or
// gives a configuration that survives dump and load unchanged.
#include <cstddef>
#include <cstdint>
#include <exception>
#include <string_view>

#include "engine/config/checks.h"
#include "engine/config/config.h"
#include "kernels/base/error.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using plait::Config;
  Config config;
  try {
    config.load_json(std::string_view(reinterpret_cast<const char*>(data), size));
  } catch (const plait::Error&) {
    if (config != Config()) std::terminate();
    return 0;
  }
  Config again, complete;
  again.load_json(config.dump_json(false));
  complete.load_json(config.dump_json(true));
  config.set("network.token", nullptr);  // a secret that no dump holds
  if (again != config || plait::fingerprint(complete) != plait::fingerprint(config)) {
    std::terminate();
  }
  try {
    plait::check(config);
  } catch (const plait::Error&) {
  }
  return 0;
}

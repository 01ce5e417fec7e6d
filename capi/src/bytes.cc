#include "capi/src/bytes.h"

#include "capi/src/guard.h"

const void* plait_bytes_data(const plait_bytes* bytes) {
  return plait::is_live(bytes) ? bytes->value.data() : nullptr;
}

int64_t plait_bytes_size(const plait_bytes* bytes) {
  return plait::is_live(bytes) ? static_cast<int64_t>(bytes->value.size()) : 0;
}

void plait_bytes_free(plait_bytes* bytes) {
  plait::guard_void([&] { plait::free_handle(bytes); });
}

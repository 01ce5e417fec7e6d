// Facts about the build, and functions that need no handle.
#include <cstring>
#include <string_view>

#include "capi/src/arguments.h"
#include "capi/src/bytes.h"
#include "capi/src/guard.h"
#include "capi/src/handle.h"
#include "kernels/base/error.h"
#include "plait/plait.h"
#include "plait/plait_experimental.h"

namespace plait {
namespace {

struct Feature {
  const char* name;
  bool is_built;
};

#ifdef PLAIT_HAS_MPI
constexpr bool kHasMpi = true;
#else
constexpr bool kHasMpi = false;
#endif

// A function whose feature is not built names it in its error.
const Feature kFeatures[] = {
    {"cpu", true},          {"gpt2_tokenizer", true},
    {"hugging_face", true}, {"world", true},
    {"checkpoint", true},   {"verify", true},
    {"convert", true},      {"planner", true},
    {"measure", true},      {"cuda", false},
    {"nccl", false},        {"mpi", kHasMpi},
    {"dlpack", false},      {"quarantine", has_quarantine()},
};

const char* feature_list() {
  static char list[256];
  static const bool is_filled = [] {
    for (const Feature& feature : kFeatures) {
      if (!feature.is_built) continue;
      if (list[0] != '\0') std::strcat(list, " ");
      std::strcat(list, feature.name);
    }
    return true;
  }();
  return is_filled ? list : "";
}

}  // namespace
}  // namespace plait

int32_t plait_version(void) { return PLAIT_API_VERSION + PLAIT_VERSION_PATCH; }

const char* plait_build_info(const char* key) {
  if (key == nullptr) return nullptr;
  const std::string_view name(key);
  if (name == "commit") return PLAIT_COMMIT;
  if (name == "compiler") return __VERSION__;
  if (name == "features") return plait::feature_list();
  constexpr std::string_view kPrefix = "feature.";
  if (name.substr(0, kPrefix.size()) != kPrefix) return nullptr;
  for (const plait::Feature& feature : plait::kFeatures) {
    if (name.substr(kPrefix.size()) == feature.name) return feature.is_built ? "yes" : "not built";
  }
  return nullptr;
}

const char* plait_code_name(int32_t code) {
  return plait::code_name(static_cast<plait::Code>(code));
}

int32_t plait_x_echo(int64_t integer, double real, const char* text, const void* data,
                     int64_t bytes, int64_t* integer_out, double* real_out, plait_bytes** text_out,
                     plait_bytes** data_out, plait_error** err) {
  const plait::BytesOut text_place(text_out, "text_out"), data_place(data_out, "data_out");
  return plait::guard(err, [&] {
    text_place.check();
    data_place.check();
    plait::check_aligned(integer_out, "integer_out");
    plait::check_aligned(real_out, "real_out");
    std::string text_copy = plait::text_argument(text, "text");
    std::string data_copy(plait::bytes_argument(data, bytes, "data"));
    auto text_bytes = std::make_unique<plait_bytes>(std::move(text_copy));
    data_place.set(std::move(data_copy));
    if (text_place.is_wanted()) *text_out = text_bytes.release();
    plait::put(integer_out, integer);
    plait::put(real_out, real);
  });
}

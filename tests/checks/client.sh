#!/usr/bin/env bash
# I1: a client needs the public header and the library alone; what it brings itself, be it another
# FlatBuffers, is none of Plait's business. Prints TAP.
#
#   client.sh [LIBRARY]      default: build/release/lib/libplait.so
set -u
cd "$(dirname "$0")/../.." || exit 2
library=$(readlink -f "${1:-build/release/lib/libplait.so}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0
judge() { # WHAT: from the exit code of the command before
  if [ $? = 0 ]; then
    echo "ok - $1"
  else
    failed=1
    echo "not ok - $1"
    sed 's/^/# /' "$work/log" | head -n 20
  fi
}

headers=$(grep -ho '#include *[<"][^>"]*' capi/include/plait/*.h | sed 's/.*[<"]//' | sort -u | tr '\n' ' ')
echo "$headers" >"$work/log"
[ "$headers" = "plait/plait.h stdint.h " ]
judge "the public headers include stdint.h and each other alone"

# A client with names of its own that the library uses inside.
cat >"$work/client.c" <<'C'
#include <plait/plait.h>
#include <string.h>
#ifdef __cplusplus
namespace flatbuffers { struct FlatBufferBuilder { int version; }; }
namespace plait { int check(bool) { return 7; } }
namespace nlohmann { int json = 5; }
#endif
int main(void) {
  plait_context* context = 0;
  plait_config* config = 0;
  plait_bytes* value = 0;
  int failed = plait_context_create(PLAIT_API_VERSION, 0, &context, 0);
  if (failed == 0) failed = plait_config_create(context, &config, 0);
  if (failed == 0) failed = plait_config_set(config, "optimizer.lr", "0.25", 0);
  if (failed == 0) failed = plait_config_get(config, "optimizer.lr", &value, 0);
  if (failed == 0) failed = memcmp(plait_bytes_data(value), "0.25", 5);
  plait_bytes_free(value);
  plait_context_free(context);
  plait_config_free(config);
  return failed;
}
C
mkdir -p "$work/include/plait"
cp capi/include/plait/*.h "$work/include/plait/"
for language in "gcc -std=c99 -xc" "g++ -std=c++98 -xc++" "g++ -std=c++20 -xc++"; do
  # shellcheck disable=SC2086
  (cd "$work" && $language -Wall -Wextra -pedantic -Werror -Iinclude client.c -xnone "$library" \
    -Wl,-rpath,"$(dirname "$library")" -Wl,--no-allow-shlib-undefined -o client && ./client) >"$work/log" 2>&1
  judge "a client compiles with the header alone, links and runs: ${language% -x*}"
done

nm -D --undefined-only "$library" >"$work/log" && ! grep -iE 'flatbuffers|protobuf' "$work/log"
judge "the library asks no host for a serializer"
exit $failed

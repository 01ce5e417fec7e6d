#!/bin/bash
# Compiles each public header alone in every language version that it promises, with gcc and clang,
# all warnings as errors. Last line: "N passed, M failed".
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
passed=0
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check COMPILER LANGUAGE STANDARD HEADER
check() {
  printf '#include "plait/%s"\nint plait_header_alone;\n' "$4" > "$work/alone.$2"
  if "$1" -std="$3" -x "${2/cc/c++}" -Wall -Wextra -pedantic -Werror -fsyntax-only \
      -I"$root/capi/include" "$work/alone.$2" > "$work/log" 2>&1; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $1 -std=$3 plait/$4"
    head -5 "$work/log"
  fi
}

for header in "$root"/capi/include/plait/*.h; do
  name=$(basename "$header")
  for compiler in gcc clang; do
    if ! command -v "$compiler" > /dev/null; then
      echo "FAILED: $compiler is not installed"
      failed=$((failed + 1))
      continue
    fi
    for standard in c99 c11 c17 c2x; do check "$compiler" c "$standard" "$name"; done
    for standard in c++98 c++11 c++14 c++17 c++20; do
      check "$compiler" cc "$standard" "$name"
    done
  done
done

includes=$(grep -h '^#include' "$root/capi/include/plait/plait.h")
if [ "$includes" = '#include <stdint.h>' ]; then
  passed=$((passed + 1))
else
  failed=$((failed + 1))
  echo "FAILED: plait.h includes more than <stdint.h>: $includes"
fi

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

#!/usr/bin/env bash
# Every source is formatted as .clang-format says. Prints TAP.
cd "$(dirname "$0")/../.." || exit 1
bad=$(git ls-files '*.h' '*.cc' '*.c' | xargs -P "$(nproc)" -n 40 clang-format-14 --dry-run -Werror 2>&1 |
  sed -n 's/^\([^:]*\):[0-9]*:[0-9]*: error:.*/\1/p' | sort -u)
[ -z "$bad" ] && echo "ok - sources are formatted" && exit 0
echo "not ok - sources are formatted"
echo "$bad" | sed 's/^/# /'
exit 1

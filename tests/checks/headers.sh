#!/usr/bin/env bash
# Every header of the library and its program compiles alone. Prints TAP.
cd "$(dirname "$0")/../.." || exit 1
check() {
  local header=$1 out
  if out=$(echo "#include \"$header\"" | g++ -std=c++20 -fsyntax-only -Wall -Wextra -I. -Icapi/include -x c++ - 2>&1); then
    echo "ok - $header compiles alone"
  else
    echo "not ok - $header compiles alone"
    echo "$out" | head -n 12 | sed 's/^/# /'
  fi
}
export -f check
git ls-files '*.h' ':!tests' ':!*-inl.h' ':!capi/include' ':!bindings/python' | xargs -P "$(nproc)" -I{} bash -c 'check {}'

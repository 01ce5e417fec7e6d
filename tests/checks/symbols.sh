#!/bin/bash
# symbols.sh [LIBRARY]: what the library exports must equal tests/goldens/symbols.txt, which abi_header.py
# emits from the public headers. Part 1 of the ABI gate. Last line: "N passed, M failed".
set -u
root=$(cd "$(dirname "$0")/../.." && pwd)
library=${1:-$root/build/release/lib/libplait.so}
golden=$root/tests/goldens/symbols.txt
passed=0
failed=0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

judge() {
  if [ "$1" -eq 0 ]; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    echo "FAILED: $2"
  fi
}

nm -D --defined-only --with-symbol-versions "$library" | awk '{print $NF}' | LC_ALL=C sort \
  > "$work/exported" || exit 2

diff "$golden" "$work/exported"
judge $? "the exported symbols differ from $golden"

grep -vE '^plait_|^PLAIT_[0-9.]+(@@?PLAIT_[0-9.]+)?$' "$work/exported"
[ $? -eq 1 ]
judge $? "something else than plait_* and version nodes is exported"

# Before 1.0 each minor version is an ABI of its own.
soname=$(awk '/define PLAIT_VERSION_MAJOR/ {major = $3} /define PLAIT_VERSION_MINOR/ {minor = $3}
  END {printf "libplait.so.%s", major == 0 ? "0." minor : major}' "$root/capi/include/plait/plait.h")
readelf -d "$library" | grep SONAME | grep -qF "[$soname]"
judge $? "the SONAME is not $soname"

readelf -d "$library" | grep -q NODELETE
judge $? "the library was not linked with -z nodelete"

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]

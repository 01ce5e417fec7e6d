#!/usr/bin/env bash
# abi_binaries.sh [LIBRARY]: programs that were built with earlier releases run on the library and mean the
# same; what was built with a newer header is refused in words. Part 4 of the ABI gate. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
. "$root/tests/support/abi.sh"
library=$(readlink -f "${1:-$root/build/release/lib/libplait.so}")
soname=$(readelf -dW "$library" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
mkdir lib
ln -s "$library" "lib/$soname"
ln -s "$soname" lib/libplait.so
# Every symbol is looked for when a program starts, so that a missing one is named whatever runs first.
on_library() { LD_BIND_NOW=1 LD_LIBRARY_PATH=$work/lib timeout -k 5 60 "$@"; }

old=0
for release in "$goldens"/*; do
  readelf -dW "$release/smoke" 2>/dev/null | grep -q "NEEDED.*\[$soname\]" || continue
  old=$((old + 1)) name=$(basename "$release")
  nm -D --undefined-only "$release/smoke" | sed -n 's/.* \(plait_[a-z0-9_]*\)@.*/\1/p' | sort >called
  exported "$release/libplait.abi" | grep -v '^plait_x_' | diff - called >out 2>err && [ -s called ]
  judge $? "the program of $name calls every function of its release"
  mkdir "run.$name"
  (cd "run.$name" && on_library "$release/smoke" >../printed 2>../err)
  code=$?
  diff "$release/smoke.txt" printed >differences && [ $code = 0 ] || { mv err out; cat differences >err; false; }
  judge $? "the program that was built with $name runs and prints what it did"
done
echo "of $goldens" >out
[ $old != 0 ]
judge $? "there is a program of an earlier release that needs $soname"

# A header of the next version: its program asks for that version before it does anything else.
newer() { # DEFINE NUMBER: compiles the program `newer` with the header's version changed
  mkdir -p include/plait
  sed "s/^#define $1 .*/#define $1 $2/" "$headers/plait.h" >include/plait/plait.h
  cat >newer.c <<'C'
#include <plait/plait.h>
#include <stdio.h>
int main(void) {
  plait_context* context = 0;
  plait_error* error = 0;
  if (plait_context_create(PLAIT_API_VERSION, 0, &context, &error) == PLAIT_OK) return 0;
  printf("%s %s\n", plait_code_name(plait_error_code(error)), plait_error_message(error));
  return context == 0 ? 3 : 4;
}
C
  gcc -std=c99 -Wall -Werror -Iinclude newer.c -o newer -Llib -lplait >out 2>err
}
refused() { # VERSION
  on_library ./newer >out 2>err
  [ $? = 3 ] && grep -q "^FAILED_PRECONDITION version_mismatch: .*header=$1 library=$version" out
}
major=${version%.*} minor=${version#*.}
newer PLAIT_VERSION_MINOR $((minor + 1)) && refused "$major.$((minor + 1))"
judge $? "a program of the next minor version is refused in words that name both"
newer PLAIT_VERSION_MAJOR $((major + 1)) && refused "$((major + 1)).$minor"
judge $? "so is one of the next major version"

# A function of the next version is missed when the program is loaded, before it does anything.
next=PLAIT_$major.$((minor + 1))
echo "$next { global: plait_newer; local: *; };" >newer.map
mkdir next
echo 'int plait_newer(void) { return 0; }' | gcc -shared -fPIC -xc - -o next/libplait.so -Wl,-soname,"$soname" \
  -Wl,--version-script=newer.map >out 2>err &&
  echo 'int plait_newer(void); int main(void) { return plait_newer(); }' |
  gcc -xc - -o newer -Lnext -lplait >out 2>err && { on_library ./newer >out 2>err; [ $? = 1 ]; } &&
  grep -q "version .$next. not found" err
judge $? "a program that needs a function of the next version is not loaded"
exit $bad

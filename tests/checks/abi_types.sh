#!/usr/bin/env bash
# abi_types.sh [--write] [LIBRARY]: the types of all functions that the library exports, against those of the
# last release, by abidiff: part 2 of the ABI gate. Experimental functions are left out; nothing else is. With
# --write all that has changed is accepted and written down, for a review: sized structs may grow. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
. "$root/tests/support/abi.sh"
is_written=0
[ "${1:-}" = --write ] && is_written=1 && shift
library=${1:-$root/build/release/lib/libplait.so}
golden=$("$root/tests/checks/abi_header.py" --release)
changes=$golden/changes.txt # what a review has accepted

readelf -SW "$library" >out 2>err && grep -q ' \.debug_info ' out || { echo "$library has no .debug_info" >out; false; }
judge $? "the library has DWARF, without which a changed type would pass"
describe "$library" new.abi 2>err
exported new.abi >names && described new.abi >typed && [ -s names ] && diff names typed >out 2>err
judge $? "every function that the library exports has a type there"
cp "$golden/libplait.abi" old.abi 2>err && exported old.abi >names && described old.abi >typed && [ -s names ] &&
  diff names typed >out 2>err
judge $? "so has every function of the release"

# What abidiff calls harmless is none to hosts in other languages: int32_t to uint32_t, say. Its exit codes have
# bits: 4 and 8 are differences, lower ones a failure of its own.
compare() {
  abidiff --harmless --drop '^plait_x_' "$@" old.abi new.abi >report 2>err
  case $? in
    0) ;;
    4 | 8 | 12) return 4 ;;
    *) return 1 ;;
  esac
}
compare --no-added-syms
code=$?
[ $is_written = 1 ] && [ $code != 1 ] && { [ $code = 4 ] && cp report "$changes" || rm -f "$changes"; }
if [ -e "$changes" ]; then [ $code = 4 ] && diff "$changes" report >out; else cp report out && [ $code = 0 ]; fi
judge $? "no function or type of the release has changed, but for what its changes.txt accepts"
compare
[ $? != 1 ] && sed -n "s/.*\[A\].*{\(plait_[a-z0-9_]*\)@.*/\1/p" report | sort >added
python3 - "$golden" >declared 2>err <<END
import sys
sys.path.insert(0, "$root/tests/checks")
import abi_header
names = [{f.name for f in abi_header.Header(folder).functions if not f.is_experimental()}
         for folder in (sys.argv[1] + "/include/plait", "$headers")]
print("\n".join(sorted(names[1] - names[0])))
END
sed -i '/^$/d' declared && diff declared added >out 2>>err
judge $? "new are exactly the functions that the header declares beside those of the release"
exit $bad

# Sourced, after tap.sh, by what compares the ABI with that of the last release: where things stand, and how a
# library is described.
headers=$root/capi/include/plait
version=$(awk '/define PLAIT_VERSION_M(AJOR|INOR)/ {printf "%s%s", dot, $3; dot = "."}' "$headers/plait.h")
goldens=$root/tests/goldens/abi

# What the functions that a library exports look like in its DWARF, and all types of the public headers that
# they reach. Neither folders nor lines stand there, so that the text changes with the ABI alone.
describe() { # LIBRARY OUT
  abidw --headers-dir "$headers" --drop-private-types --exported-interfaces-only --no-corpus-path --no-comp-dir-path \
    --no-show-locs --no-elf-needed --type-id-style hash "$1" | sed "s|\( path='\)[^']*/|\1|" >"$2"
}
# Exported functions of a description that have a type there. Without DWARF there are none.
described() { sed -n "s/.*<function-decl name='\(plait_[a-z0-9_]*\)'.* elf-symbol-id='.*/\1/p" "$1" | sort -u; }
exported() { sed -n "s/.*<elf-symbol name='\(plait_[a-z0-9_]*\)'.*/\1/p" "$1" | sort -u; }

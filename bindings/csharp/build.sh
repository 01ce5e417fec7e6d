#!/usr/bin/env bash
# Builds the C# binding against an installed Plait, with SWIG, a C compiler and Mono's mcs.
#
#   bindings/csharp/build.sh OUT
#
# pkg-config must find Plait (PKG_CONFIG_PATH). Makes, in OUT: generated/ (C and C# by SWIG),
# libplait_csharp.so (the wrapper; its libplait is found beside it or by the loader), Plait.dll with
# its documentation Plait.xml, and nuget/, the content of a package. What is newer than its sources stays.
set -euo pipefail
source_dir=$(cd "$(dirname "$0")" && pwd)
out=${1:?"usage: build.sh OUT"}
swig_dir=$source_dir/../swig
include=$(pkg-config --variable=includedir plait)
library=$(pkg-config --variable=libdir plait)
mkdir -p "$out/generated"
out=$(cd "$out" && pwd)

newer() { # TARGET SOURCE…: is a source newer, or the target not there?
  local target=$1 source
  shift
  [ -e "$target" ] || return 0
  for source; do
    [ "$source" -nt "$target" ] && return 0
  done
  return 1
}

if newer "$out/generated/wrapper.c" "$swig_dir"/plait*.i "$swig_dir/csharp.i" "$include"/plait/*.h "$0"; then
  rm -f "$out"/generated/*
  # SWIGWORDSIZE64 stays undefined: it would shrink int64_t to 32 bits.
  swig -csharp -Werror -module Native -namespace Plait.Interop -dllimport plait_csharp \
    -DSWIG_CSHARP_NO_EXCEPTION_HELPER -DSWIG_CSHARP_NO_STRING_HELPER \
    -I"$include" -outdir "$out/generated" -o "$out/generated/wrapper.c" "$swig_dir/plait.i"
fi
if newer "$out/libplait_csharp.so" "$out/generated/wrapper.c" "$library/libplait.so"; then
  # shellcheck disable=SC2046
  ${CC:-cc} -std=c11 -O2 -Wall -Werror -fPIC -shared -fvisibility=hidden -Wl,-z,defs '-Wl,-rpath,$ORIGIN' \
    -o "$out/libplait_csharp.so" "$out/generated/wrapper.c" $(pkg-config --cflags --libs plait)
fi
if newer "$out/Plait.dll" "$out/generated/wrapper.c" "$source_dir"/Plait/*.cs "$source_dir"/Plait/Interop/*.cs; then
  # Every public member is documented: a missing comment is warning 1591, and warnings are errors.
  mcs -nologo -target:library -unsafe -optimize+ -debug:pdbonly -warn:4 -warnaserror \
    -out:"$out/Plait.dll" -doc:"$out/Plait.xml" \
    "$source_dir"/Plait/*.cs "$source_dir"/Plait/Interop/*.cs "$out"/generated/*.cs
fi

# The shape of a NuGet package; `nuget pack` needs nothing more than this folder.
nuget=$out/nuget
if newer "$nuget/plait.nuspec" "$out/Plait.dll" "$out/libplait_csharp.so" "$source_dir/plait.nuspec.in" \
  "$source_dir/README.md"; then
  rm -rf "$nuget"
  mkdir -p "$nuget/lib/net472" "$nuget/runtimes/linux-x64/native"
  cp "$out/Plait.dll" "$out/Plait.xml" "$nuget/lib/net472/"
  cp "$out/libplait_csharp.so" "$nuget/runtimes/linux-x64/native/"
  # Under the name that the wrapper asks for.
  soname=$(objdump -p "$library/libplait.so" | sed -n 's/^ *SONAME *//p')
  cp -L "$library/$soname" "$nuget/runtimes/linux-x64/native/"
  cp "$source_dir/README.md" "$source_dir/../../LICENSE" "$nuget/"
  sed "s/@VERSION@/$(pkg-config --modversion plait)/" "$source_dir/plait.nuspec.in" >"$nuget/plait.nuspec"
fi

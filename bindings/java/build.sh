#!/usr/bin/env bash
# Builds the Java binding on an installed Plait that pkg-config finds: DIRECTORY/plait.jar, which carries
# its native libraries. Needs a JDK 17, SWIG and g++. Does nothing while the jar is newer than all that
# goes into it.
#
#   build.sh [DIRECTORY]            the jar (by default in build/hosts/java)
#   build.sh --docs [DIRECTORY]     the API documentation too, in DIRECTORY/docs
set -e
here=$(cd "$(dirname "$0")" && pwd)
docs=0
[ "$1" = --docs ] && docs=1 && shift
mkdir -p "${1:-$here/../../build/hosts/java}"
out=$(cd "${1:-$here/../../build/hosts/java}" && pwd)
sources=$here/src/main/java
internal=$out/generated/dev/plait/internal
pkg-config --print-errors --exists plait # says where it has looked
headers=$(pkg-config --variable=includedir plait)
library=$(readlink -f "$(pkg-config --variable=libdir plait)/libplait.so") # the file: links stay as old as they are
jdk=$(dirname "$(dirname "$(readlink -f "$(command -v javac)")")")
platform=linux-$(uname -m)
native=$out/jar/dev/plait/internal/$platform

is_current() {
  [ -e "$out/plait.jar" ] &&
    [ -z "$(find "$here/build.sh" "$sources" "$here/../swig/plait.i" "$here/../swig/java.i" \
      "$headers/plait" "$library" -type f -newer "$out/plait.jar" | head -n 1)" ]
}

build_native() {
  rm -rf "$out/generated"
  mkdir -p "$internal" "$native"
  swig -Wall -Werror -java -c++ -package dev.plait.internal -module Api -I"$headers" -outdir "$internal" \
    -o "$out/plait_java.cc" "$here/../swig/plait.i"
  # SWIG reads pointers out of longs by casts, which strict aliasing does not allow.
  g++ -std=c++17 -O2 -fPIC -shared -fvisibility=hidden -fno-strict-aliasing -Wall -Wextra -Werror \
    -I"$jdk/include" -I"$jdk/include/linux" $(pkg-config --cflags plait) "$out/plait_java.cc" \
    -o "$native/libplait_java.so" $(pkg-config --libs plait) -Wl,-z,defs '-Wl,-rpath,$ORIGIN'
  local soname
  soname=$(readelf -d "$library" | sed -n 's/.*(SONAME).*\[\(.*\)\]/\1/p')
  cp "$library" "$native/$soname"
  printf '%s\n' "$soname" libplait_java.so >"$native/libraries" # in the order of loading
}

build_jar() {
  # shellcheck disable=SC2046
  javac --release 17 -encoding UTF-8 -Xlint:all -Xdoclint:all/protected -Xdoclint/package:dev.plait -Werror \
    -d "$out/jar" $(find "$sources" "$out/generated" -name '*.java')
  jar --create --file "$out/plait.jar.new" --module-version "$(pkg-config --modversion plait)" -C "$out/jar" .
  mv "$out/plait.jar.new" "$out/plait.jar"
}

if ! is_current; then
  rm -rf "$out/jar"
  build_native
  build_jar
fi
if [ $docs = 1 ]; then
  # shellcheck disable=SC2046
  javadoc -quiet --release 17 -encoding UTF-8 -docencoding UTF-8 -Xdoclint:all -d "$out/docs" \
    --source-path "$sources:$out/generated" "$sources/module-info.java" \
    $(find "$sources/dev/plait" -maxdepth 1 -name '*.java')
fi

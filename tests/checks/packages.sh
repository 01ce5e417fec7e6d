#!/usr/bin/env bash
# Debian packages and prefixes: made from the release build, installed where there is nothing, used by pkg-config
# and by CMake, moved, taken away again. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
build=$(dirname "$(dirname "$PLAIT")")
unset PKG_CONFIG_PATH LD_LIBRARY_PATH

# Packages stand where cpack is called. The library's is named after its SONAME.
mkdir debs
(cd debs && cpack --config "$build/CPackConfig.cmake") >out 2>err
judge $? "cpack makes packages"
library=$(readelf -d "$build/lib/libplait.so" | sed -n 's/.*SONAME.*\[libplait\.so\.\(.*\)\]/libplait\1/p')
minor=${library#libplait} # 0.1; the next is another ABI
names=("$library" libplait-dev plait)
[ -e "$build/lib/libplait_mpi.so" ] && names+=(plait-mpi)
for name in "${names[@]}"; do
  dpkg-deb -f debs/"$name"_*.deb Package Version Maintainer Section Description
done >out 2>err
[ ! -s err ] && [ "$(ls debs | wc -l)" = ${#names[@]} ] && [ "$(grep -c '^Package: ' out)" = ${#names[@]} ]
judge $? "one for each component, and no file beside them: ${names[*]}"
version=$(dpkg-deb -f debs/"$library"_*.deb Version)
for name in "${names[@]:1}"; do
  dpkg-deb -f debs/"$name"_*.deb Depends | grep -qF "$library (= $version)" || echo "$name asks for no $library" >>err
done
dpkg-deb -f debs/"$library"_*.deb Depends >out
[ ! -s err ] && grep -q 'libc6' out && grep -q 'libdnnl' out && grep -q 'libstdc++6' out && ! grep -q openmpi out
judge $? "dependencies: the very library, and what its files need"

# dpkg checks here that what the packages depend on is on this machine, and that no two hold the same file. The
# scripts of the packages see a ldconfig that only says that it was called.
mkdir -p root/var/lib/dpkg/{info,updates,triggers} fake
cp /var/lib/dpkg/status root/var/lib/dpkg/status
printf '#!/bin/sh\necho called >>%s\n' "$work/called" >fake/ldconfig
chmod +x fake/ldconfig
as_root=()
[ "$(id -u)" = 0 ] || as_root=(fakeroot)
dpkg_root() { PATH=$work/fake:$PATH:/usr/sbin:/sbin "${as_root[@]}" dpkg --root="$work/root" --force-script-chrootless "$@" >out 2>err; }
dpkg_root --install debs/*.deb
[ $? = 0 ] && [ -s called ] && [ -x root/usr/bin/plait ] && [ -e root/usr/share/man/man1/plait.1.gz ] &&
  [ -e "root/usr/share/doc/$library/copyright" ]
judge $? "dpkg installs them into an empty root"

mkdir consumer
cat >consumer/CMakeLists.txt <<END
cmake_minimum_required(VERSION 3.13)
project(consumer C)
find_package(plait ${minor%.*}.$((${minor#*.} + 1)) CONFIG QUIET)
if(plait_FOUND)
  message(FATAL_ERROR "another minor version is another ABI")
endif()
find_package(plait $minor CONFIG REQUIRED)
add_executable(train train.c)
target_link_libraries(train PRIVATE plait::plait)
END
cp "$root/samples/train.c" consumer
try() { # PREFIX WHAT: the sample by pkg-config and by CMake, and the program
  local prefix=$1 what=$2
  PKG_CONFIG_PATH=$prefix/lib/pkgconfig cc -Wall -Wextra -Werror "$root/samples/train.c" -o train \
    $(PKG_CONFIG_PATH=$prefix/lib/pkgconfig pkg-config --cflags --libs plait) 2>err &&
    readelf -d train | grep -qF "[libplait.so.$minor]" &&
    LD_LIBRARY_PATH=$prefix/lib ./train >out 2>err && grep -q '^step 100 ' out
  judge $? "samples/train.c by pkg-config: $what"
  rm -rf consumer/build
  cmake -S consumer -B consumer/build -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_BUILD_TYPE=Release >out 2>err &&
    cmake --build consumer/build >out 2>>err && consumer/build/train >out 2>err && grep -q '^step 100 ' out
  judge $? "samples/train.c by CMake, which takes no other minor version: $what"
  "$prefix/bin/plait" --version >out 2>err && grep -q '^features: ' out
  judge $? "the program finds its library: $what"
}
try "$work/root/usr" "from packages, below a root"

cmake --install "$build" --prefix "$work/one" >out 2>err && mv one two && ! grep -rl "$work/one" two >err
judge $? "an installed prefix is moved; nothing in it knows its old place"
try "$work/two" "from a moved prefix"
cmake --install "$build" --prefix "$work/three" --component runtime >out 2>err &&
  (cd three && find . ! -type d | sort | tr '\n' ' ') >out && grep -Eqx "\./lib/libplait\.so\.$minor \./lib/libplait\.so\.$minor\.[0-9]+ " out
judge $? "a component by itself"

# A wheel, unpacked as an installer does it, needs nothing of the prefix that it was built against.
(. "$root/tests/support/hosts.sh" && hosts_install && "$root/bindings/python/build" &&
  "$root/bindings/python/make_wheel.py" --out "$work") >out 2>err && mkdir site && python3 -m zipfile -e plait-*.whl site &&
  check '
import base64, csv, glob, hashlib, os
files = {os.path.relpath(os.path.join(d, n), "site") for d, _, names in os.walk("site") for n in names}
(record,) = glob.glob("site/*.dist-info/RECORD")
for name, digest, size in csv.reader(open(record)):
    files.remove(name)
    data = open("site/" + name, "rb").read()
    want = "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
    assert name.endswith("/RECORD") or (digest, int(size)) == (want, len(data)), name
assert not files, files'
judge $? "a wheel holds what its RECORD says"
cat >train.py <<'END'
import plait
settings = {"model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 32, "sequence_length": 16},
            "train": {"global_batch": 4}, "layout": {"micro_batch": 4}, "optimizer": {"lr": 1e-2}}
with plait.Context() as context, plait.Config(context, settings) as config, plait.Group(context, config) as group, \
        plait.Engine(group, config) as engine:
    batch, spec, losses = engine.batch(), engine.batch_spec(), []
    for step in range(20):
        tokens = batch.map("tokens", spec.global_rows, spec.sequence_length + 1)
        for row in range(spec.global_rows):
            for i in range(spec.sequence_length + 1):
                tokens[row, i] = (row * 3 + i) % 32
        losses.append(engine.step(batch).loss)
assert losses[-1] < losses[0] / 2, losses
libraries = {line.split()[-1] for line in open("/proc/self/maps") if "libplait" in line}
assert len(libraries) == 1 and "/site/plait/" in libraries.pop(), libraries
END
PYTHONPATH=$work/site PYTHONDONTWRITEBYTECODE=1 python3 train.py >out 2>err
judge $? "the wheel trains, with the library that it carries"

dpkg_root --purge "${names[@]}"
[ $? = 0 ] && [ -z "$(find root/usr ! -type d 2>/dev/null)" ]
judge $? "the packages are taken away, and all their files"
exit $bad

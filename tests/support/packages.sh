# Sourced by the commands that need Debian packages: install_packages GROUP… installs what is missing
# and does not touch apt when nothing is.

packages_build="g++ cmake ninja-build pkg-config libdnnl-dev libhwy-dev libabsl-dev nlohmann-json3-dev libxxhash-dev libcli11-dev libflatbuffers-dev flatbuffers-compiler"
packages_test="abigail-tools catch2 clang libclang-rt-14-dev clang-format-14 clang-tidy-14 valgrind python3 binutils git libopenmpi-dev openmpi-bin dpkg-dev fakeroot file doxygen groff-base perl"
packages_bindings="golang-go rustc cargo mono-mcs mono-runtime libmono-cil-dev openjdk-17-jdk-headless swig python3-dev"
packages_sample="bible-kjv"
packages_cluster="iproute2"

missing_packages() {
  local package
  for package in "$@"; do
    [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null)" = installed ] || echo "$package"
  done
}

install_packages() {
  local group names="" missing
  for group in "$@"; do
    group="packages_$group"
    names="$names ${!group}"
  done
  missing=$(missing_packages $names)
  [ -n "$missing" ] || return 0
  local run=""
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || {
      echo "These packages are missing and need root to install: $missing" >&2
      return 1
    }
    run=sudo
  fi
  echo "Installing with apt${run:+ (by sudo)}:" $missing >&2
  $run env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 &&
    $run env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >&2
}

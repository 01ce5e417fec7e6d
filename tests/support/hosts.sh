# Sourced by what builds and runs bindings: an installed library for them, in build/hosts/prefix, and the
# environment in which pkg-config and the loader find it.
hosts_root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
hosts=$hosts_root/build/hosts
hosts_prefix=$hosts/prefix

# Installs the release build there unless what is installed is as new. Several scripts may call it at once.
hosts_install() {
  mkdir -p "$hosts"
  (
    flock 9
    local built=$hosts_root/build/release/lib/libplait.so installed=$hosts_prefix/lib/libplait.so
    [ -e "$built" ] || { echo "$built is not there: tests/check --build makes it" >&2; exit 1; }
    [ -e "$hosts_prefix/.installed" ] && [ ! "$built" -nt "$hosts_prefix/.installed" ] &&
      [ -e "$installed" ] && exit 0
    rm -rf "$hosts_prefix"
    local component
    for component in runtime development; do
      cmake --install "$hosts_root/build/release" --prefix "$hosts_prefix" --component $component \
        >"$hosts/install.log" 2>&1 || { cat "$hosts/install.log" >&2; exit 1; }
    done
    touch -r "$built" "$hosts_prefix/.installed"
  ) 9>"$hosts/lock"
}

export PKG_CONFIG_PATH=$hosts_prefix/lib/pkgconfig
export LD_LIBRARY_PATH=$hosts_prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

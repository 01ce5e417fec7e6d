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

# Go and Rust without a network; what their tools make and keep is under build/hosts.
hosts_go() {
  local out=$hosts/go
  mkdir -p "$out"
  export GOCACHE=$out/cache GOPATH=$out/path GOFLAGS="-mod=mod -buildvcs=false" GOPROXY=off GOTOOLCHAIN=local CGO_ENABLED=1
  # What cgo made of another header is not taken from the cache.
  export CGO_CFLAGS="-O2 -g -DPLAIT_HEADERS=0x$(cat "$hosts_prefix"/include/plait/*.h | sha1sum | cut -c1-8)"
}
hosts_rust() { # sets `cargo`
  export CARGO_TARGET_DIR=$hosts/rust CARGO_HOME=$hosts/rust/home CARGO_TERM_COLOR=never RUST_BACKTRACE=0
  # The distribution's tools are the oldest that the crates support.
  cargo=cargo
  if [ -x /usr/bin/cargo ] && [ -x /usr/bin/rustc ] && [ -x /usr/bin/rustdoc ]; then
    cargo=/usr/bin/cargo
    export RUSTC=/usr/bin/rustc RUSTDOC=/usr/bin/rustdoc
  fi
}

# Builds the samples of languages, and the bindings that they need; shows what did not build.
hosts_build() { # LANGUAGE…
  local language log sample=$hosts_root/samples/host
  for language in "$@"; do
    log=$hosts/$language.log
    mkdir -p "$hosts/$language"
    # shellcheck disable=SC2046
    case $language in
      c) cc -O1 "$sample/c/train.c" -o "$hosts/c/train" $(pkg-config --cflags --libs plait) ;;
      cpp) c++ -std=c++20 -O1 "$sample/cpp/train.cc" -o "$hosts/cpp/train" $(pkg-config --cflags --libs plait) ;;
      *) "$hosts_root/tests/bindings/$language.sh" build ;;
    esac >"$log" 2>&1 && continue
    echo "The programs of $language do not build:" >&2
    tail -n 20 "$log" | sed 's/^/    | /' >&2
    return 1
  done
}

export PKG_CONFIG_PATH=$hosts_prefix/lib/pkgconfig
export LD_LIBRARY_PATH=$hosts_prefix/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}

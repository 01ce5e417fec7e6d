#!/usr/bin/env bash
# The Python binding: builds the package against the installed library and runs the tests of tests/bindings/python.
# Prints TAP.
#   python.sh [NAME…]       default: all; NAME as tests/bindings/python/run.py takes it
#   python.sh build         only builds
set -u
. "$(dirname "${BASH_SOURCE[0]}")/../support/hosts.sh"
hosts_install && "$hosts_root/bindings/python/build" || { echo "not ok - python: build the package"; exit 1; }
export C_TRAIN=$hosts/python/c.train
source=$hosts_root/samples/host/c/train.c
if [ "$source" -nt "$C_TRAIN" ] || [ "$hosts_prefix/.installed" -nt "$C_TRAIN" ]; then
  # shellcheck disable=SC2046
  "${CC:-cc}" -O1 "$source" -o "$C_TRAIN" $(pkg-config --cflags --libs plait) ||
    { echo "not ok - python: build the C sample"; exit 1; }
fi
[ "${1:-}" = build ] && exit 0
export PYTHONPATH=$hosts/python PYTHONDONTWRITEBYTECODE=1
exec "${PYTHON:-python3}" "$hosts_root/tests/bindings/python/run.py" "$@"

#!/usr/bin/env bash
# The Rust binding on an installed Plait: the tests of both crates (layout against the header, conformance list
# of every binding, memory, examples of the documentation) and the sample programs. Prints TAP.
#
#   tests/bindings/rust.sh [build]    build stops before the tests
set -u
. "$(dirname "$0")/../support/tap.sh"
. "$root/tests/support/hosts.sh"
out=$hosts/rust
hosts_rust
crates=$root/bindings/rust/Cargo.toml sample=$root/samples/host/rust/Cargo.toml

build() {
  hosts_install && mkdir -p "$out" &&
    "$cargo" build --offline --locked --manifest-path "$sample" &&
    "$cargo" test --offline --locked --no-run --manifest-path "$crates" &&
    cc -O1 -o "$out/c.train" "$root/samples/host/c/train.c" $(pkg-config --cflags --libs plait)
}
build >out 2>err && ! grep -A9 '^warning' err >out
judge $? "crates, tests and samples build without a warning"
[ $bad = 0 ] || exit 1
[ "${1:-}" = build ] && exit 0

# Each test of a workspace becomes a line; what failed is shown whole.
cargo_test() { # MANIFEST
  local line name code
  "$cargo" test --offline --locked --no-fail-fast --manifest-path "$1" >log 2>err
  code=$?
  grep -E '^test .* \.\.\. (ok|FAILED)$' log >results
  while read -r line; do
    name=${line#test }
    case $line in
      *' ok') number=$((number + 1)) && echo "ok $number - ${name% ... ok}" ;;
      *) number=$((number + 1)) bad=1 && echo "not ok $number - ${name% ... FAILED}" ;;
    esac
  done <results
  if [ $code != 0 ] || [ ! -s results ]; then
    sed -n '/^failures:/,$p' log | head -n 150 | sed 's/^/# /'
    head -n 40 err | sed 's/^/# /'
    mv results out
    grep -q FAILED out || judge 1 "the tests of $1 run to their end"
  fi
}
cargo_test "$crates"
cargo_test "$sample"

"$cargo" doc --offline --locked --no-deps --manifest-path "$crates" >out 2>err && ! grep -A9 '^warning' err >out &&
  [ -s "$out/doc/plait/struct.Engine.html" ]
judge $? "rustdoc describes both crates without a warning"

config='{"model": {"family": "llama", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256, "sequence_length": 32},
  "train": {"global_batch": 4, "dropout": 0.1}, "threads": 1, "run": {"steps": 30},
  "optimizer": {"lr": 3e-3, "lr_schedule": "cosine", "lr_warmup_steps": 5, "lr_decay_steps": 30}'
echo "$config}" >one.json
echo "$config, \"layout\": {\"tensor\": 2}}" >tensor.json
echo "$config, \"layout\": {\"data\": 2}}" >data.json
cp "$root/LICENSE" text
train() { "$out/debug/train" "$@" >out 2>err </dev/null; }
by_c() { "$out/c.train" "$@" >expected 2>err </dev/null; }

by_c tensor.json text && train tensor.json text && cmp out expected >>err && [ "$(wc -w <expected)" = 30 ] &&
  grep -q '^step 30/30 loss [0-9.]* | [0-9]* tokens/s$' err
judge $? "the sample prints the 30 losses of the C sample, bit for bit"

"$out/debug/train" tensor.json text --steps 100000 --checkpoint saved >out 2>err </dev/null &
runner=$!
for _ in $(seq 400); do
  grep -qs '^step 5/' err && break
  sleep 0.05
done
kill -TERM $runner 2>/dev/null
wait $runner
code=$?
mv out stopped
done_steps=$(wc -w <stopped)
[ $code = 3 ] && [ "$done_steps" -ge 5 ] && train tensor.json text --steps $((done_steps + 4)) --checkpoint saved --resume &&
  by_c tensor.json text --steps $((done_steps + 4)) && [ "$(cat stopped out | tr '\n' ' ')" = "$(cat expected) " ]
judge $? "SIGTERM stops the sample with exit code 3; what was saved goes on with the same losses"

mkdir meeting
"$out/debug/pair" one.json text 1 meeting --steps 20 >second 2>second.err </dev/null &
second=$!
"$out/debug/pair" one.json text 0 meeting --steps 20 >out 2>err </dev/null && wait $second &&
  by_c data.json text --steps 20 && cmp out expected >>err && cmp second expected >>err
judge $? "two processes that meet by cards print the losses that C has in one"

sed 's/"layers"/"leyers"/' one.json >wrong.json
train wrong.json text
[ $? = 1 ] && grep -q '^train: INVALID_ARGUMENT: argument: ' err && [ ! -s out ] && [ "$(wc -l <err)" = 1 ]
judge $? "an error of the library is one line of stderr, and exit code 1"
train one.json
code=$?
train one.json text --resume
other=$?
[ $code = 2 ] && [ $other = 2 ] && grep -q '^usage: train ' err
judge $? "a wrong command line is exit code 2"
exit $bad

#!/usr/bin/env bash
# The Go binding on an installed library, built from its sources and offline: its format, what vet says, the
# conformance list with every check of pointers and a collection at every turn, and the samples beside those of C.
# Prints TAP.
#
#   go.sh [build | PATTERN]    build stops before the tests; PATTERN: the tests of the package that match, alone
#   go.sh abuse                the careless host of tests/bindings/go/abuse alone
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../support/tap.sh"
. "$here/../support/hosts.sh"
hosts_install >out 2>err
judge $? "the library is installed"
[ $bad = 0 ] || exit 1

out=$hosts/go
hosts_go

at() { (cd "$1" && "${@:2}"); } # FOLDER COMMAND…

# Runs a program of tests in the folder of its package; a line for each test, and what a failed one printed.
run_tests() { # PROGRAM FOLDER ARGUMENT…
  at "$2" env GODEBUG=cgocheck=2 GOGC=1 "$1" -test.v "${@:3}" >log 2>&1
  local code=$?
  awk -v number="$number" '
    /^=== RUN / { text = ""; next }
    /^--- / { print ($2 == "PASS:" ? "ok " : "not ok ") ++number " - " $3
              if ($2 != "PASS:") printf "%s", text
              text = ""; next }
    { text = text "# " $0 "\n" }' log | tee results
  number=$((number + $(grep -cE '^(not )?ok ' results)))
  ! grep -q '^not ok ' results || bad=1
  { grep -m 1 '^panic: ' log; tail -n 11 log; } >err
  [ $code = 0 ] && grep -q '^ok ' results
  judge $? "all tests of $(basename "$1") pass"
}

if [ "${1:-}" = abuse ]; then
  at "$here/go" go vet ./... >out 2>err && at "$here/go" go build -o "$out/abuse" ./abuse >out 2>err
  judge $? "the careless host builds"
  [ $bad = 0 ] || exit 1
  GODEBUG=cgocheck=2 "$out/abuse" || bad=1
  exit $bad
fi

sample=$root/samples/host/go
build() {
  at "$root/bindings/go" go vet ./... && at "$root/bindings/go" go test -c -o "$out/plait.test" . &&
    at "$sample" go vet ./... && at "$sample" go build -o "$out" ./train ./pair &&
    at "$sample" go test -c -o "$out/run.test" ./run &&
    cc -O1 -o "$out/c.train" "$root/samples/host/c/train.c" $(pkg-config --cflags --libs plait)
}
build >out 2>err
judge $? "the binding, its tests and the samples build, and vet has nothing to say"
[ $bad = 0 ] || exit 1
[ "${1:-}" = build ] && exit 0
if [ -n "${1:-}" ]; then
  run_tests "$out/plait.test" "$root/bindings/go" -test.run "$1"
  exit $bad
fi
at "$root" gofmt -l bindings/go samples/host/go tests/bindings/go >out 2>err && [ ! -s out ]
judge $? "gofmt has nothing to say"
run_tests "$out/plait.test" "$root/bindings/go"
run_tests "$out/run.test" "$sample/run"

write_config() { # LAYOUT
  echo '{"model": {"family": "llama", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256, "sequence_length": 32},
    "layout": '"$1"', "train": {"global_batch": 4, "dropout": 0.1}, "threads": 1,
    "optimizer": {"lr": 3e-3, "lr_schedule": "cosine", "lr_warmup_steps": 5, "lr_decay_steps": 30}, "run": {"steps": 30}}'
}
write_config '{"tensor": 2}' >train.json
write_config '{"data": 2}' >pair.json
cp "$root/LICENSE" text
train() { "$out/train" "$@" >out 2>err </dev/null; }

"$out/c.train" train.json text >expected 2>err && train train.json text && cmp out expected >>err &&
  [ "$(wc -w <expected)" = 30 ] && grep -q '^step 30/30 loss [0-9.]* | [0-9]* tokens/s$' err
judge $? "the sample prints the 30 losses of the C sample, bit for bit"

timeout 60 "$out/train" train.json text --steps 100000 --checkpoint saved >out 2>err </dev/null &
runner=$!
for _ in $(seq 400); do
  grep -qs '^step 5/' err && break
  sleep 0.05
done
kill -TERM $runner 2>/dev/null
wait $runner
code=$?
mv out stopped
steps=$(wc -w <stopped)
[ $code = 3 ] && [ "$steps" -ge 5 ] && train train.json text --steps $((steps + 4)) --checkpoint saved --resume &&
  "$out/c.train" train.json text --steps $((steps + 4)) >expected 2>err &&
  [ "$(cat stopped out | tr '\n' ' ')" = "$(cat expected) " ]
judge $? "SIGTERM stops the sample with exit code 3; what was saved goes on with the same losses"

train train.json text --steps
[ $? = 2 ] && grep -q '^usage: train CONFIG TEXT' err
judge $? "a wrong command line ends with exit code 2"
echo '{"model": {"layerz": 1}}' >wrong.json
train wrong.json text
[ $? = 1 ] && grep -q '^train: INVALID_ARGUMENT: argument: .*nearest=model.layers' err
judge $? "a wrong configuration ends with exit code 1 and its error"

mkdir cards
"$out/pair" train.json text 0 cards >first 2>first.err </dev/null &
"$out/pair" train.json text 1 cards >second 2>err </dev/null
code=$?
wait $! && [ $code = 0 ] && "$out/c.train" pair.json text >expected 2>>err && cmp first expected && cmp second expected
judge $? "two processes that meet by cards print the losses of one C process, bit for bit"

mkdir readme
sed -n '/^```go$/,/^```$/p' "$root/bindings/go/README.md" | grep -v '^```' >readme/main.go
printf 'module readme\n\ngo 1.19\n\nrequire plait.dev/plait v0.1.0\n\nreplace plait.dev/plait => %s/bindings/go\n' "$root" >readme/go.mod
gofmt -l readme >out 2>err && [ ! -s out ] && at readme go build -o first . >out 2>err && readme/first >out 2>err &&
  awk 'NR == 1 { first = $2 } END { exit !(NR == 50 && $2 < first * 0.8) }' out
judge $? "the program of the README learns"
exit $bad

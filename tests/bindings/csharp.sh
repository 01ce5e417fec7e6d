#!/usr/bin/env bash
# The C# binding on Mono: builds it against an installed Plait, then the conformance list of every binding, the
# sample, the program of the README and the NuGet-shaped folder. Prints TAP.
#
#   csharp.sh            all that
#   csharp.sh FILTER     the conformance cases with FILTER in their names
#   csharp.sh build      only builds
#   csharp.sh abuse      a careless host: tests/bindings/csharp/Abuse.cs
set -u
. "$(dirname "$0")/../support/tap.sh"
. "$root/tests/support/hosts.sh"
out=$hosts/csharp
filter=${1:-}

build() {
  hosts_install && "$root/bindings/csharp/build.sh" "$out" || return 1
  local flags=(-nologo -unsafe -warn:4 -warnaserror -r:"$out/Plait.dll")
  local tests=$root/tests/bindings/csharp sample=$root/samples/host/csharp
  local common=("$tests/Tap.cs" "$tests/Rig.cs")
  mcs "${flags[@]}" -r:System.Numerics -out:"$out/conformance.exe" "${common[@]}" "$sample/CText.cs" \
    "$tests"/*Tests.cs "$tests/Conformance.cs" &&
    mcs "${flags[@]}" -out:"$out/abuse.exe" "${common[@]}" "$tests/Abuse.cs" &&
    mcs "${flags[@]}" -r:System.Numerics -r:Mono.Posix -out:"$out/train.exe" "$sample"/*.cs &&
    cc -std=c11 -Wall -Werror -o "$out/reference" "$tests/reference.c" $(pkg-config --cflags --libs plait) &&
    cc -O1 -o "$out/c.train" "$root/samples/host/c/train.c" $(pkg-config --cflags --libs plait)
}
build >out 2>err
judge $? "the binding, its tests and the sample build without a warning"
[ $bad = 0 ] || exit 1
[ "$filter" = build ] && exit 0
export MONO_PATH=$out TMPDIR=$work # where the tests make their folders

if [ "$filter" = abuse ]; then
  mono --debug "$out/abuse.exe" || bad=1
  exit $bad
fi
mono --debug "$out/conformance.exe" "$out/reference" "$filter" || bad=1
[ -n "$filter" ] && exit $bad

# The sample, in a folder of its own: `run` is what it prints, losses or the end of stderr.
config='{"model": {"family": "llama", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256, "sequence_length": 32},
  "layout": {"tensor": 2}, "train": {"global_batch": 4, "dropout": 0.1}, "threads": 1,
  "optimizer": {"lr": 3e-3, "lr_schedule": "cosine", "lr_warmup_steps": 5, "lr_decay_steps": 30}, "run": {"steps": 30}}'
echo "$config" >train.json
cp "$root/LICENSE" text
train() { mono "$out/train.exe" "$@" >out 2>err </dev/null; }

"$out/c.train" train.json text >expected 2>err && train train.json text && cmp out expected >>err &&
  [ "$(wc -w <expected)" = 30 ] && grep -q '^step 30/30 loss [0-9.]* | [0-9]* tokens/s$' err
judge $? "the sample prints the 30 losses of the C sample, bit for bit"

timeout 120 mono "$out/train.exe" train.json text --steps 100000 --checkpoint saved >out 2>err </dev/null &
runner=$!
for _ in $(seq 1200); do
  grep -qs '^step 5/' err && break
  sleep 0.05
done
kill -TERM $runner 2>/dev/null
wait $runner
code=$?
mv out stopped
done_steps=$(wc -w <stopped)
[ $code = 3 ] && [ "$done_steps" -ge 5 ] &&
  train train.json text --steps $((done_steps + 4)) --checkpoint saved --resume &&
  "$out/c.train" train.json text --steps $((done_steps + 4)) >expected 2>err &&
  [ "$(cat stopped out | tr '\n' ' ')" = "$(cat expected) " ]
judge $? "SIGTERM stops the sample with exit code 3; what was saved goes on with the same losses"

train train.json text --steps
[ $? = 2 ] && grep -q '^usage: train CONFIG TEXT' err
judge $? "a wrong command line ends with exit code 2"
echo '{"model": {"layerz": 1}}' >wrong.json
train wrong.json text
[ $? = 1 ] && grep -q '^train: INVALID_ARGUMENT: argument: ' err
judge $? "a wrong configuration ends with exit code 1 and its error"

# As a user has them: the README's program, and the package's folders alone.
sed -n '/^```csharp$/,/^```$/p' "$root/bindings/csharp/README.md" | grep -v '^```' >first.cs
nuget=$out/nuget
mcs -nologo -warnaserror -r:"$nuget/lib/net472/Plait.dll" -out:first.exe first.cs >out 2>err &&
  MONO_PATH=$nuget/lib/net472 LD_LIBRARY_PATH=$nuget/runtimes/linux-x64/native mono first.exe >out 2>err &&
  awk 'NR == 1 {first = $2} END {exit !(NR == 50 && $2 < first * 0.8)}' out
judge $? "the program of the README learns, with what the package holds and nothing else"
python3 -c '
import sys, xml.dom.minidom
document = xml.dom.minidom.parse(sys.argv[1])
files = [one.getAttribute("src") for one in document.getElementsByTagName("file")]
text = {name: document.getElementsByTagName(name)[0].firstChild.data for name in ("id", "version", "license")}
assert text["id"] == "plait" and text["version"].count(".") == 2 and text["license"] == "LICENSE" and len(files) == 4
' "$nuget/plait.nuspec" >out 2>err && [ -s "$nuget/LICENSE" ] && [ -s "$nuget/lib/net472/Plait.xml" ]
judge $? "plait.nuspec names what the package holds"
exit $bad

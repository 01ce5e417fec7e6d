#!/usr/bin/env bash
# I2: the sources compile for every baseline of x86-64, not for that of one build machine alone.
# The presets compile for x86-64; this compiles a file of each room for x86-64-v4 and native, with
# the commands of the dev preset, which compiles each source by itself. Prints TAP.
set -u
cd "$(dirname "$0")/../.." || exit 2
database=build/dev/compile_commands.json
cmake --preset dev -DPLAIT_TESTS=OFF -DPLAIT_BENCH=OFF >/dev/null || { echo "not ok - the dev preset is configured"; exit 1; }
files="kernels/base/random.cc kernels/device/isa.cc kernels/device/thread_pool.cc kernels/ops/linear.cc
  kernels/reference/linear.cc kernels/cpu/rotary.cc kernels/cpu/span.cc kernels/cpu/linear_onednn.cc
  engine/config/values.cc engine/schedule/generate.cc engine/data/token_file.cc engine/layers/linear.cc
  engine/model/block.cc engine/optimizer/optimizer.cc engine/pipeline/executor.cc
  engine/trainer/rank.cc checkpoint/safetensors.cc capi/src/engine.cc bindings/cli/main.cc"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

python3 - "$database" $files >"$work/commands" <<'PY'
import json, re, shlex, sys
known = {}
for entry in json.load(open(sys.argv[1])):
    known[entry["file"]] = entry
for name in sys.argv[2:]:
    entry = next((e for f, e in known.items() if f.endswith("/" + name)), None)
    if entry is None:
        print(name, "", "", sep="\t")
        continue
    words = shlex.split(entry["command"])
    words = [w for i, w in enumerate(words) if w not in ("-o", "-c") and words[i - 1] != "-o" and w != entry["file"]]
    words = [w for w in words if not re.match(r"-O\d|-g\d?$|-Winvalid-pch$|ccache$|.*/ccache$", w)]
    print(name, entry["directory"], " ".join(map(shlex.quote, words + ["-c", entry["file"]])), sep="\t")
PY

compile() { # MARCH NAME DIRECTORY COMMAND…
  local log="$work/$1.${2//\//_}"
  [ -n "$3" ] || { echo "$2 is not in the build" >"$log.failed"; return; }
  (cd "$3" && eval "$4 -march=$1 -o $log.o") >"$log" 2>&1 || mv "$log" "$log.failed"
  rm -f "$log.o"
}
failed=0
for march in x86-64-v4 native; do
  while IFS=$'\t' read -r name directory command; do
    while [ "$(jobs -rp | wc -l)" -ge "$(nproc)" ]; do wait -n; done
    compile $march "$name" "$directory" "$command" &
  done <"$work/commands"
  wait
  if compgen -G "$work/$march.*.failed" >/dev/null; then
    failed=1
    echo "not ok - a file of each room compiles for $march"
    for log in "$work/$march."*.failed; do echo "# $(basename "$log")"; head -n 8 "$log" | sed 's/^/# /'; done
  else
    echo "ok - a file of each room compiles for $march"
  fi
done
exit $failed

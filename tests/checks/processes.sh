#!/usr/bin/env bash
# Processes on one machine train as ranks of one process do, over sockets and shared memory, also where
# there is too little of that. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"

train() { # METRICS OPTION…: the command that all ways of starting share
  local metrics=$1
  shift
  rm -f "$metrics"
  timeout -k 5 120 "${start[@]}" "$PLAIT" train config.json --metrics "$metrics" --quiet "$@" >out 2>err </dev/null
}

cat "$root/ARCHITECTURE.md" "$root/README.md" >text
"$PLAIT" tokenize text tokens --quiet >out 2>err || exit 1
cat >config.json <<'END'
{"model": {"family": "gpt2", "layers": 4, "hidden": 64, "heads": 4, "vocab_size": 256, "sequence_length": 64},
 "precision": {"compute": "bf16"}, "train": {"global_batch": 8}, "layout": {"micro_batch": 2}, "threads": 1,
 "optimizer": {"lr": 3e-3}, "data": {"train": "tokens", "token_type": "uint16"}, "run": {"steps": 6}}
END

layouts=(
  "--set layout.tensor=2 --set layout.pipeline=2 --set layout.sequence_parallel=true"
  "--set layout.data=4 --set layout.zero=3"
  "--set layout.pipeline=2 --set layout.data=2 --set layout.zero=2"
)
for layout in "${layouts[@]}"; do
  start=()
  train metrics.one $layout && [ "$(numbers metrics.one | wc -l)" = 6 ]
  judge $? "in one process: ${layout//--set layout./}"
  for transport in tcp shm auto; do
    for processes in 2 4; do
      start=("$root/samples/launch" --processes $processes --local-ranks $((4 / processes)) --)
      train metrics.many $layout --set network.transport=$transport &&
        [ "$(numbers metrics.one)" = "$(numbers metrics.many)" ]
      judge $? "the same numbers in $processes processes by $transport: ${layout//--set layout./}"
    done
  done
done

# R13, H4: a mount of its own takes the place of /dev/shm, for these processes alone.
isolate=(unshare -m)
[ "$(id -u)" = 0 ] || isolate=(unshare -rm)
cat >small.sh <<'END'
mount -t tmpfs -o size=1m small /dev/shm && exec "$@"
END
if "${isolate[@]}" sh -c 'mount -t tmpfs -o size=1m small /dev/shm' 2>/dev/null; then
  start=("${isolate[@]}" sh "$work/small.sh" "$root/samples/launch" --processes 2 --local-ranks 2 --)
  train metrics.many ${layouts[0]} --set network.transport=shm
  [ $? = 1 ] && [ "$(grep -c '^plait: RESOURCE_EXHAUSTED: no_space: .*need=.*have=' err)" = 2 ]
  judge $? "a small /dev/shm is no_space with need and have in every process"
  start=()
  train metrics.one ${layouts[0]}
  start=("${isolate[@]}" sh "$work/small.sh" "$root/samples/launch" --processes 2 --local-ranks 2 --)
  train metrics.many ${layouts[0]} --set network.transport=auto && [ "$(numbers metrics.one)" = "$(numbers metrics.many)" ]
  judge $? "a small /dev/shm: auto goes by sockets"
fi
[ -z "$(find /dev/shm -maxdepth 1 -name 'plait-*')" ]
judge $? "nothing is left in /dev/shm"
exit $bad

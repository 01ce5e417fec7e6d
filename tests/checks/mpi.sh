#!/usr/bin/env bash
# Processes of a real MPI launcher train as ranks of one process do. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"

mpi() { # PROCESSES OPTION…: trains under mpirun into metrics.mpi
  local processes=$1
  shift
  : >metrics.mpi
  timeout -k 5 90 mpirun --allow-run-as-root --oversubscribe -n "$processes" "$PLAIT" train config.json \
    --metrics metrics.mpi --quiet --from-env openmpi --join "127.0.0.1:$port" --set network.transport=mpi "$@" \
    >out 2>err </dev/null
}
runs() { # the processes of the last run
  local entry
  for entry in /proc/[0-9]*; do
    { tr '\0' ' ' <"$entry/cmdline"; } 2>/dev/null | grep -q "^$PLAIT train config.json --metrics metrics.mpi .*=1000001" && echo "${entry#/proc/}"
  done
}

port=$((20000 + RANDOM % 10000))
head -c 60000 "$root/ARCHITECTURE.md" "$root/README.md" 2>/dev/null >text
"$PLAIT" tokenize text tokens --quiet >out 2>err || exit 1
cat >config.json <<'END'
{"model": {"family": "gpt2", "layers": 4, "hidden": 64, "heads": 4, "vocab_size": 256, "sequence_length": 64},
 "precision": {"compute": "fp32"}, "train": {"global_batch": 8}, "layout": {"micro_batch": 2}, "threads": 1,
 "optimizer": {"lr": 3e-3}, "data": {"train": "tokens", "token_type": "uint16"}, "run": {"steps": 6}}
END

[ -e "$(dirname "$PLAIT")/../lib/libplait_mpi.so" ]
judge $? "the plug-in was built"

try() { # PROCESSES WHAT OPTION…
  local processes=$1 what=$2
  shift 2
  rm -f metrics.one
  "$PLAIT" train config.json --metrics metrics.one --quiet "$@" >out 2>err </dev/null &&
    mpi "$processes" "$@" && [ "$(numbers metrics.one | wc -l)" = 6 ] &&
    [ "$(numbers metrics.one)" = "$(numbers metrics.mpi)" ]
  judge $? "$what: the same loss, norm and rate in every step"
}
try 2 "two processes, tensor" --set layout.tensor=2
try 2 "two processes, pipeline" --set layout.pipeline=2
try 4 "four processes, tensor and pipeline" --set layout.tensor=2 --set layout.pipeline=2
try 4 "four processes, data and ZeRO 2" --set layout.data=4 --set layout.zero=2

# Without a launcher each process is alone in its own world of MPI.
"$root/samples/launch" --processes 2 -- timeout -k 5 60 "$PLAIT" train config.json --quiet --set layout.tensor=2 \
  --set network.transport=mpi >out 2>err </dev/null
code=$?
[ $code = 2 ] && grep -q '^plait: INVALID_ARGUMENT: topology: .*launcher' err
judge $? "processes without a launcher are refused"

# A process that is killed takes the others with it, at the latest by the launcher's hand.
mpi 2 --set layout.tensor=2 --set run.steps=1000001 &
runner=$!
for _ in $(seq 100); do
  [ "$(grep -c '"loss"' metrics.mpi)" -ge 3 ] && break
  sleep 0.1
done
victim=$(runs | head -n 1)
[ -n "$victim" ] && kill -9 "$victim"
judge $? "a process is killed"
wait $runner
[ $? != 0 ]
judge $? "the run ends with a failure"
sleep 0.5
[ -z "$(runs)" ]
judge $? "no process is left"
exit $bad

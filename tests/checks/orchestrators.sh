#!/usr/bin/env bash
# samples/orchestrators: every recipe is run as it stands, with what its orchestrator does around it (Open MPI's
# mpirun is the real one): stopped, resumed, and with a process that is killed. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
recipes=$root/samples/orchestrators
export STAND_IN=$work PATH=$(dirname "$PLAIT"):$root/tests/support/orchestrators/bin:$PATH
export PYTHONPATH=$root/tests/support/orchestrators/python PYTHONDONTWRITEBYTECODE=1

head -c 60000 "$root/ARCHITECTURE.md" >text
run tokenize text train.tokens --quiet || exit 1
cat >config.json <<END
{"model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256, "sequence_length": 32},
 "train": {"global_batch": 8}, "layout": {"data": 2, "micro_batch": 4}, "optimizer": {"lr": 3e-3}, "threads": 1,
 "data": {"train": "$work/train.tokens"}, "run": {"steps": 1000000, "save_every": 20}, "checkpoint": {"keep_last": 3}}
END

port() { # one that is free, below those that the system gives out by itself
  python3 -c '
import random, socket
while True:
    number = random.randrange(20000, 30000)
    try:
        socket.create_server(("", number)).close()
    except OSError:
        continue
    print(number)
    break'
}
begin() { # COMMAND…: in the background, as $runner
  timeout -k 5 200 "$@" >out 2>err </dev/null &
  runner=$!
}
tell() { pkill -TERM -P $runner; } # the command itself: timeout would tell its group as well
ended() { # CODE: of the last command that was begun
  wait $runner
  local code=$?
  [ $code = "$1" ] || { echo "exit code $code, expected $1" >>err; false; }
}
starts() { grep -c '"config"' metrics 2>/dev/null; }
trained() { # STARTS: waits until steps were made after so many starts
  local try
  for try in $(seq 400); do
    awk -v want="$1" '/"config"/ {starts++; steps = 0} /"loss"/ {steps++} END {exit !(starts >= want && steps >= 5)}' \
      metrics 2>/dev/null && return 0
    kill -0 $runner 2>/dev/null || break
    sleep 0.1
  done
  echo "there were no steps" >>err
  return 1
}
# Each start but the first goes on after a step that was saved; after a stop it is the last one that was made.
goes_on() { # KIND OF EACH START: stopped | lost
  check '
runs = []
for line in map(json.loads, open("metrics")):
    if "config" in line: runs.append([])
    elif "loss" in line: runs[-1].append(line["step"])
kinds = "'"$*"'".split()
assert len(runs) == len(kinds) + 1, [r[:1] + r[-1:] for r in runs]
assert runs[0][0] == 1
for kind, before, after in zip(kinds, runs, runs[1:]):
    assert after[0] == before[-1] + 1 if kind == "stopped" else 1 < after[0] <= before[-1] + 1, (kind, before[-1], after[0])'
}
process() { sed -n "${1}p" tasks; } # NUMBER: its id
fresh() { rm -rf ROOT metrics tasks requeued; }
last_step() { tail -n 1 metrics | grep -oE '"step": ?[0-9]+' | grep -oE '[0-9]+'; }

for script in "$recipes"/resume "$recipes"/*/*; do
  case $(head -n 1 "$script") in
    *bash) bash -n "$script" ;;
    *python3) python3 -c 'compile(open(__import__("sys").argv[1]).read(), "script", "exec")' "$script" ;;
    *) [[ $script = *.yaml || $script = */Dockerfile ]] ;;
  esac || echo "$script" >>bad_scripts
done 2>err
[ ! -e bad_scripts ]
judge $? "scripts are well formed"
for manifest in "$recipes"/kubernetes/*.yaml; do
  python3 "$root/tests/support/orchestrators/pods.py" check "$manifest" >out 2>err
  judge $? "the parts of a manifest fit each other: $(basename "$manifest")"
done

# resume: --resume where there is a step; codes; signals.
mkdir -p ROOT/tmp-1
"$recipes/resume" ROOT -- echo command >out 2>err && grep -qx command out && mkdir ROOT/step-000000000001 &&
  "$recipes/resume" ROOT -- echo command >out 2>err && grep -qx 'command --resume' out
judge $? "resume adds --resume where there is a step"
for code in 0 2 3 4; do "$recipes/resume" none --code 3=143 --code 4=143 -- sh -c "exit $code"; echo $?; done >out 2>err
[ "$(tr '\n' ' ' <out)" = "0 2 143 143 " ]
judge $? "resume translates codes"
cat >told.sh <<'END'
trap 'echo told >>told' TERM
echo >ready
for _ in $(seq 100); do sleep 0.05; [ -s told ] && { sleep 0.3; exit 3; }; done
END
setsid "$recipes/resume" none --code 3=143 -- bash told.sh >out 2>err &
runner=$!
for _ in $(seq 100); do [ -e ready ] && break; sleep 0.05; done
kill -TERM -- -$runner
ended 143 && [ "$(wc -l <told)" = 1 ]
judge $? "a signal to the whole group reaches the command once"
"$recipes/resume" none --code 3 -- true >out 2>err
[ $? = 2 ] && "$recipes/resume" none -- >out 2>err
[ $? = 2 ] && grep -q '^resume ROOT' err
judge $? "mistakes in the options of resume are refused"

# Slurm: sbatch runs the script where the job is; before the limit the tasks of the step get the signal.
job=$(($(port) - 20000)) # from which the script makes its port
slurm() { begin env SLURM_JOB_ID=$job SLURM_JOB_NODELIST=localhost SLURM_NTASKS=2 "$@"; }
fresh
slurm "$recipes/slurm/plait.sbatch" config.json ROOT --metrics metrics
trained 1 && kill -TERM "$(process 1)" "$(process 2)"
ended 3 && [ "$(cat requeued)" = "$job" ]
judge $? "Slurm: the signal before the limit saves, and the job is queued again"
slurm "$recipes/slurm/plait.sbatch" config.json ROOT --metrics metrics
trained 2 && kill -KILL "$(process 2)"
ended 137 && [ "$(wc -l <requeued)" = 2 ]
judge $? "Slurm: so it is when a task is killed"
slurm env SLURM_RESTART_COUNT=20 "$recipes/slurm/plait.sbatch" config.json ROOT --metrics metrics
trained 3 && kill -KILL "$(process 1)"
ended 137 && [ "$(wc -l <requeued)" = 2 ]
judge $? "Slurm: but not for ever"
slurm "$recipes/slurm/plait.sbatch" config.json ROOT --metrics metrics --set run.steps=$(($(last_step) + 100))
ended 0 && [ "$(wc -l <requeued)" = 2 ] && goes_on stopped lost lost
judge $? "Slurm: each start goes on where it should, and the end is the end"

# Open MPI itself.
fresh
export MPIRUN_OPTIONS="--allow-run-as-root --oversubscribe"
join=127.0.0.1:$(port)
begin "$recipes/openmpi/run" 2 "$join" config.json ROOT --metrics metrics
trained 1 && tell
ended 3
judge $? "Open MPI: SIGTERM saves, and the code is 3"
begin "$recipes/openmpi/run" 2 "$join" config.json ROOT --metrics metrics
trained 2 && kill -KILL "$(pgrep -f "^plait train config.json .*--join $join" | tail -n 1)"
judge $? "Open MPI: a process is killed"
trained 3 && tell
ended 3 && grep -q 'lost a process' err && goes_on stopped lost
judge $? "Open MPI: the run starts again by itself; each start goes on where it should"

# torchrun, whose agent holds MASTER_PORT.
fresh
export PLAIT_PORT=$(port)
begin "$recipes/torchrun/run" 1 2 localhost config.json ROOT --metrics metrics
trained 1 && tell
ended 1 && grep -qx 'workers ended with 3 3' err
judge $? "torchrun: SIGTERM saves in all workers"
begin "$recipes/torchrun/run" 1 2 localhost config.json ROOT --metrics metrics
trained 2 && kill -KILL "$(process 1)"
trained 3 && tell
ended 1 && grep -qE '^workers ended with -9 4' err && grep -qx 'workers ended with 3 3' err && goes_on stopped lost
judge $? "torchrun: a killed worker takes the others with it, and all start again where they should"

# Kubernetes.
pods() { # MANIFEST OPTION…
  begin python3 "$root/tests/support/orchestrators/pods.py" run "$recipes/kubernetes/$1" /data/="$work/" \
    /etc/plait/="$work/" /usr/share/plait/orchestrators="$recipes" plait-0.plait.default.svc.cluster.local=127.0.0.1 \
    plait-master-0=127.0.0.1 29500="$pods_port" 23456="$pods_port" -- --set run.checkpoint="$work/ROOT" "${@:2}"
}
stop_pods() { [ "$manifest" = indexed-job.yaml ] && echo 3 3 || echo 143 143; }
lost_pods() { [ "$manifest" = indexed-job.yaml ] && echo 137 4 || echo 137 143; }
for manifest in indexed-job.yaml pytorch-job.yaml; do
  rm -rf metrics.jsonl checkpoints
  fresh
  ln -s ROOT checkpoints
  ln -sf metrics.jsonl metrics
  pods_port=$(port)
  pods $manifest
  trained 1 && tell
  ended 0 && grep -qx "codes $(stop_pods)" out
  judge $? "$manifest: SIGTERM to the pods saves"
  pods $manifest
  trained 2 && kill -KILL "$(grep '^pods' out | cut -d' ' -f2)"
  ended 0 && grep -qx "codes $(lost_pods)" out
  judge $? "$manifest: a killed pod takes the other with it, both to be replaced"
  pods $manifest --set run.steps=$(($(last_step) + 100))
  ended 0 && grep -qx 'codes 0 0' out && goes_on stopped lost
  judge $? "$manifest: the replacements go on where they should"
done

# Ray.
rm -f checkpoints metrics.jsonl
fresh
begin python3 "$recipes/ray/run.py" 2 config.json ROOT --metrics metrics
trained 1 && tell
ended 3
judge $? "Ray: SIGTERM saves, and the code is 3"
begin python3 "$recipes/ray/run.py" 2 config.json ROOT --metrics metrics
trained 2 && kill -KILL "$(pgrep -P "$(pgrep -P $runner)" | head -n 1)"
trained 3 && tell
ended 3 && grep -q 'lost a process' err && goes_on stopped lost
judge $? "Ray: a killed process takes the others with it, and all start again where they should"
begin python3 "$recipes/ray/run.py" 2 config.json ROOT --set model.heads=5
ended 2
judge $? "Ray: a mistake is not tried again"
exit $bad

#!/usr/bin/env bash
# Checkpoints of the `plait` program: saved, killed, resumed in other layouts, inspected, compared,
# damaged, verified, converted. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"

# The lines of both files from step FIRST on have the same loss, grad_norm and lr, as text or within a tolerance.
same_steps() { # FIRST FILE FILE [TOLERANCE]
  python3 - "$@" 2>>err <<'END'
import json, sys
first, names = int(sys.argv[1]), sys.argv[2:4]
tolerance = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
def steps(path):
    found = {}
    for line in map(json.loads, open(path)):
        if "loss" in line and line["step"] >= first:
            found[line["step"]] = [line[k] for k in ("loss", "grad_norm", "lr")]
    return found
a, b = map(steps, names)
assert a.keys() == b.keys() and a, (sorted(a), sorted(b))
for step in a:
    for x, y in zip(a[step], b[step]):
        assert x == y or abs(x - y) <= tolerance * abs(y), (step, a[step], b[step])
END
}
flip() { # FILE OFFSET BIT
  python3 -c 'import sys
f = open(sys.argv[1], "r+b"); f.seek(int(sys.argv[2])); b = f.read(1)[0] ^ 1 << int(sys.argv[3])
f.seek(int(sys.argv[2])); f.write(bytes([b]))' "$@"
}
step() { printf 'step-%012d' "$1"; }

cat "$root/README.md" "$root/ARCHITECTURE.md" >text
"$PLAIT" tokenize text tokens --quiet >/dev/null || exit 1
cat >config.json <<'END'
{"model": {"family": "gpt2", "layers": 4, "hidden": 32, "heads": 4, "vocab_size": 256, "sequence_length": 32},
 "train": {"global_batch": 8}, "layout": {"micro_batch": 2}, "optimizer": {"lr": 3e-3},
 "data": {"train": "tokens"}, "run": {"steps": 60, "save_every": 5, "log_every": 1000}, "threads": 1}
END

run train config.json --metrics a.jsonl --set run.checkpoint=A
[ $? = 0 ] && grep -q '^saved step 5  A/step-000000000005  ' err && [ "$(ls A | grep -c '^step-')" = 12 ]
judge $? "a run saves every few steps and says so"
[ "$(cut -d' ' -f2 A/LATEST)" = "$(step 60)" ] && ! ls A | grep -q 'tmp-\|trash-'
judge $? "LATEST names the newest step, and nothing unfinished is left"

# A kill in the middle, and another layout each time.
"$PLAIT" train config.json --metrics b.jsonl --set run.checkpoint=B >out 2>err &
while [ ! -d B/$(step 5) ] && kill -0 $! 2>/dev/null; do sleep 0.01; done  # durable, not only asked for
kill -KILL $!
wait $! 2>/dev/null
[ $? = 137 ] && ! grep -q '"step": 45,' b.jsonl
judge $? "a run is killed in the middle"
run train config.json --resume --metrics c.jsonl --set run.checkpoint=B --set run.steps=45 --set layout.pipeline=2 \
  --set layout.interleave=2 && grep -q '^going on after step ' err && head -n 1 c.jsonl | grep -q '"config"'
judge $? "--resume goes on in another layout"
first=$(check 'print(next(l["step"] for l in map(json.loads, open("c.jsonl")) if "loss" in l))')
[ "$first" -ge 6 ] && [ $((first % 5)) = 1 ]
judge $? "it goes on after a saved step"
run train config.json --resume --metrics c.jsonl --set run.checkpoint=B --set layout.data=2 --set layout.zero=1 \
  --set layout.tensor=2 && same_steps 46 c.jsonl a.jsonl 1e-5
judge $? "a second resume, tensor and data parallel: equal losses within rounding"
check '
def steps(path, low, high): return {l["step"]: [l[k] for k in ("loss", "grad_norm", "lr")] for l in map(json.loads, open(path)) if low <= l.get("step", 0) <= high and "loss" in l}
first = int("'"$first"'"); a, c = steps("a.jsonl", first, 45), steps("c.jsonl", first, 45)
assert a == c and len(a) == 46 - first, (a, c)'
judge $? "the pipelined resume has the very losses of the uninterrupted run"
run inspect A/$(step 45) --diff B/$(step 45) && grep -q ' 0 differ$' out
judge $? "and the very state"
run inspect A/$(step 45) --diff A/$(step 50)
[ $? = 1 ] && grep -q '^embedding.token.weight (param): element \[0, ' out && grep -q '^progress.step (run): 45 and 50$' out
judge $? "inspect --diff names the first element that differs"
run inspect A/$(step 45) --diff A/$(step 50) --json
[ $? = 1 ] && check 'l = [json.loads(x) for x in open("out")]; assert l[-1]["different"] == len(l) - 1 > 10 and l[0]["name"]'
judge $? "inspect --diff --json"

run inspect A && grep -q "^60  *12  .*$(step 60)\$" out && grep -q '^layout  *tensor 1, pipeline 1, data 1' out &&
  grep -q 'final_norm.weight  *moment2  float32  \[32\]' out && grep -q '^parameters  ' out
judge $? "inspect of a root: a table of steps, then the newest"
run inspect A --json && check '
lines = [json.loads(l) for l in open("out")]
assert [s["step"] for s in lines[0]["steps"]] == list(range(60, 0, -5)) and lines[0]["bad"] == []
assert lines[1]["step"] == 60 and lines[1]["progress"]["samples"] == 480 and lines[1]["layout"]["tensor"] == 1
assert all(len(l["digest"]) == 16 for l in lines[2:]) and {l["kind"] for l in lines[2:]} == {"param", "moment1", "moment2"}'
judge $? "inspect --json"
run inspect B/$(step 60) && grep -q '^layout  *tensor 2, pipeline 1, data 2, interleave 1, zero 1' out
judge $? "inspect of a step"

run verify A && run verify A --full && run verify A/$(step 5) --full --json && check 'assert json.load(open("out"))["step"] == 5'
judge $? "verify of good steps"
cp -r A D
flip D/$(step 60)/s00000.plt 5000 3
expect 5 "DATA_LOSS: corrupt: .*file=s00000.plt offset=4096" "verify of a flipped bit names file and offset" verify D/$(step 60)
run verify D
[ $? = 5 ] && grep -q "^damaged  D/$(step 60)/s00000.plt  offset 4096  " out && grep -q 'step  *55' out
judge $? "verify of a root looks at every step"
run verify D --json
[ $? = 5 ] && check 'l = [json.loads(x) for x in open("out")]; assert any("damage" in x for x in l) and l[-1]["error"]["details"]["offset"] == 4096'
judge $? "verify --json"
run train config.json --resume --metrics d.jsonl --set run.checkpoint=D --set run.steps=58 && grep -q "skipped $(step 60): corrupt" err &&
  grep -q '^going on after step 55 ' err && same_steps 56 d.jsonl <(head -n 59 a.jsonl)
judge $? "--resume falls back to the step before, and says so"
mkdir E && cp -r A/$(step 5) E/ && flip E/$(step 5)/MANIFEST 200 0
expect 5 "DATA_LOSS: corrupt: .*MANIFEST" "a damaged manifest" verify E/$(step 5)
expect 2 "NOT_FOUND: no_checkpoint: .*$(step 5)" "--resume with nothing to resume from names what it passed over" \
  train config.json --resume --set run.checkpoint=E
expect 2 'NOT_FOUND: no_checkpoint' "--resume without a checkpoint" train config.json --resume --set run.checkpoint=none
expect 2 'INVALID_ARGUMENT: argument: run.save_every needs' "saving needs a root" train config.json
expect 2 'NOT_FOUND: no_file: .*key=run.checkpoint' "a root without a parent" train config.json --set run.checkpoint=no/root
[ ! -e none ] && [ ! -e no ]
judge $? "nothing is made by what is refused"
expect 2 'FAILED_PRECONDITION: config_mismatch: .*model.layers' "another model" train config.json --resume --set run.checkpoint=A --set model.layers=2
expect 2 'FAILED_PRECONDITION: config_mismatch: .*optimizer.lr' "another learning rate" train config.json --resume --set run.checkpoint=A --set optimizer.lr=1e-3
run train config.json --resume --set run.checkpoint=A --set optimizer.lr=1e-3 --set run.steps=61 \
  --set checkpoint.allow_change='["optimizer.lr"]' --metrics lr.jsonl && grep -q '"lr": 0.001' lr.jsonl
judge $? "is allowed by name"
run train config.json --resume --set run.checkpoint=A --set optimizer.lr=1e-3 --set run.steps=61 &&
  grep -q '^nothing is left to train' err
judge $? "a run that is done says so"

expect 1 'the save of step 5 failed, training goes on: ALREADY_EXISTS: step_exists: ' "a step is never overwritten by itself" \
  train config.json --set run.checkpoint=D --set run.steps=5
grep -q '^plait: ALREADY_EXISTS: step_exists: ' err && grep -q '^plait: the last steps are not saved' err
judge $? "and the end of the run says that its state is not saved"
run train config.json --set run.checkpoint=D --set run.steps=5 --set checkpoint.on_existing=replace &&
  run inspect D/$(step 5) --diff A/$(step 5)
judge $? "unless it is wanted"
run train config.json --set run.checkpoint=K --set checkpoint.keep_last=2 --set checkpoint.keep_every=20 &&
  [ "$(ls K | grep '^step-' | tr '\n' ' ')" = "$(step 20) $(step 40) $(step 55) $(step 60) " ]
judge $? "retention keeps the newest steps and those that divide"

long=(train config.json --set run.steps=100000000 --set run.save_every=0)
"$PLAIT" "${long[@]}" --metrics t.jsonl --set run.checkpoint=T >out 2>err &
while ! grep -q '"step": 3,' t.jsonl 2>/dev/null && kill -0 $! 2>/dev/null; do sleep 0.01; done
kill -TERM $!
wait $!
[ $? = 3 ] && last=$(check 'print([json.loads(l) for l in open("t.jsonl")][-1]["step"])') && [ -d T/$(step $last) ] &&
  grep -q '^plait: stopped on request' err
judge $? "SIGTERM saves the state and ends with code 3"
run train config.json --resume --set run.checkpoint=T --set run.steps=$((last + 3)) --metrics t2.jsonl &&
  grep -q "\"step\": $((last + 1))," t2.jsonl
judge $? "from which the run goes on"
"$PLAIT" "${long[@]}" --set run.checkpoint=T --metrics u.jsonl --quiet >/dev/null 2>&1 &
while ! grep -q '"step": 2,' u.jsonl 2>/dev/null && kill -0 $! 2>/dev/null; do sleep 0.01; done
kill -TERM $!
wait $!
run train config.json --set run.checkpoint=T --set run.steps=2 --set run.save_every=1 --set checkpoint.on_existing=replace
judge $? "the lock of a root ends with its run"

run convert reshard A/$(step 60) R1 --set layout.tensor=2 --set layout.pipeline=2 --set layout.data=2 &&
  run convert reshard R1 R2 --set layout.tensor=4 --set layout.data=2 --set layout.zero=1 && run convert reshard R2 R3 &&
  [ "$(ls R1/$(step 60) | grep -c plt)" = 8 ] && cmp A/$(step 60)/s00000.plt R3/$(step 60)/s00000.plt >out &&
  cmp A/$(step 60)/s00000.idx R3/$(step 60)/s00000.idx >out && run verify R2 --full
judge $? "resharded there and back, the shards are byte-equal"
run train config.json --resume --metrics r.jsonl --set run.checkpoint=R1 --set run.steps=65 --set layout.pipeline=4 && grep -q '"step": 65,' r.jsonl
judge $? "a resharded step resumes"
expect 2 'INVALID_ARGUMENT: argument: .*layout.tensor' "a layout that does not fit" convert reshard A/$(step 5) R4 --set layout.tensor=3
expect 1 'ALREADY_EXISTS: step_exists: ' "a conversion overwrites nothing" convert reshard A/$(step 60) R1
case=$root/tests/oracle/cases/gpt2_tiny
run convert import "$case" H --set layout.tensor=2 --set layout.pipeline=2 && run verify H --full && run convert export H hf &&
  run inspect hf --diff "$case" && grep -q ' 0 differ$' out
judge $? "Hugging Face to a checkpoint and back, bit-equal"
run convert export A/$(step 60) hf2 && run inspect hf2 --json && check 'assert json.loads(open("out").readline())["format"] == "hugging_face"'
judge $? "a trained step is exported"
run eval --load hf2 --set data.evaluate=tokens --set train.global_batch=4 --set evaluate.batches=2 --json && cp out hf.eval &&
  run eval --load A/$(step 60) --set data.evaluate=tokens --set train.global_batch=4 --set evaluate.batches=2 --json &&
  check 'a, b = [json.loads(open(f).readline())["eval_loss"] for f in ("out", "hf.eval")]; assert a == b and 1 < a < 6'
judge $? "eval of a step and of its export are equal"
run generate --load A --prompt 'The' --set generate.max_tokens=5 --json && check 'assert json.load(open("out"))["prompt"] == "The"'
judge $? "generate from a root"
expect 2 'INVALID_ARGUMENT: argument: .*model.layers=3 model.layers.loaded=4' "a model key that contradicts --load" \
  generate --load A --prompt a --set model.layers=3
run train config.json --load A/$(step 60) --set checkpoint.weights_only=true --set run.checkpoint=W --set run.steps=5 --metrics w.jsonl &&
  check 'l = [json.loads(x) for x in open("w.jsonl")]; assert l[1]["step"] == 1 and l[1]["loss"] < 4.5'
judge $? "--load of weights alone starts a new run"

"$root/samples/oracle" "$case" o.jsonl --quiet --set run.steps=8 --set run.save_every=4 --set run.checkpoint=OA >out 2>err &&
  "$root/samples/oracle" "$case" p.jsonl --quiet --set run.steps=4 --set run.checkpoint=OB >out 2>err &&
  "$root/samples/oracle" "$case" q.jsonl --quiet --set run.steps=8 --set run.checkpoint=OB --resume >out 2>err &&
  same_steps 5 q.jsonl o.jsonl && run inspect OA/$(step 8) --diff OB/$(step 8)
judge $? "samples/oracle saves and resumes bit-exactly"

echo "1..$number"
exit $bad

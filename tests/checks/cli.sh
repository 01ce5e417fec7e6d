#!/usr/bin/env bash
# The `plait` program on small real input: results, files, exit codes, signals. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
error_lines=1

json_lines() { python3 -c 'import json, sys; [json.loads(line) for line in open(sys.argv[1])]' "$1"; }

# A text with something to learn, and its tokens.
python3 - <<'END'
import random
random.seed(5)
words = "the cat and a dog sat on mats while rain fell over old towns near green hills".split()
open("text", "w").write("".join(" ".join(random.choice(words) for _ in range(9)) + ".\n" for _ in range(900)))
open("binary", "wb").write(bytes(random.randrange(256) for _ in range(70001)))
open("empty", "wb")
END
cat >config.json <<'END'
{"model": {"family": "gpt2", "layers": 2, "hidden": 64, "heads": 2, "vocab_size": 256, "sequence_length": 64},
 "train": {"global_batch": 16}, "layout": {"micro_batch": 8}, "optimizer": {"lr": 3e-3},
 "data": {"train": "tokens", "split": [0.9, 0.1]}, "evaluate": {"batches": 2},
 "generate.max_tokens": 20, "run": {"steps": 30, "evaluate_every": 10}}
END

run && grep -q 'plait train CONFIG' out
judge $? "plait alone prints an overview"
run help && grep -q 'plait help keys' out
judge $? "plait help"
run help train && grep -q -- --metrics out
judge $? "plait help COMMAND"
run train --help && grep -q -- --from-env out
judge $? "plait COMMAND --help"
run --version && grep -q '^plait [0-9]*\.[0-9]*\.[0-9]* ' out
judge $? "plait --version"
run help keys layout. && grep -q '^layout.micro_batch ' out && ! grep -q '^model' out
judge $? "help keys PREFIX"
run help keys --json && json_lines out && check 'assert any(json.loads(l)["key"] == "run.steps" for l in open("out"))'
judge $? "help keys --json"

for name in text binary empty; do
  run tokenize $name tokens.$name && run tokenize tokens.$name back --decode && cmp -s $name back
  judge $? "tokenize and decode give the same bytes: $name"
done
run tokenize text tokens --json && check '
line = json.load(open("out")); size = len(open("text").read())
assert line["bytes"] == size == line["tokens"] and line["bytes_per_second"] > 0
import os; assert os.path.getsize("tokens") == 2 * size'
judge $? "tokenize --json counts bytes and tokens"
run tokenize text indexed.bin --set tokenize.format=indexed --set tokenize.documents=line &&
  run inspect indexed.bin --json && check 'line = json.load(open("out")); assert (line["format"], line["documents"]) == ("indexed", 900)' &&
  run tokenize indexed.bin back --decode && cmp -s text back
judge $? "an indexed file is inspected and decoded"
run inspect tokens && grep -q '^largest  *119$' out
judge $? "inspect a flat token file"

run train config.json --metrics metrics --sample 'the cat'
code=$?
[ $code = 0 ] && grep -q '^eval loss ' out && grep -q '^kernels ' out && grep -q '^the cat' out
judge $? "train prints a summary and a sample"
grep -q '^step 10/30 ' err && ! grep -q $'\r' err
judge $? "plain lines where stderr is no terminal"
check '
lines = [json.loads(line) for line in open("metrics")]
assert list(lines[0]) == ["config"] and lines[0]["config"]["run.steps"] == 30
steps = [line for line in lines if "loss" in line]
assert [line["step"] for line in steps] == list(range(1, 31))
for name in "loss grad_norm lr loss_scale tokens targets tokens_per_second step_seconds skipped".split():
    assert all(name in line for line in steps), name
evals = [line for line in lines if "eval_loss" in line]
assert [list(line) for line in evals] == [["step", "eval_loss", "eval_targets"]] * 3
assert [line["step"] for line in evals] == [10, 20, 30]
assert evals[-1]["eval_loss"] < evals[0]["eval_loss"] < 5.6 and evals[0]["eval_targets"] == 2048
assert steps[0]["tokens"] == 1024 and steps[0]["diverged_rank"] is None'
judge $? "metrics lines"
run train config.json --json --metrics metrics2 && json_lines out &&
  check '
lines = [json.loads(line) for line in open("out")]
assert "config" in lines[0] and "summary" in lines[-1] and lines[-1]["summary"]["steps"] == 30
strip = lambda path: [{k: v for k, v in json.loads(l).items() if k in ("step", "loss", "eval_loss")} for l in open(path)]
assert strip("metrics") == strip("metrics2")'
judge $? "--json holds JSON lines only; two runs give the same losses"
run train config.json --quiet && [ ! -s err ] && grep -q '^loss ' out
judge $? "--quiet"
script -qec "'$PLAIT' train config.json" /dev/null </dev/null >out 2>err && grep -q $'\r.*step 30/30 \[####' out
judge $? "a bar where stderr is a terminal"
run train config.json --set data.split='[1]' --metrics metrics3 && ! grep -q eval_loss metrics3
judge $? "no evaluation without evaluation data"

run train config.json --print-config && cp out printed.json && run train printed.json --print-config && cmp -s out printed.json
judge $? "--print-config prints what it reads"
run train config.json --set run.steps=5 --set run.steps=7 --print-config && grep -q '"run.steps": 7' out
judge $? "the last --set wins"

expect 2 'NOT_FOUND: no_file: .*path=nothing.json' "a missing CONFIG" train nothing.json
expect 2 'INVALID_ARGUMENT: argument: .*--bogus' "an unknown option" train config.json --bogus
expect 2 'INVALID_ARGUMENT: argument: .*wrong' "an unknown command" wrong
expect 2 'INVALID_ARGUMENT: argument: .*nearest=model.layers' "the nearest key is named" train config.json --set model.layer=2
expect 2 'INVALID_ARGUMENT: argument: .*heads' "sizes that do not divide" train config.json --set model.heads=3
expect 2 'INVALID_ARGUMENT: argument: .*key=run.steps' "run.steps is needed" train config.json --set model.hidden=32 --set run.steps=0
expect 2 'INVALID_ARGUMENT: argument: --set takes key=value' "a setting without a value" train config.json --set model
expect 2 'NOT_FOUND: no_file: .*path=gone' "missing data" train config.json --set data.train=gone
expect 2 'NOT_FOUND: no_file: .*gone' "missing text" tokenize gone out.tokens
expect 2 'INVALID_ARGUMENT: argument: .*--vocab' "gpt2 needs a vocabulary" tokenize text o --tokenizer gpt2
expect 2 'INVALID_ARGUMENT: argument: .*--load is required' "generate needs weights" generate config.json --prompt a
expect 2 'INVALID_ARGUMENT: argument: --resume needs' "--resume needs a root" train config.json --resume
expect 5 'DATA_LOSS: dataset_token: .*vocabulary=50' "a token beyond the vocabulary" train config.json --set model.vocab_size=50
head -c 1001 text >odd
expect 5 'DATA_LOSS: dataset_truncated: ' "half a token" train config.json --set data.train=odd
expect 5 'DATA_LOSS: dataset_truncated: ' "half a token, decoded" tokenize odd o --decode
[ ! -e o ]
judge $? "a failed command leaves no file"
expect 1 'OUT_OF_RANGE: nonfinite_loss' "a run that blows up" train config.json --set optimizer.lr=1e30 --set optimizer.clip_grad_norm=0 --quiet
expect 2 'INVALID_ARGUMENT: argument: run.save_every needs' "saving needs a root" train config.json --set run.save_every=5
expect 2 'NOT_FOUND: no_file: .*path=nowhere .*key=run.checkpoint' "a root without a parent" train config.json --set run.checkpoint=nowhere/root
expect 2 'NOT_FOUND: no_checkpoint: .*path=nowhere' "--resume without a checkpoint" train config.json --resume --set run.checkpoint=nowhere
[ ! -e nowhere ]
judge $? "nothing is made of a refused root"
run train config.json --set run.steps=3 --quiet --metrics one && run train config.json --set run.steps=3 --quiet \
  --metrics two --set layout.data=2 --set layout.zero=1 &&
  check 'a, b = [[l["loss"] for l in map(json.loads, open(f)) if "loss" in l] for f in ("one", "two")]; assert len(a) == 3 and all(abs(x / y - 1) < 1e-3 for x, y in zip(a, b))'
judge $? "two ranks train what one does"
rm -f one two
expect 2 'INVALID_ARGUMENT: argument: .*model.heads=.*layout.tensor=' "a degree that does not divide" train config.json --set layout.tensor=64
run train config.json --set layout.pipeline=2 --set layout.micro_batch=1 --print-schedule
[ $? = 0 ] && grep -q '^pipeline 1 |' out
judge $? "the schedule as a picture"
run train config.json --set model.layers=x --json
[ $? = 2 ] && check 'e = json.load(open("out"))["error"]; assert (e["name"], e["details"]["key"]) == ("INVALID_ARGUMENT", "model.layers")'
judge $? "an error as a JSON object"
run train config.json --bogus --json
[ $? = 2 ] && json_lines out
judge $? "a usage error as a JSON object"

mkdir traces
pipeline=(--set layout.pipeline=2 --set layout.micro_batch=2)
run trace config.json "${pipeline[@]}" --set trace.directory=traces --quiet &&
  [ "$(head -n 1 out)" = traces/trace-0.json ] && grep -q '^idle share 0\.[0-9]* (formula 0\.111)$' out &&
  [ "$(ls traces)" = trace-0.json ] && check '
events = json.load(open("traces/trace-0.json"))["traceEvents"]
names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert names == {0: "rank 0 (tensor 0 pipeline 0 data 0)", 1: "rank 1 (tensor 0 pipeline 1 data 0)"}
for lane in names:
    own = [e for e in events if e["ph"] == "X" and e["tid"] == lane]
    assert sorted({e["args"]["step"] for e in own if "step" in e["args"]}) == [2, 3, 4]
    assert [e["name"] for e in own if e["name"].startswith("forward")] == [f"forward {i} {lane}" for i in range(8)] * 3'
judge $? "trace writes a lane for each rank and prints the idle share"
run trace config.json "${pipeline[@]}" --set trace.steps=1 --json && json_lines out && check '
trace = json.load(open("out"))["trace"]
assert trace["steps"] == 1 and trace["files"] == ["./trace-0.json"] and len(trace["ranks"]) == 2 and 0 < trace["idle_share"] < 1
json.load(open("trace-0.json"))'
judge $? "trace --json; the directory is . where none is set"
expect 2 'NOT_FOUND: no_file: .*key=trace.directory' "a directory that is not there" trace config.json --set trace.directory=nowhere
expect 1 'RESOURCE_EXHAUSTED: too_large: .*key=trace.steps' "more steps than memory" trace config.json --set trace.steps=10000000
expect 2 'INVALID_ARGUMENT: argument: .*key=data.train' "trace needs data" trace config.json --set data.train=
python3 - <<'END'
import json
def rank(number, last):
    names = ["tensor all_reduce"] * 3 + [last]
    operations = [{"number": i, "operation": n, "sequence": i, "bytes": 64, "begin_ns": i, "end_ns": i + 1,
                   "state": "done" if i < 3 else "open"} for i, n in enumerate(names)]
    return {"ranks": [{"rank": number, "tensor": number, "pipeline": 0, "data": 0, "operations": operations}]}
json.dump(rank(0, "tensor all_reduce"), open("report0", "w"))
json.dump(rank(1, "tensor all_reduce"), open("report1", "w"))
json.dump(rank(1, "tensor all_gather"), open("report2", "w"))
END
run trace --merge report0 report1 && grep -q '^no operation differs' out
judge $? "trace --merge of reports that agree"
run trace --merge report0 report2
[ $? = 1 ] && grep -q '^first operation that differs: group tensor, sequence 3$' out && grep -q 'rank 1  tensor all_gather  64 bytes  open' out
judge $? "trace --merge names the first operation that differs"
run trace --merge report0 report2 --json
[ $? = 1 ] && check 'd = json.load(open("out"))["difference"]; assert (d["sequence"], [r["rank"] for r in d["ranks"]]) == (3, [0, 1])'
judge $? "trace --merge --json"
expect 5 'DATA_LOSS: invalid_file: .*path=text' "a report that is none" trace --merge report0 text
expect 2 'INVALID_ARGUMENT: argument: .*rank=1' "two reports of one rank" trace --merge report1 report2
expect 2 'INVALID_ARGUMENT: argument: .*--merge' "--merge takes no CONFIG" trace config.json --merge report0

launched() { env "${@:3}" RANK=1 WORLD_SIZE=4 MASTER_ADDR=h.invalid MASTER_PORT=29500 "$PLAIT" train config.json --set timeout.init_ms=500 --from-env "$1" >out 2>err; [ $? = "$2" ]; }
launched torch 1 && grep -q 'address=h.invalid' err
judge $? "--from-env torch"
launched auto 2 SLURM_PROCID=1 SLURM_NTASKS=2 && grep -q 'torch=4 slurm=2' err
judge $? "two launchers that disagree"
launched slurm 2 && grep -q 'missing=SLURM_PROCID,SLURM_NTASKS' err
judge $? "an incomplete launcher"

long=(train config.json --set run.steps=100000000 --set run.evaluate_every=0)
"$PLAIT" "${long[@]}" --metrics stopped >out 2>err &
while ! grep -q '"step": 3,' stopped 2>/dev/null && kill -0 $! 2>/dev/null; do sleep 0.05; done
kill -INT $!
wait $!
[ $? = 3 ] && json_lines stopped && grep -q '^steps ' out
judge $? "a signal stops the run after a whole step"
"$PLAIT" "${long[@]}" --set train.global_batch=2048 --set layout.micro_batch=2048 --metrics aborted >out 2>err &
while ! grep -q config aborted 2>/dev/null && kill -0 $! 2>/dev/null; do sleep 0.05; done
kill -INT $!
sleep 0.05
kill -INT $!
wait $!
[ $? = 130 ]
judge $? "a second signal aborts it"

case=$root/tests/oracle/cases/gpt2_tiny
run convert export "$case" hf && run inspect hf --diff "$case" && grep -q ' 0 differ' out
judge $? "an export holds the same weights"
run convert export "$case" hf --quiet
[ $? = 1 ] && grep -q target_exists err
judge $? "an export does not overwrite"
run convert export "$case" half --set export.dtype=bfloat16 && ! run inspect hf --diff half && run inspect half --json && json_lines out
judge $? "inspect --diff finds other weights"
expect 2 'INVALID_ARGUMENT: argument: .*model.layers=3 model.layers.loaded=4' "a model key that contradicts --load" \
  generate --load "$case" --prompt a --set model.layers=3
run generate --load hf --prompt 'A!' --json --set generate.max_tokens=8 --set generate.temperature=0 &&
  check 'line = json.load(open("out")); assert line["prompt"] == "A!" and line["text"]'
judge $? "generate"
expect 2 'INVALID_ARGUMENT: argument: ' "an empty prompt" generate --load hf --prompt ''
tail -c 2000 "$case/tokens.bin" >held_out
run eval --load hf --set data.evaluate=held_out --set train.global_batch=4 --set evaluate.batches=2 --json &&
  check 'line = json.loads(open("out").readline()); assert 3 < line["eval_loss"] < 6 and line["eval_targets"] == 256'
judge $? "eval"

echo "1..$number"
exit $bad

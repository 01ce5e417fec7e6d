#!/usr/bin/env bash
# `plait plan` and `plait trace --simulate`: what they print, write and return. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
error_lines=1

cat >small.json <<'END'
{"model": {"family": "llama", "layers": 6, "hidden": 384, "heads": 6, "feed_forward": 1024, "vocab_size": 256, "sequence_length": 256},
 "precision": {"compute": "bf16"}, "layout": {"micro_batch": 4}, "train": {"global_batch": 64}}
END
big=(plan "$root/samples/gpt-1t.json" --world 3072 --hardware dgx-a100)
paper=(--set planner.profile=megatron-2021 --set layout.tensor=8 --set layout.pipeline=64 --set layout.interleave=1
  --set layout.micro_batch=1 --set layout.recompute=full)
# What the tests below say of lines of JSON: candidates, feasible ones, the first.
read_plan='
lines = [json.loads(line) for line in open("out")]
good = [line for line in lines if line["is_feasible"]]
first = lines[0]
'

# The 1008-billion model of 2104.04473 in its own layout: 163 TFLOP/s a device, 84 days for 450e9 tokens.
run "${big[@]}" --tokens 450e9 "${paper[@]}" --json && check "$read_plan"'
assert len(lines) == 1 and first["layout_text"].startswith("tensor=8,pipeline=64,data=6")
rate = first["flops_per_device_second"]["hardware"] / 1e12
assert abs(rate / 163 - 1) < 0.05, rate
days = first["run"]["useful_seconds"] / 86400
assert abs(days / 84 - 1) < 0.06, days
assert first["band"]["is_calibrated"] and first["band"]["relative"] < 0.1
assert first["hardware"]["provenance"]["matmul"].count("fitted")
parts = first["parts"]
whole = sum(parts[p] for p in ("forward", "backward", "communication", "optimizer", "bubble", "host"))
assert abs(whole / first["step_seconds"] - 1) < 1e-6'
judge $? "the 1T model in the layout of the paper: rate and days"
run "${big[@]}" --tokens 450e9 "${paper[@]}"
[ $? = 0 ] && grep -q '^hardware TF\|hardware TF' out && grep -q 'days with failures' out && grep -q 'device-hours' out &&
  grep -q '^One step of ' out && grep -q '^Memory of rank ' out
judge $? "the same for people: one layout part by part, and the whole run"
run "${big[@]}" && grep -q 'left out, since nothing was measured' out && ! grep -q 'tokens/s' out && grep -q 'to best' out
judge $? "without a calibration for the software the order alone is shown"
run "${big[@]}" --uncalibrated --json && check "$read_plan"'
assert len(good) >= 5 and len(good) < len(lines)
assert [line["step_seconds"] for line in good] == sorted(line["step_seconds"] for line in good)
assert lines[:len(good)] == good
assert all(line["violations"] for line in lines[len(good):])
assert first["band"]["relative"] == 0.4 and not first["band"]["is_calibrated"]
open("first", "w").write(first["layout_text"])'
judge $? "the search: best first, then what was rejected and why"
run "${big[@]}" --uncalibrated --why-not tensor=8,pipeline=64,interleave=1,micro_batch=1,recompute=full
[ $? = 0 ] && grep -q 'slower than the first' out && grep -q '^  *bubble' out
judge $? "why the layout of the paper is not the first: part by part"
run "${big[@]}" --uncalibrated --why-not "$(cat first)" && grep -q 'It is the first' out
judge $? "why not the first"

# A page that is whole in itself.
run "${big[@]}" --uncalibrated --set layout.pipeline=64 --set layout.interleave=2 --page plan.html --json &&
  check "$read_plan"'
page = open("plan.html", encoding="utf-8").read()
assert page.startswith("<!DOCTYPE html>") and page.rstrip().endswith("</html>")
assert "http" not in page and "src=" not in page and "@import" not in page
data = json.loads(page.split("id=\"data\">")[1].split("</script>")[0])
ranks = [lane for lane in data["lanes"] if not lane["isLink"]]
links = [lane for lane in data["lanes"] if lane["isLink"]]
assert data["pipeline"] == 64 and data["chunks"] == 2 and len(ranks) == 64 and len(links) == 128, len(links)
passes = 2 * 2 * first["job"]["micro_batches"]
for lane in ranks:
    kinds = lane["events"][2::5]
    assert kinds.count(0) == kinds.count(1) == passes / 2
    assert min(lane["events"][0::5]) >= 0 and min(lane["events"][1::5]) >= 0
assert abs(data["end"] / 1e6 / first["step_seconds"] - 1) < 0.02
assert len(data["memory"]) == 64'
judge $? "--page: the timeline of an interleaved plan, without a word from elsewhere"
if command -v node >/dev/null; then
  python3 -c '
page = open("plan.html", encoding="utf-8").read()
open("page.js", "w").write(page.split("</script>\n<script>")[1].split("</script>")[0])'
  node --check page.js >out 2>err
  judge $? "its script is one"
fi

# Six heads on four ranks, and 64 sequences in threes.
run plan small.json --world 4 --why-not tensor=4,micro_batch=3
[ $? = 0 ] && grep -q '^  heads .*6' out && grep -q '^  batch .*64' out && grep -q 'would do ' out &&
  sed -n 's/^  the first as options of train://p' out >options && [ -s options ]
judge $? "--why-not: both rules that are broken, and what would do"
head -c 70000 /dev/urandom >bytes && "$PLAIT" tokenize bytes tokens >out 2>err &&
  run train small.json --set data.train=tokens --set run.steps=1 $(cat options)
judge $? "train runs what would do"
run plan small.json --world 4 --write run.json && check '
keys = json.load(open("run.json"))
assert keys["layout.tensor"] * keys["layout.pipeline"] * keys["layout.data"] == 4 and keys["layout.micro_batch"] == 4
assert not any(k.startswith("hardware.") or v == "auto" for k, v in keys.items())' &&
  run train run.json --set data.train=tokens --set run.steps=1
judge $? "--write: a configuration that train runs; what CONFIG pins stays"
run plan small.json --world 2 --compare tensor=2 --compare data=2 && grep -q '^  step ' out && [ -s compare-a.json ] &&
  check 'assert json.load(open("compare-a.json"))["layout.tensor"] == 2 and json.load(open("compare-b.json"))["layout.data"] == 2'
judge $? "--compare: side by side, and a run file of each"

# Auto in a run.
run train small.json --set data.train=tokens --set run.steps=1 --world 2 --set layout.tensor=auto --set layout.pipeline=auto \
  --set layout.data=auto && grep -q '^chosen for auto: layout.tensor=[12] layout.pipeline=[12] layout.data=[12]$' err
judge $? "train fills keys that are auto, and says so"
run train small.json --print-config --set layout.tensor=auto && grep -q '"layout.tensor": "auto"' out
judge $? "--print-config shows what is given"
expect 2 'INVALID_ARGUMENT: argument: .*rule=heads.*fix=' "no layout: the rule and what would do" train small.json --set run.steps=1 \
  --set data.train=tokens --world 4 --set layout.tensor=auto --set layout.pipeline=1 --set layout.data=1

mkdir traces
run trace small.json --simulate --set layout.pipeline=2 --set trace.directory=traces &&
  grep -qx 'traces/trace-simulated.json' out && grep -q '^idle share 0\.[0-9]* (formula 0\.0625)$' out && check '
trace = json.load(open("traces/trace-simulated.json"))
events = trace["traceEvents"]
names = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
assert names[0] == "rank 0 (tensor 0 pipeline 0 data 0)" and names[1] == "rank 1 (tensor 0 pipeline 1 data 0)"
for lane in (0, 1):
    own = [e for e in events if e["ph"] == "X" and e["tid"] == lane]
    assert [e["name"] for e in own if e["name"].startswith("forward")] == [f"forward {i} {lane}" for i in range(16)]
assert any(e["ph"] == "C" for e in events) and trace["otherData"]["is_simulated"] is True'
judge $? "trace --simulate: lanes and names as in a measured trace"

# What is wrong is named, with what would do.
run plan small.json --world 7 --set layout.pipeline=1 --set layout.data=1
[ $? = 1 ] && grep -q 'No layout can be run' out && grep -q 'heads' out
judge $? "no layout at all: exit code 1, and the rules"
expect 2 'INVALID_ARGUMENT: argument: --world is required' "no number of ranks" plan small.json
expect 2 'INVALID_ARGUMENT: argument: .*value=dgx-a1000.*nearest=dgx-a100' "an unknown description" plan small.json --world 8 --hardware dgx-a1000
expect 2 'NOT_FOUND: no_file: .*path=gone.json' "a description that is not there" plan small.json --world 8 --hardware gone.json
echo '{"hardware": {"name": "dgx-a100", "matmul": {"efficiency": -1}}}' >negative.json
expect 2 'INVALID_ARGUMENT: argument: .*key=hardware.matmul.efficiency' "a negative figure" plan small.json --world 8 --hardware negative.json
expect 2 'INVALID_ARGUMENT: argument: a layout is a list' "no layout" plan small.json --world 8 --why-not tensor
expect 2 'INVALID_ARGUMENT: argument: .*nearest=layout.tensor' "an unknown degree" plan small.json --world 8 --why-not tensr=2
expect 2 'INVALID_ARGUMENT: argument: --compare is given twice' "one layout to compare" plan small.json --world 8 --compare tensor=2

echo "1..$number"
exit $bad

#!/usr/bin/env bash
# plait measure-links, and plan with what it printed: --hardware, --check, --calibrate. Prints TAP.
. "$(dirname "$0")/../support/tap.sh"
error_lines=1

head -c 20000 "$root/tests/checks/cli.sh" >text
cat >config.json <<'END'
{"model": {"family": "gpt2", "layers": 2, "hidden": 32, "heads": 2, "vocab_size": 256, "sequence_length": 16},
 "train": {"global_batch": 4}, "data": {"train": "tokens"}, "run": {"steps": 5}, "threads": 2}
END
"$PLAIT" tokenize text tokens --quiet >/dev/null

run measure-links --what links --world 2 --local-ranks 2 && cp out links.json && check '
lines = open("out").read().splitlines(); hardware = json.loads(lines[0])["hardware"]
assert len(lines) == 1 and set(hardware) >= {"node", "collectives", "transfers", "provenance"} and "matmul" not in hardware
line, = hardware["collectives"]
assert (line["members_per_node"], line["nodes"]) == (2, 1) and line["bytes_per_second"] > 1e6 and line["alpha_seconds"] >= 0
assert hardware["transfers"][0]["level"] == "node" and hardware["provenance"]["collectives"].startswith("measured 20")'
judge $? "links of two ranks"
run measure-links config.json --world 2 --local-ranks 2 && cp out hardware.json && check '
hardware = json.load(open("out"))["hardware"]
assert hardware["device"]["kind"] == "cpu" and hardware["node"]["devices"] == 2 and hardware["device"]["units"] == 1
assert len(hardware["matmul"]["points"]) > 12 and all(p["seconds"] > 0 for p in hardware["matmul"]["points"])
assert 0 < hardware["attention"]["forward_efficiency"] <= 1'
judge $? "links and compute of a model"
run measure-links --what compute && check '
hardware = json.load(open("out"))["hardware"]
assert "collectives" not in hardware and "attention" not in hardware and hardware["matmul"]["efficiency"] > 0'
judge $? "compute without a model, on one rank"
expect 2 'INVALID_ARGUMENT: argument: ' "a word that is no measurement" measure-links --what speed
expect 2 'INVALID_ARGUMENT: argument: .*model.heads' "a model that cannot be" measure-links config.json --set model.heads=3

run plan config.json --hardware hardware.json --world 2 --uncalibrated
judge $? "a plan on what was measured"
for n in 1 2 3; do
  layout=(layout.micro_batch=$((n < 3 ? n : 1)) layout.tensor=$((n < 3 ? 1 : 2)))
  "$PLAIT" train config.json --quiet --metrics run$n.jsonl --set "${layout[0]}" --set "${layout[1]}" >/dev/null 2>&1
done
run plan config.json --hardware hardware.json --check run3.jsonl --json
code=$?
[ $code -le 1 ] && check '
check = json.load(open("out"))["check"]; parts = {p["part"]: p for p in check["parts"]}
assert check["world"] == 2 and check["steps"] == 3 and check["layout_text"].startswith("tensor=2")
assert set(parts) == {"forward", "backward", "optimizer", "bubble", "other", "communication", "step"}
assert all(parts[p]["predicted"] > 0 and parts[p]["measured"] > 0 for p in ("forward", "backward", "optimizer", "step"))
step = parts["step"]; assert abs(step["error"] - (step["measured"] / step["predicted"] - 1)) < 1e-9'
judge $? "predicted and measured, part by part"
run plan config.json --hardware hardware.json --calibrate run1.jsonl run2.jsonl run3.jsonl && cp out fitted.json &&
  grep -q '^  run3.jsonl: measured .*error ' err && check '
keys = json.load(open("out"))
assert keys["hardware.calibration.points"] == 3 and 1 <= len(keys["hardware.calibration.fitted"]) <= 2
assert all(key.startswith("hardware.") for key in keys) and keys["hardware.calibration.largest_world"] == 2
assert "measured 20" in keys["hardware.provenance.matmul"]'
judge $? "constants fitted to three runs"
run plan config.json --hardware fitted.json --check run1.jsonl
[ $? -le 1 ] && grep -q '^The step is .* the band of ± ' out
judge $? "a check against what was fitted"
: >empty
expect 2 'INVALID_ARGUMENT: argument: .*config.*path=empty' "metrics without a configuration" plan config.json --hardware hardware.json --check empty
echo nonsense >odd
expect 2 'INVALID_ARGUMENT: argument: .*line=1' "metrics that are none" plan config.json --hardware hardware.json --check odd
expect 2 'INVALID_ARGUMENT: argument: .*at least two runs' "one run fits nothing" plan config.json --hardware hardware.json --calibrate run1.jsonl
expect 2 'INVALID_ARGUMENT: argument: --check excludes --calibrate' "two questions at once" plan config.json --hardware hardware.json --check run1.jsonl --calibrate run1.jsonl run2.jsonl

exit $bad

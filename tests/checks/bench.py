#!/usr/bin/env python3
"""The table of tests/bench/run on programs made here whose times are known: ratios, sums and refusals. Prints TAP."""
import contextlib
import io
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "bench"))
import busy_rows  # noqa: E402
import by_op_rows  # noqa: E402
import host_rows  # noqa: E402
import llmc_rows  # noqa: E402
import shapes  # noqa: E402
import step_rows  # noqa: E402
from parallel_formulas import Layout  # noqa: E402
from table import Table  # noqa: E402

PLAIT_SECONDS = 0.1
# A step of 100 ms by our clock: what each op had of it. The rest is 20 ms.
OPS = [("linear", "forward", 2304, 768, 0.03), ("linear", "forward", 50304, 768, 0.02), ("adamw", "update", 0, 0, 0.03)]
BUSY = {"alone": {"steps": [0.1, 0.1, 0.2], "seconds": 1.0, "neighbour_cpu_seconds": 0.0},
        "busy": {"steps": [0.15, 0.17, 0.36], "seconds": 1.0, "neighbour_cpu_seconds": 0.6}, "is_gone": True}

PLAIT = f"""#!/usr/bin/env python3
import json, math, sys
keys = json.load(open(sys.argv[1]))
rate = {{"rate": 1e12, "spread": 0.0}}
ceilings = dict(fma=rate, bf16_dot=rate, amx=rate, bf16=1e12, bf16_name="amx", triad=rate, triad_past_cache=rate)
out = dict(ceilings_before=ceilings, ceilings_after=ceilings, loss_first=math.log(keys["model.vocab_size"]),
           seconds=[{PLAIT_SECONDS}] * 3, first_seconds=0.1, creation_seconds=0.1, peak_bytes=4000000000, ledger_bytes=3e9,
           allocations=0, packs=1, packed_bytes=10, operations=5,
           memory=dict(ranks=[dict(memory=dict(weights_bytes=9e8, gradients_bytes=5e8, optimizer_bytes=1e9, activations_bytes=1e9,
                                               communication_bytes=0, workspace_bytes=1e8, total_bytes=3.5e9))]))
if "--by-op" in sys.argv:
    out["steps"] = dict(plain=[0.08] * 4, watched=[0.1] * 4, ops=[
        dict(op=op, **{{"pass": when}}, n=n, k=k, bound="bf16 product" if n else "triad past cache", flops=1e9 if n else 0,
             bytes=0 if n else 1e9, calls=8, seconds=4 * seconds) for op, when, n, k, seconds in {OPS!r}])
print("a line that is no result")
print(json.dumps(out))
"""

TORCH = """#!/usr/bin/env python3
import json, math, sys
sys.path.insert(0, {bench!r})
import shapes
if sys.argv[1] == "-c":
    print({version!r})
else:
    vocabulary = shapes.SHAPES[sys.argv[2]].torch_vocabulary
    print(json.dumps(dict(seconds=[{seconds}] * 2, loss_first=math.log(vocabulary), peak_bytes=5000000000, optimizer="fused")))
"""

# As train_gpt2.c of llm.c: sizes are constants, the model's come from its file, a step prints its milliseconds.
LLMC = """#!/usr/bin/env python3
'''
    int B = 4; // batch size
    int T = 64; // sequence length
'''
import re, struct, time
B, T = (int(re.search(r"(?m)^ +int %s = (\\d+);" % letter, __doc__)[1]) for letter in "BT")
with open("gpt2_124M.bin", "rb") as file:
    header = struct.unpack("<8i", file.read(32))
names = ["max_seq_len", "vocab_size", "num_layers", "num_heads", "channels", "padded_vocab_size"]
print("[GPT-2]", *(f"{{name}}: {{value}}" for name, value in zip(names, header[2:])), sep="\\n")
tokens = struct.unpack("<3i", open({tokens!r}, "rb").read(12))[2]
print(f"train dataset num_batches: {{tokens // (B * T)}}\\nval loss 5.325529")
for step in range({steps}):
    print("step %d: train loss %f (took %f ms)" % (step, {loss} - step, 5000.0 if step == 0 else B * T * {per_token}), flush=True)
time.sleep({idle})
"""
# Its Makefile makes the program from its source; here that is a copy.
MAKEFILE = "train_gpt2: train_gpt2.c\n\tcp $< $@ && chmod +x $@\n"


class Rows(Table):
    """A table that also keeps its rows by what and pass."""

    def __init__(self):
        super().__init__()
        self.rows, self.why = {}, []

    def row(self, what, when, dtype, seconds=None, rate="", share=None, target=None, *more, **options):
        self.rows.setdefault((what, when, dtype), []).append({"seconds": seconds, "share": share, "target": target,
                                                              "note": options.get("note", "")})
        super().row(what, when, dtype, seconds, rate, share, target, *more, **options)

    def failed(self, what, why):
        self.why.append(why)
        super().failed(what, why)


def write_program(path, text):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)
    os.chmod(path, 0o755)
    return path


def make_llmc(directory, layers=12, steps=41, loss=11.0, per_token=8 * 1e3 * PLAIT_SECONDS / 256, idle=60):
    import llmc_files
    text = LLMC.format(tokens=llmc_rows.TOKENS, steps=steps, loss=loss, per_token=per_token, idle=idle)
    write_program(os.path.join(directory, "train_gpt2"), text)
    write_program(os.path.join(directory, "train_gpt2.c"), text)
    write_program(os.path.join(directory, "Makefile"), MAKEFILE)
    os.makedirs(os.path.join(directory, "llmc"), exist_ok=True)
    with open(os.path.join(directory, llmc_rows.MODEL_FILE), "wb") as file:
        file.write(llmc_files.header(llmc_files.MODEL_MAGIC, llmc_files.MODEL_VERSION, 1024, 50257, layers, 12, 768, 50304))
    os.makedirs(os.path.join(directory, os.path.dirname(llmc_rows.TOKENS)), exist_ok=True)
    for name in (llmc_rows.TOKENS, llmc_rows.TOKENS.replace("train", "val")):
        with open(os.path.join(directory, name), "wb") as file:
            llmc_files.write_tokens(file)
    return directory


def near(got, want):
    return abs(got - want) < 1e-6 * abs(want)


class Checks:
    def __init__(self, work):
        self.work, self.number, self.is_bad = work, 0, False
        write_program(os.path.join(work, "bin", "bench_step"), PLAIT)

    def judge(self, is_good, what, table):
        self.number += 1
        self.is_bad |= not is_good
        print(f"{'ok' if is_good else 'not ok'} {self.number} - {what}")
        if not is_good:
            print("".join(f"# {entry}\n" for entry in [*table.rows.items(), *table.why]), end="")

    def run(self, body):
        """A table after body(table, plait)."""
        table = Rows()
        with contextlib.redirect_stdout(io.StringIO()):
            body(table, step_rows.Plait(table, os.path.join(self.work, "bin")))
        return table

    def torch(self):
        pythons = [write_program(os.path.join(self.work, version, "python"), TORCH.format(
            bench=os.path.join(ROOT, "tests", "bench"), version=version, seconds=seconds))
            for version, seconds in (("1.13.1", 0.4), ("2.15.0+cpu", 0.14))]
        table = self.run(lambda table, _: step_rows.run(table, os.path.join(self.work, "bin"), True, ["a"], pythons, False))
        old, new = table.rows.get(("(a) char 6x384", "speed / PyTorch", "bf16"), [None, None])
        self.judge(not table.why and near(old["share"], 4) and near(new["share"], 1.4) and old["target"] == (2.5, 3.5)
                   and new["target"] == (1.5, 2.0) and "1.13.1" in old["note"] and "2.15.0" in new["note"],
                   "each --torch has a ratio of its own", table)
        self.judge([what for what in table.missed if "speed" in what] == ["(a) char 6x384 speed / PyTorch bf16"],
                   "the floor that the newer one's ratio misses is named, once", table)

    def memory(self):
        table = self.run(lambda table, _: step_rows.run(table, os.path.join(self.work, "bin"), True, ["b4"], [], False))
        shape = shapes.SHAPES["b4"]
        for dtype in ("bf16", "fp32"):
            wanted = sum(Layout(shape.plait_keys(dtype, 2)).memory(0).values())
            row = table.rows[shape.name, "formula memory", dtype][0]
            self.judge(near(row["share"], 4e9 / wanted), f"the peak of 124M B4 in {dtype} stands beside the formula", table)

    def by_op(self):
        table = self.run(lambda table, plait: by_op_rows.run(table, plait, ["b4"], True))
        name = shapes.SHAPES["b4"].name
        shares = {what: rows[0]["share"] for (what, when, dtype), rows in table.rows.items()
                  if when == "by op" and dtype == "bf16"}
        self.judge(not table.why and near(sum(shares.values()), 100) and near(shares[f"{name}: in no op"], 20)
                   and near(shares[f"{name}: logits forward"], 20) and near(shares[f"{name}: product forward"], 30),
                   "ops and what is in no op are the whole step; logits are told from the body", table)
        self.judge(near(table.rows[f"{name}: sum of these", "step", "bf16"][0]["share"], 1.25),
                   "the cost of the clock is shown", table)
        write_program(os.path.join(self.work, "bin", "bench_step"), PLAIT.replace("4 * seconds", "6 * seconds"))
        table = self.run(lambda table, plait: by_op_rows.run(table, plait, ["b4"], True))
        write_program(os.path.join(self.work, "bin", "bench_step"), PLAIT)
        self.judge(len(table.why) == 2 and "more than the steps" in table.why[0], "ops that take longer than their step fail", table)

    def busy(self):
        shape = shapes.SHAPES["a"]

        def row(**changes):
            steps = {key: {**value, **changes.get(key, {})} if key != "is_gone" else changes.get(key, value)
                     for key, value in BUSY.items()}
            return self.run(lambda table, _: busy_rows.add_row(table, shape, "bf16", steps))
        table = row()
        self.judge(near(table.rows[shape.name, "busy neighbour", "bf16"][0]["share"], 1.7) and not table.missed,
                   "a busy neighbour: the median of the turns' ratios", table)
        for changes, why in (({"busy": {"neighbour_cpu_seconds": 0.01}}, "not busy"), ({"is_gone": False}, "still there"),
                             ({"alone": {"neighbour_cpu_seconds": 0.5}}, "alone")):
            table = row(**changes)
            self.judge(len(table.why) == 1 and why in table.why[0] and not table.rows, f"no ratio when it is {why}", table)

    def llmc(self):
        os.chdir(self.work)
        directory = make_llmc(os.path.join(self.work, "llm.c"))
        table = self.run(lambda table, plait: llmc_rows.run(table, plait, directory, True))
        speeds = {what: rows[0] for (what, when, _), rows in table.rows.items() if when == "speed / llm.c"}
        self.judge(not table.why and near(speeds["124M B4 T64"]["share"], 8) and speeds["124M B4 T64"]["target"] == (7, 9)
                   and near(speeds["(b) 124M B1"]["share"], 32) and speeds["(b) 124M B1"]["target"] == (12, 17),
                   "llm.c: its milliseconds after the first step, its source rebuilt for the other sizes", table)
        for options, why, what in (({"layers": 2}, "num_layers is 2", "another model"), ({"steps": 1, "idle": 0}, "ended after 1", "an early end"),
                                   ({"loss": "float('nan')"}, "unexpected line", "a loss that is no number")):
            table = self.run(lambda table, plait: llmc_rows.run(
                table, plait, make_llmc(os.path.join(self.work, what), **options), True))
            self.judge(len(table.why) == 2 and why in table.why[0] and not table.rows, f"llm.c: {what} is no measurement", table)

    def host_calls(self):
        c, java = (host_rows.Host(name, [], [], {}) for name in ("C", "Java"))

        def calls(table, _):
            host_rows.add_calls(table, c, {"state": [190, 200, 230], "version": [204, 210, 206]})
            host_rows.add_calls(table, java, {"state": [990, 1000, 5000], "version": [1010, 1020, 1000]})
        table = self.run(calls)
        self.judge(near(table.rows["call: state of an engine", "C", ""][0]["share"], 0.2)
                   and table.missed == ["call: version C", "call: version Java"],
                   "calls: the median of the turns in microseconds, C's floor and that of the others", table)

    def host_feed(self):
        host = host_rows.Host("Go", [], [], {})
        size, own, foreign = 1000, 4096, 8192

        def feed(addresses, *counts, set_copies=size):
            control = {"call": "set", "address": 0, "bytes": size, "copied": set_copies, "allocations": 0}
            maps = [{"call": call, "address": own, "bytes": size, "copied": copied, "allocations": 0} for call, copied in counts]
            table = self.run(lambda table, _: host_rows.add_feed(table, host, {"bytes": size, "addresses": addresses},
                                                                 [*maps, control]))
            rows = table.rows.get(("feeding a batch by map", "Go", "int32"))
            return table, rows and rows[0]["share"]
        for what, wanted, arguments in (
                ("nothing where each batch is filled at the library's address", 0, ([own] * 4, ("map", 0), ("map", 0))),
                ("a batch that is filled elsewhere", size / 4, ([own, own, foreign, own], ("map", 0))),
                ("what map copies", 2 * size / 4, ([own] * 4, ("map", size), ("map", size))),
                ("a host that maps and then sets", size / 4, ([own] * 4, ("map", 0), ("set", size)))):
            table, copied = feed(*arguments)
            self.judge(copied == wanted and len(table.missed) == (wanted > 0), f"copies of a batch: {what}", table)
        table, copied = feed([own], ("map", 0), set_copies=0)
        self.judge(copied is None and "not seen" in table.why[0], "copies of a batch: none are trusted that the set does not show", table)

    def host_training(self):
        """Steps of C take 100 ms, after two that take a second."""
        def run(seconds, rate, losses="4 3"):
            times = [1.0, 2.0]
            return host_rows.Run([*times, *(2 + seconds * i for i in range(1, 5))], [9.0, 9.0, rate, rate, rate, rate], losses)
        shape, hosts = host_rows.TRAINED, [host_rows.Host(name, [], [], {}) for name in ("C", "C#")]

        def train(*own):
            """Turns in which the host takes so long; None for one that fails."""
            class Fake:
                def __init__(self, table):
                    self.table, self.own = table, list(own)

                def config(self, *_):
                    return ""

                def train(self, host, _, __):
                    if host.name == "C":
                        return run(0.1, 1000.0)
                    return self.own.pop(0)
            return self.run(lambda table, _: host_rows.train(Fake(table), hosts, True))
        table = train(run(0.11, 1000.0), run(0.1, 980.0))
        row = table.rows.get((f"training, {shape.name}", "C#", "fp32"), [None])[0]
        self.judge(row and near(row["share"], 100 * (1 / 1.1 + 1) / 2) and "99.0%" in row["note"] and len(table.missed) == 1
                   and near(table.rows[f"training, {shape.name}", "C", "fp32"][0]["seconds"], 0.1),
                   "training: the median of the turns' ratios, by the clock between lines", table)
        table = train(run(0.1, 1000.0), run(0.1, 1000.0, "4 3.5"))
        self.judge(table.why == ["its losses are not those of C"] and (f"training, {shape.name}", "C#", "fp32") not in table.rows,
                   "training: no ratio where the losses differ", table)
        program = write_program(os.path.join(self.work, "train"), "#!/bin/sh\necho 'step 1/2 loss 4.0 | 5 tokens/s' >&2\necho 4\n")
        host = host_rows.Host("Rust", [], [program], {})
        table = self.run(lambda table, _: host_rows.Bench(table, self.work, self.work).train(host, "config", 2))
        self.judge(len(table.why) == 1 and "step 1/2" in table.why[0], "training: a program that ends early is no measurement", table)

    def refused(self):
        directory = make_llmc(os.path.join(self.work, "part"))
        os.unlink(os.path.join(directory, llmc_rows.MODEL_FILE))
        done = subprocess.run([os.path.join(ROOT, "tests", "bench", "run"), "--llmc", directory], capture_output=True, text=True)
        table = Rows()
        table.why.append(done.stdout + done.stderr)
        self.judge(done.returncode == 2 and "has no gpt2_124M.bin\n" in done.stderr and not done.stdout,
                   "--llmc names what is missing, before anything is built", table)


def main():
    with tempfile.TemporaryDirectory() as work:
        checks = Checks(work)
        for check in (checks.torch, checks.memory, checks.by_op, checks.busy, checks.llmc, checks.host_calls, checks.host_feed,
                      checks.host_training, checks.refused):
            check()
        os.chdir(ROOT)
    return 1 if checks.is_bad else 0


if __name__ == "__main__":
    sys.exit(main())

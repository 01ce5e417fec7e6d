"""Rows of whole training steps, and of the same steps in PyTorch."""
import json
import math
import os
import statistics
import subprocess
import tempfile
import time

import shapes
from machine import check_idle
from parallel_formulas import Layout

HERE = os.path.dirname(os.path.abspath(__file__))
# Memory that stays in the heap, in large pages where the kernel has them.
TUNED = {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1:glibc.malloc.mmap_max=0:glibc.malloc.trim_threshold=17179869184"
                           ":glibc.malloc.top_pad=268435456"}
SETTINGS = {"eager": ("eager", {}), "eager, malloc tuned": ("eager", TUNED),
            "chunked loss, malloc tuned": ("chunked", TUNED), "compile, malloc tuned": ("compile", TUNED)}
RUN_LIMIT = 300  # seconds of a rival's process
SLOW_STEP = 30  # seconds: a rival that needs more in a plain step is measured once, in one setting
SLOW_LIMIT = 90  # seconds of its process in later shapes
LEAST_STEPS = 2  # of every process: one that warms up and a timed one
TRIALS_LIMIT = 900  # seconds of a run, for each PyTorch, after which only one setting is tried
LONG_STEP = 8  # seconds: --quick runs such a rival once
QUICK_RIVALS = ("a", "b1", "d")  # shapes that --quick compares


def cores():
    return len(os.sched_getaffinity(0))


def quartile_spread(values):
    if len(values) < 2:
        return None
    if len(values) < 4:
        return (max(values) - min(values)) / statistics.median(values)
    low, _, high = statistics.quantiles(values, n=4)
    return (high - low) / statistics.median(values)


def last_json(text):
    for line in reversed(text.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    return None


class Plait:
    def __init__(self, table, bin_dir):
        self.table, self.program = table, os.path.join(bin_dir, "bench_step")

    def run(self, name, keys, *options):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(keys, file)
            file.flush()
            done = subprocess.run([self.program, file.name, *options], capture_output=True, text=True)
        if done.returncode != 0:
            self.table.failed(f"{name} in Plait", done.stderr.strip())
            return None
        return last_json(done.stdout)

    def steps(self, shape, compute, seconds, least, most=50):
        out = self.run(f"{shape.name} {compute}", shape.plait_keys(compute, cores()), "--seconds", str(seconds),
                       "--least", str(least), "--most", str(most), "--warm", "0" if least < 3 else "1")
        if out is not None:
            check_loss(self.table, f"{shape.name} {compute} in Plait", out["loss_first"], shape.vocabulary)
        return out

    def turns(self, shape, compute, mode, seconds, least, most):
        """Steps under two conditions in turns: `mode` is --by-op or --busy."""
        out = self.run(f"{shape.name} {compute} {mode}", shape.plait_keys(compute, cores()), mode, "--seconds", str(seconds),
                       "--least", str(least), "--most", str(most))
        if out is not None:
            check_loss(self.table, f"{shape.name} {compute} {mode} in Plait", out["loss_first"], shape.vocabulary)
        return out


def check_loss(table, name, loss, vocabulary):
    """Random weights know nothing: the first loss is about ln V."""
    if not abs(loss - math.log(vocabulary)) < 0.06 * math.log(vocabulary):
        table.failed(name, f"loss of step 1 is {loss:.3f}, ln V is {math.log(vocabulary):.3f}")


class Torch:
    def __init__(self, table, python):
        self.table, self.python = table, python
        self.version = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], capture_output=True,
                                      text=True).stdout.strip().split("+")[0]
        self.best = {}  # (family of sizes, dtype) → setting
        self.cache = os.path.join(os.path.abspath("build"), "bench", "inductor")
        self.why_not = {}
        self.slow = set()  # dtypes in which a plain step takes longer than SLOW_STEP
        self.unended = {}  # (shape, dtype) → seconds that a plain run did not end within
        self.begin = time.time()

    def target(self, dtype):
        """Floor and aim of Plait's speed over this one."""
        is_old = int(self.version.split(".")[0]) < 2
        return (shapes.OLD_TORCH_SPEED if is_old else shapes.TORCH_SPEED)[dtype]

    def run(self, shape_name, dtype, setting, seconds, least, most=20):
        mode, extra = SETTINGS[setting]
        environment = {**os.environ, **extra, "OMP_NUM_THREADS": str(cores()), "TORCHINDUCTOR_CACHE_DIR": self.cache}
        command = [self.python, os.path.join(HERE, "torch_step.py"), shape_name, dtype, mode, "--threads", str(cores()),
                   "--seconds", str(seconds), "--least", str(least), "--most", str(most),
                   "--warm", "1" if least > 2 else "0"]
        limit = SLOW_LIMIT if dtype in self.slow else RUN_LIMIT
        try:
            done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=limit)
        except subprocess.TimeoutExpired:
            self.why_not[f"{shape_name} {dtype}, {setting}"] = f"no end within {limit} s"
            if mode == "eager":
                self.slow.add(dtype)
                self.unended[(shape_name, dtype)] = limit
            return None
        out = last_json(done.stdout)
        if done.returncode != 0 or out is None:
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            self.why_not[setting] = lines[-1][:200] if lines else f"code {done.returncode}"
            return None
        check_loss(self.table, f"{shape_name} {dtype} in PyTorch, {setting}", out["loss_first"],
                   shapes.SHAPES[shape_name].torch_vocabulary)
        if mode == "eager" and min(out["seconds"]) > SLOW_STEP:
            self.slow.add(dtype)
        return out

    def settings(self, shape_name, dtype, is_quick, count):
        """Those worth a trial: the plain one on two shapes, chunks of logits where there are many ids."""
        names = ["eager, malloc tuned"]
        if dtype in self.slow:
            return names
        if time.time() - self.begin > TRIALS_LIMIT * count:
            self.why_not[f"{shape_name} {dtype}"] = "one setting alone was tried: the run takes too long"
            return names
        if shape_name in ("a", "b1"):
            names.insert(0, "eager")
        if shape_name != "a" and not is_quick:
            names.append("chunked loss, malloc tuned")
        if not is_quick:
            names.append("compile, malloc tuned")
        return names

    def trials(self, shape_name, dtype, is_quick, count):
        """Setting → result. The largest shape takes what was best for its model at batch 1."""
        kin = ("b1", dtype)
        if shape_name == "b4" and kin in self.best:
            return {self.best[kin]: self.run(shape_name, dtype, self.best[kin], 4, 1)}
        trials = {}
        for setting in self.settings(shape_name, dtype, is_quick, count):
            trials[setting] = self.run(shape_name, dtype, setting, 4, 1)
            if dtype in self.slow:
                self.why_not[f"{shape_name} {dtype}"] = f"one setting alone was tried: its step takes over {SLOW_STEP} s"
                break
        return trials


def add_step(table, shape_name, compute, runs):
    shape, last = shapes.SHAPES[shape_name], runs[-1]
    times = [t for run in runs for t in run["seconds"]]
    seconds = statistics.median(times)
    key = "bf16" if compute == "bf16" else "fma"
    ceilings = [run[when] for run in runs for when in ("ceilings_before", "ceilings_after")]
    peak = max(c["bf16"] if key == "bf16" else c["fma"]["rate"] for c in ceilings)
    is_amx = compute == "bf16" and ceilings[0]["amx"]["rate"] > 0
    is_dot = key == "bf16" and ceilings[0]["bf16_name"] == "dot"
    applied = "AMX" if is_amx else "vdpbf16ps" if is_dot else "FMA"
    table.row(shape.name, "step", compute, seconds, f"{shape.tokens / seconds:.0f} tokens/s",
              100 * shape.flops / seconds / peak, shapes.STEP_SHARE["amx" if is_amx else "fma"][shape_name],
              quartile_spread(times), f"of {applied} {peak / 1e9:.0f} GFLOP/s; model FLOPs; {len(times)} steps")
    memory = min(run["peak_bytes"] for run in runs)
    limit = shapes.STEP_MEMORY.get((shape_name, compute))
    ledger = f"ledger {last['ledger_bytes'] / 1e9:.2f} GB"
    if limit is None:
        table.row(shape.name, "peak memory", compute, share=memory / 1e9, unit="GB", note=ledger)
    else:
        table.row(shape.name, "peak memory", compute, share=memory / 1e9, target=(limit[0] / 1e9, limit[1] / 1e9),
                  unit="GB", is_at_most=True, note=ledger)
    add_formula_memory(table, shape, compute, memory, last["memory"]["ranks"][0]["memory"])
    per_step = last["allocations"] / len(last["seconds"])
    table.row(shape.name, "counts", compute, note=f"allocations {per_step:g} a step, packs {last['packs']} "
              f"({last['packed_bytes'] / 1e6:.0f} MB), ops {last['operations']:g}")
    if per_step != 0:
        table.failed(f"{shape.name} {compute}", f"{last['allocations']} allocations in {len(last['seconds'])} steps")
    first = min(run["first_seconds"] for run in runs)
    table.row(shape.name, "first step", compute, first, share=first / seconds,
              target=(shapes.FIRST_STEP_RATIO, None), unit="x", is_at_most=True, note="over later ones")
    creation = min(run["creation_seconds"] for run in runs)
    target = (shapes.CREATION_SECONDS, None) if shape_name in ("b1", "b4") else None
    table.row(shape.name, "creation", compute, share=creation, target=target, unit="s", is_at_most=True)
    return seconds, memory


def add_formula_memory(table, shape, compute, resident, report):
    """The resident peak, and what the rank accounts for, beside the closed formula of a rank's memory."""
    if shape.family != shapes.GPT2:
        return
    layout = Layout(shape.plait_keys(compute, cores()))
    wanted = sum(layout.memory(0).values())
    total, packed, ratio, parts = layout.compare_memory(0, report)
    table.row(shape.name, "formula memory", compute, rate=f"{wanted / 1e9:.2f} GB", share=resident / wanted, unit="x",
              note=f"peak memory over the formula; the rank accounts for {total / 1e9:.2f} GB, {ratio:.3f} x of it, and for "
                   f"{packed / 1e9:.2f} GB of packed weights; MB: {parts}")


def add_torch(table, torch, shape_name, dtype, plait, trials, runs, setting):
    shape, (plait_seconds, plait_memory) = shapes.SHAPES[shape_name], plait
    times = [t for run in runs for t in run["seconds"]]
    seconds = statistics.median(times)
    memory = min(run["peak_bytes"] for run in runs)
    tried = ", ".join(f"{name} {statistics.median(out['seconds']) * 1e3:.0f} ms" if out else f"{name} failed"
                      for name, out in trials.items())
    table.row(shape.name, f"PyTorch {torch.version}"[:16], dtype, seconds, f"{shape.tokens / seconds:.0f} tokens/s",
              spread=quartile_spread(times), note=f"{setting}; {runs[0]['optimizer']} AdamW; tried: {tried}")
    table.row(shape.name, "speed / PyTorch", dtype, share=seconds / plait_seconds, target=torch.target(dtype), unit="x",
              note=f"of tokens/s of {torch.version}" + ("" if seconds >= plait_seconds else "; SLOWER than PyTorch"))
    least = min([memory] + [out["peak_bytes"] for out in trials.values() if out])
    table.row(shape.name, "mem. / PyTorch", dtype, rate=f"{plait_memory / 1e9:.2f} GB",
              share=plait_memory / memory, target=(shapes.TORCH_MEMORY, None), unit="x", is_at_most=True,
              note=f"of {memory / 1e9:.2f} GB of {torch.version}; least of its settings {least / 1e9:.2f} GB")


def add_bound(table, torch, shape_name, dtype, plait_seconds):
    """No rival to measure: on a machine without the instructions for it, such a step takes minutes."""
    limit = torch.unended[(shape_name, dtype)]
    table.row(shapes.SHAPES[shape_name].name, "speed / PyTorch", dtype, share=limit / LEAST_STEPS / plait_seconds,
              target=torch.target(dtype), unit="x",
              note=f"at least: PyTorch {torch.version} did not end {LEAST_STEPS} steps within {limit} s")


def run_case(table, plait, torches, shape_name, dtype, is_quick):
    shape = shapes.SHAPES[shape_name]
    check_idle(table, f"before {shape.name} {dtype}", 0.4, is_quiet=True)
    seconds = 2 if is_quick else 6
    least = 2 if is_quick or torches else 3
    runs = [plait.steps(shape, dtype, seconds, least)]
    if runs[0] is None:
        return
    rivals = []
    for torch in torches:
        trials = torch.trials(shape_name, dtype, is_quick, len(torches))
        good = {name: out for name, out in trials.items() if out}
        if not good and (shape_name, dtype) in torch.unended:
            continue
        if not good:
            table.failed(f"{shape.name} {dtype} in PyTorch {torch.version}", str(torch.why_not))
            continue
        best = min(good, key=lambda name: statistics.median(good[name]["seconds"]))
        torch.best[(shape_name, dtype)] = best
        rivals.append((torch, trials, best, [good[best]]))
    if rivals:
        runs.append(plait.steps(shape, dtype, seconds, least))
        for torch, _, best, theirs in rivals:
            if theirs[0]["seconds"][0] > (LONG_STEP if is_quick else SLOW_STEP):
                continue
            theirs.append(torch.run(shape_name, dtype, best, seconds, 1))
    elif not is_quick:
        runs.append(plait.steps(shape, dtype, seconds, least))
    measured = add_step(table, shape_name, dtype, [run for run in runs if run])
    for torch in torches:
        if (shape_name, dtype) in torch.unended and all(torch is not rival[0] for rival in rivals):
            add_bound(table, torch, shape_name, dtype, measured[0])
    for torch, trials, best, theirs in rivals:
        add_torch(table, torch, shape_name, dtype, measured, trials, [run for run in theirs if run], best)


def median_seconds(plait, name, keys, *options):
    """Median step of two processes."""
    times = []
    for _ in range(2):
        out = plait.run(name, keys, "--seconds", "3", "--least", "3", *options)
        if out is None:
            return None
        times += out["seconds"]
    return statistics.median(times)


def add_threads_and_accumulation(table, plait):
    """What other engines paid for: a pool for each calling thread, a pass over gradients for each micro-batch."""
    keys = {**shapes.SHAPES["a"].plait_keys("bf16", cores()), "train.global_batch": 4, "layout.micro_batch": 4}
    times = [median_seconds(plait, "threads", keys, *options) for options in ((), ("--other-thread",))]
    if None not in times:
        table.row("(a) batch 4, from another thread", "step", "bf16", times[1], share=times[1] / times[0],
                  target=(shapes.THREAD_RATIO, None), unit="x", is_at_most=True, note="over the main thread")
    keys["layout.micro_batch"] = 1
    times = []
    for count in (1, 16):
        keys["train.global_batch"] = count
        seconds = median_seconds(plait, "accumulation", keys)
        times.append(None if seconds is None else seconds / count)
    if None not in times:
        table.row("(a) 16 micro-batches of 1", "a micro-batch", "bf16", times[1], share=times[1] / times[0],
                  target=(shapes.ACCUMULATION_RATIO, None), unit="x", is_at_most=True, note="over 1 in a step")


def shape_names(is_quick, wanted):
    return wanted or [name for name in shapes.SHAPES if name != "b4" or not is_quick]


def run(table, bin_dir, is_quick, wanted, pythons, has_llmc):
    plait = Plait(table, bin_dir)
    torches = [Torch(table, python) for python in pythons]
    for dtype in ("bf16", "fp32"):
        for name in shape_names(is_quick, wanted):
            rivals = torches if wanted or not is_quick or name in QUICK_RIVALS else []
            run_case(table, plait, rivals, name, dtype, is_quick)
    if not wanted:
        add_threads_and_accumulation(table, plait)
    notes(table, torches, is_quick, wanted, has_llmc)


def notes(table, torches, is_quick, wanted, has_llmc):
    table.note("the whole batch is one micro-batch, dropout 0, random tokens; FLOPs count causal attention whole and "
               "real ids only; memory is VmHWM of the whole process")
    for torch in torches:
        table.note(f"PyTorch {torch.version}: scaled_dot_product_attention, autocast in bf16, in turns with Plait, "
                   "best of its settings counts")
        for setting, why in torch.why_not.items():
            table.note(f"PyTorch {torch.version}, {setting}: {why}")
    out = ["other peers"] if has_llmc else ["llm.c (--llmc DIR) and other peers"]
    if wanted:
        out.insert(0, "shapes not named by --shape")
    elif is_quick:
        out.insert(0, "(b) B4 (--quick)")
    if not torches:
        out.insert(0, "PyTorch (--torch PYTHON)")
    else:
        out.insert(0, "trials of every setting on (b) B4, which takes the best of (b) B1, and of eager without malloc "
                      "tuning on (c) and (d)")
        if is_quick:
            out.insert(0, "torch.compile, chunked loss, and PyTorch on (c) (--quick)")
    table.note("left out: " + "; ".join(out))

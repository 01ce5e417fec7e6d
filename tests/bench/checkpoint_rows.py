"""Rows of saves and loads of checkpoints, beside copies, plain files and hashes."""
import json
import os
import statistics
import subprocess
import tempfile

from machine import check_idle
from parallel_cases import layout
from parallel_rows import has_amx
from shapes import GPT2, SHAPES, Shape
from step_rows import cores, last_json, quartile_spread

STALL = (1.3, None)  # over a copy of the owned state, at most
SLOWDOWN = (5, None)  # percent, of steps with a save among each ten, at most
WRITE_SHARE = (90, None)  # percent of plain files
LOAD_RATE = {"avx2": (1.0, None), "avx512": (1.5, None)}  # GB/s of one core
RESHARDING = (1.3, None)  # over a load in the layout that saved, at most
EXTRA_MEMORY = (64, None)  # MiB a rank, at most
STEPS = 10  # from save to save
OTHER = layout(tensor=2, pipeline=2)
OTHER_NAME, OTHER_RANKS = "tensor 2 · pipeline 2", 4

TURNS, QUICK_TURNS = 4, 2  # even: each comes first as often as the other
LOAD_TURNS, QUICK_LOAD_TURNS = 3, 2
WINDOWS, QUICK_WINDOWS = 3, 2


def whole_model(is_quick):
    """State alone counts: steps, which only fill it, are of short rows."""
    if is_quick:
        return Shape("6x512 V8192", GPT2, 6, 512, 8, 128, 8192, 1)
    b = SHAPES["b1"]
    return Shape("124M", GPT2, b.layers, b.hidden, b.heads, 128, b.vocabulary, 1)


def training_model():
    """Time of steps over time of a save depends on the tokens of a step, not on the number of parameters: those of shape
    (b), in a model of short steps."""
    tokens = SHAPES["b4" if has_amx() else "b1"]
    return Shape("4x384 V4096", GPT2, 4, 384, 6, tokens.sequence, 4096, tokens.batch)


def file_system(directory):
    """Type and device of the mount that holds it."""
    done = subprocess.run(["stat", "-f", "-c", "%T", directory], capture_output=True, text=True)
    kind = done.stdout.strip() or "unknown"
    device = os.stat(directory).st_dev
    with open("/proc/self/mountinfo") as mounts:
        for line in mounts:
            fields = line.split()
            if fields[2] == f"{os.major(device)}:{os.minor(device)}":
                after = fields[fields.index("-") + 1:]
                return f"{after[0]} on {after[1]}"
    return kind


class Bench:
    def __init__(self, table, bin_dir, parent, compute):
        self.table, self.program, self.parent, self.compute = table, os.path.join(bin_dir, "bench_checkpoint"), parent, compute

    def run(self, mode, turns, configs, *rest):
        """What the program prints, or None; its files are gone when it has ended."""
        with tempfile.TemporaryDirectory(prefix="checkpoint-", dir=self.parent) as directory:
            paths = []
            for i, keys in enumerate(configs):
                paths.append(os.path.join(directory, f"{i}.json"))
                with open(paths[-1], "w") as file:
                    json.dump(keys, file)
            work = os.path.join(directory, "work")
            os.mkdir(work)
            done = subprocess.run([self.program, mode, work, str(turns), *paths, *rest], capture_output=True, text=True)
        if done.returncode != 0:
            self.table.failed(f"checkpoints, {mode}", done.stderr.strip() or f"code {done.returncode}")
            return None
        return last_json(done.stdout)

    def keys(self, shape, **more):
        return {**shape.plait_keys(self.compute, cores()), **{f"checkpoint.{name}": value for name, value in more.items()}}


def gigabytes(count, seconds):
    return f"{count / seconds / 1e9:.2f} GB/s"


def ratios(numerators, denominators):
    return [a / b for a, b in zip(numerators, denominators)]


def add_save(table, shape, compute, out):
    what = f"save, {shape.name}, {out['state_bytes'] / 1e9:.2f} GB"
    stalls, copies = out["stalls"], out["copies"]
    copy, over = statistics.median(copies), ratios(stalls, copies)
    table.row(what, "copy in memory", compute, copy, gigabytes(out["state_bytes"], copy), spread=quartile_spread(copies),
              note=f"of the state, by {out['threads']} threads")
    stall = statistics.median(stalls)
    table.row(what, "stall", compute, stall, gigabytes(out["state_bytes"], stall), statistics.median(over), STALL,
              quartile_spread(over), f"over the copy; {len(over)} turns; the first save "
              f"{1e3 * out['first_stall']:.0f} ms: it allocates", unit="x", is_at_most=True)
    writes, saves = out["writes"], out["saves"]
    plain, shares = statistics.median(writes), ratios(writes, saves)
    table.row(what, "plain files", compute, plain, gigabytes(out["file_bytes"], plain), spread=quartile_spread(writes),
              note=f"write and fdatasync of the same bytes in {out['files']} files")
    seconds = statistics.median(saves)
    table.row(what, "call to durable", compute, seconds, gigabytes(out["file_bytes"], seconds),
              100 * statistics.median(shares), WRITE_SHARE, quartile_spread(shares),
              f"of plain files; {len(shares)} turns, A B B A; no training beside it")


def add_rate(table, what, when, compute, count, times, target, note):
    """Rate of wall time, and of one core: where threads share the work, of their processor time."""
    each = [count / max(pair) / 1e9 for pair in zip(times["seconds"], times["processor_seconds"])]
    seconds = statistics.median(times["seconds"])
    table.row(what, when, compute, seconds, gigabytes(count, seconds), statistics.median(each), target,
              quartile_spread(each), note, unit="GB/s")


def system_ms(times):
    return f"{1e3 * statistics.median(times['system_seconds']):.0f} ms in the system"


def add_load(table, shape, compute, out):
    count, ceilings = out["state_bytes"], out["ceilings"]
    what = f"load, {shape.name}, {count / 1e9:.2f} GB"
    for key, name, note in (("read", "plain read", "of the files, from the page cache"),
                            ("hash", "XXH3-64", "of what was just read"), ("digest", "digest", "of what was just read"),
                            ("copy", "copy", "from a buffer to memory"),
                            ("first_use", "first use", "of memory, which the moments of a new engine pay")):
        table.row(what, name, "", rate=f"{ceilings[key]['rate'] / 1e9:.2f} GB/s", spread=ceilings[key]["spread"],
                  note=f"{note}; one thread")
    fresh, passed = out["fresh"], count / ceilings["together"]
    first = max(fresh["extra_bytes"], 0) / ceilings["first_use"]["rate"]
    isa = out["isa"]
    target = LOAD_RATE["avx512" if isa.startswith(("avx512", "amx")) else "avx2"] if isa.startswith(("avx", "amx")) else None
    add_rate(table, what, "new engine", compute, count, fresh, target,
             f"of a core ({isa}); bound {gigabytes(count, passed + first)}: read, hash, digest and copy, then "
             f"{first * 1e3:.0f} ms of first use; {system_ms(fresh)}")
    live = out["own_from_own"]
    add_rate(table, what, "live engine", compute, count, live, None,
             f"of a core; two passes: all is proved before anything is written; {system_ms(live)}")
    add_rate(table, what, "verify", compute, count, out["verify"], target, f"of a core; without an engine; {system_ms(out['verify'])}")


def add_resharding(table, shape, compute, out):
    for when, key, same, note in (
            ("one rank", "own_from_other", "own_from_own", f"saved by {OTHER_NAME}"),
            (f"{OTHER_RANKS} ranks", "other_from_own", "other_from_other", f"saved by one rank, loaded by {OTHER_NAME}")):
        times, base = out[key]["seconds"], out[same]["seconds"]
        over = ratios(times, base)
        table.row(f"resharding load, {shape.name}", when, compute, statistics.median(times),
                  gigabytes(out["state_bytes"], statistics.median(times)), statistics.median(over), RESHARDING,
                  quartile_spread(over), f"over its own layout, {1e3 * statistics.median(base):.0f} ms; {note}", unit="x",
                  is_at_most=True)
    for when, keys, count in (("one rank", ("own_from_own", "own_from_other"), 1),
                              (f"{OTHER_RANKS} ranks", ("other_from_other", "other_from_own"), OTHER_RANKS)):
        extra = [out[key]["extra_bytes"] for key in keys]
        if min(extra) < 0:
            table.note(f"left out: memory of a load by {when} (the system does not reset its peak)")
            continue
        table.row(f"memory of a load, {shape.name}", when, compute, share=max(extra) / count / 2**20, target=EXTRA_MEMORY,
                  unit="MiB", is_at_most=True, note="a rank, beyond what was resident before; both layouts")


def add_training(table, shape, compute, out):
    plain, saving = out["plain"], out["saving"]
    # Each window stands between two without a save: what drifts meets both sides.
    slow = [100 * (window["seconds"] / statistics.mean(plain[i:i + 2]) - 1) for i, window in enumerate(saving)]
    what = f"{STEPS} steps, {shape.name}, {out['state_bytes'] / 1e6:.0f} MB"
    base = statistics.median(plain)
    table.row(what, "without a save", compute, base, f"{STEPS * shape.tokens / base:.0f} tokens/s",
              spread=quartile_spread(plain), note=f"{shape.tokens} tokens a step")
    seconds = statistics.median(window["seconds"] for window in saving)
    durable = statistics.median(window["report"]["seconds"] for window in saving)
    stall = statistics.median(window["stall_seconds"] for window in saving)
    table.row(what, "with one", compute, seconds, f"{STEPS * shape.tokens / seconds:.0f} tokens/s",
              statistics.median(slow), SLOWDOWN, None, f"slower; {len(slow)} windows: "
              + ", ".join(f"{value:.1f}" for value in slow) + f"; durable {1e3 * durable:.0f} ms after the call, which took "
              f"{1e3 * stall:.1f} ms", is_at_most=True)


def run(table, bin_dir, is_quick):
    compute = "bf16" if has_amx() else "fp32"
    parent = os.path.join(os.path.abspath("build"), "bench")
    os.makedirs(parent, exist_ok=True)
    shape, training = whole_model(is_quick), training_model()
    where = file_system(parent)
    table.note(f"files are on {where}, in build/bench, and removed at the end"
               + ("; NO DISK: writes end in memory" if where.startswith(("tmpfs", "ramfs")) else ""))
    bench = Bench(table, bin_dir, parent, compute)
    check_idle(table, "before the saves", 0.4, is_quiet=True)
    out = bench.run("save", QUICK_TURNS if is_quick else TURNS, [bench.keys(shape, max_staged=1)])
    if out:
        add_save(table, shape, compute, out)
    check_idle(table, "before the loads", 0.4, is_quiet=True)
    one = bench.keys(shape, max_staged=0)
    out = bench.run("load", QUICK_LOAD_TURNS if is_quick else LOAD_TURNS, [one, {**one, **OTHER}])
    if out:
        add_load(table, shape, compute, out)
        add_resharding(table, shape, compute, out)
    check_idle(table, "before saves beside training", 0.4, is_quiet=True)
    out = bench.run("beside", QUICK_WINDOWS if is_quick else WINDOWS, [bench.keys(training)], str(STEPS))
    if out:
        add_training(table, training, compute, out)
    table.note("state: weights or masters and two moments; every saved step is verified, every load compared with what was "
               "saved, bit by bit; saves and plain files, and loads of both layouts, in turns")
    table.note(f"the saver hashes and writes on cores that compute: with {cores()} cores its processor time is taken from the "
               "steps; it grows with parameters, steps with parameters times tokens")

"""Rows of whole steps in parallel layouts, in turns with one rank that has all cores."""
import json
import os
import statistics
import subprocess
import tempfile

import parallel_cases as cases
from machine import check_idle
from parallel_formulas import Layout
from step_rows import cores, last_json, quartile_spread

TURNS, QUICK_TURNS = 7, 3


def has_amx():
    with open("/proc/cpuinfo") as info:
        return any("amx_bf16" in line for line in info if line.startswith("flags"))


def run_program(bin_dir, configs, *options):
    """What bench_parallel prints, or why there is nothing."""
    with tempfile.TemporaryDirectory() as directory:
        paths = []
        for i, keys in enumerate(configs):
            paths.append(os.path.join(directory, f"{i}.json"))
            with open(paths[-1], "w") as file:
                json.dump(keys, file)
        done = subprocess.run([os.path.join(bin_dir, "bench_parallel"), *options, *paths], capture_output=True,
                              text=True)
    out = last_json(done.stdout)
    if done.returncode == 0:
        return out, None
    return None, out["wrong"] if out else done.stderr.strip() or f"bench_parallel ended with code {done.returncode}"


def difference(losses, wanted):
    return max(abs(a - b) / abs(b) for a, b in zip(losses, wanted))


class Comparison:
    """One layout against another of the same run."""

    def __init__(self, table, case, keys, runs, turns):
        """`keys` and `runs` of all layouts of the case; the last is compared with that of case.base."""
        self.table, self.turns, self.shape, self.is_large = table, turns, case.shape, case.is_large
        self.compute = keys[-1]["precision.compute"]
        self.what = f"{case.layouts[-1][0]}, {case.shape.name}"
        self.run, self.layout = runs[-1], Layout(keys[-1])
        self.base_name, self.base, self.base_layout = case.layouts[case.base][0], runs[case.base], Layout(keys[case.base])

    def speed(self, target, ideal=1.0, note=""):
        ratios = [b / a / ideal for a, b in zip(self.run["seconds"], self.base["seconds"])]
        seconds = statistics.median(self.run["seconds"])
        base = statistics.median(self.base["seconds"])
        note = ", ".join(part for part in (
            f"over {self.base_name}, {base * 1e3:.0f} ms", note, f"{len(ratios)} turns",
            f"losses equal within {difference(self.run['losses'], self.base['losses']):.1g}") if part)
        self.table.row(self.what, "step", self.compute, seconds, f"{self.shape.tokens / seconds:.0f} tokens/s",
                       statistics.median(ratios), target, quartile_spread(ratios), note, unit="x")

    def sent(self):
        """Bytes of each rank, by axis and collective, against the formulas: equal or failed."""
        before = {rank["rank"]: rank for rank in self.run["counters_before"]["ranks"]}
        total = 0
        for after in self.run["counters_after"]["ranks"]:
            wanted = self.layout.sent(after["rank"])
            for axis in ("tensor", "pipeline", "data"):
                for kind, traffic in after[axis].items():
                    count = traffic["bytes"] - before[after["rank"]][axis].get(kind, {"bytes": 0})["bytes"]
                    want = wanted.pop((axis, kind), 0)
                    total += count
                    if count == want * self.turns:
                        continue
                    self.table.failed(self.what, f"rank {after['rank']} sent {count / self.turns:.0f} bytes a step by "
                                      f"{kind} on the {axis} axis, {want} by the formula")
                    return
            if wanted:
                self.table.failed(self.what, f"rank {after['rank']} sent nothing by {list(wanted)}")
                return
        self.table.row(self.what, "bytes sent", self.compute, rate=f"{total / self.turns / 1e6:.2f} MB", share=1.0,
                       unit="x", note="of all ranks in a step; equal to the formula on every rank and axis")

    def memory(self):
        ranks = self.run["memory"]["ranks"]
        ledgers = sum(entry["memory"]["total_bytes"] for entry in ranks)
        compared = [(entry["rank"], *self.layout.compare_memory(entry["rank"], entry["memory"])) for entry in ranks]
        rank, total, packs, worst, parts = max(compared, key=lambda row: row[3])
        self.table.row(self.what, f"memory, rank {rank}", self.compute, rate=f"{total / 1e6:.1f} MB", share=worst,
                       target=cases.MEMORY, unit="x", is_at_most=True,
                       note=f"of the formula; without packed weights, {packs / 1e6:.1f} MB; MB: {parts}")
        self.table.row(self.what, "resident", self.compute, rate=f"{self.run['peak_bytes'] / 1e6:.1f} MB",
                       share=self.run["peak_bytes"] / ledgers, target=cases.MEMORY if self.is_large else None, unit="x",
                       is_at_most=True, note="of what all ranks account for; peak of creation and two steps")

    def idle(self):
        trace = self.run["trace"]
        simulated = trace["simulated_idle_share"]
        self.table.row(self.what, "idle share", self.compute, share=100 * trace["idle_share"],
                       note=f"formula {100 * self.layout.idle_share():.1f} %, the schedule with the passes as they were "
                            f"measured {100 * simulated:.1f} %; {trace['steps']} steps")

    def allocations(self):
        if self.run["allocations"]:
            self.table.failed(self.what, f"{self.run['allocations']} allocations in {self.turns} steps")


def check_fp32(table, bin_dir, case):
    """bfloat16 rounds: that the layouts are the same model is shown in float32, on a short batch."""
    configs = []
    for _, layout in case.layouts:
        keys = case.keys(layout, "fp32", cores())
        keys["model.sequence_length"] = min(keys["model.sequence_length"], 128)
        configs.append(keys)
    _, wrong = run_program(bin_dir, configs, "--turns", "0", "--trace", "0", "--tolerance", "1e-5")
    if wrong:
        table.failed(f"{case.layouts[-1][0]}, {case.shape.name} fp32", wrong)
    return not wrong


def targets(name, layout, base):
    """(target, ideal, note) of a layout over the one that it is compared with."""
    if name.startswith("tensor"):
        return cases.TENSOR_SPEED, 1.0, ""
    if name == "pipeline":
        ideal = layout.micro_batches / (layout.micro_batches + layout.pipeline - 1)
        return cases.PIPELINE_SPEED, ideal, f"and over m/(m+p−1) = {ideal:.3f}"
    if name == "interleave":
        gain = (1 - layout.idle_share()) / (1 - base.idle_share())
        return ((cases.INTERLEAVE_FLOOR, round(cases.INTERLEAVE_AIM * gain, 2)), 1.0, f"by the formula {gain:.3f} x")
    return (cases.DATA_SPEED, 1.0, "") if name == "data" else (cases.RANKS_SPEED, 1.0, "")


def run_case(table, bin_dir, name, case, compute, turns):
    check_idle(table, f"before {name}", 0.4, is_quiet=True)
    if compute == "bf16" and not check_fp32(table, bin_dir, case):
        return
    configs = [case.keys(layout, compute, cores()) for _, layout in case.layouts]
    tolerance = case.tolerance if compute == "bf16" else 1e-5
    out, wrong = run_program(bin_dir, configs, "--turns", str(turns), "--tolerance", str(tolerance))
    if wrong:
        table.failed(f"{case.layouts[-1][0]}, {case.shape.name} {compute}", wrong)
        return
    comparison = Comparison(table, case, configs, out["layouts"], turns)
    comparison.speed(*targets(name, comparison.layout, comparison.base_layout))
    if comparison.layout.pipeline > 1 and comparison.layout.world <= cores():
        comparison.idle()
    comparison.sent()
    comparison.memory()
    comparison.allocations()


def run(table, bin_dir, is_quick, is_large, wanted):
    compute = "bf16" if has_amx() else "fp32"
    for name, case in cases.cases(is_large).items():
        if not wanted or name in wanted:
            run_case(table, bin_dir, name, case, compute, QUICK_TURNS if is_quick else TURNS)
    table.note("layouts of one case are engines of one process and step in turns; ratios are of the two steps of a turn; "
               "ranks have one thread each, the one rank has all cores; dropout 0, random tokens")
    table.note("before anything is timed, losses of two steps are compared with those of one rank: within 1e-5 in fp32"
               + (f"; in bf16 {cases.BF16_TENSOR:g} where tensor ranks round parts of a sum" if compute == "bf16" else ""))
    if compute == "fp32":
        table.note("no AMX on this machine: fp32 alone is compared")
    if wanted:
        table.note("left out: cases not named by --case")
    if not is_large:
        table.note("left out: the large models of the targets (--large)")

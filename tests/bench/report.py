"""The table of tests/bench/run: starts the programs, puts what they print beside ceilings and targets."""
import argparse
import json
import os
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import busy_rows  # noqa: E402
import by_op_rows  # noqa: E402
import checkpoint_rows  # noqa: E402
import collective_rows  # noqa: E402
import host_rows  # noqa: E402
import llmc_rows  # noqa: E402
import op_rows  # noqa: E402
import parallel_rows  # noqa: E402
import step_rows  # noqa: E402
from machine import check_idle  # noqa: E402
from table import Table  # noqa: E402


def processor():
    with open("/proc/cpuinfo") as info:
        names = [line.split(":", 1)[1].strip() for line in info if line.startswith("model name")]
    return names[0] if names else "unknown processor"


def commit():
    done = subprocess.run(["git", "-C", HERE, "describe", "--always", "--dirty"], capture_output=True, text=True)
    return done.stdout.strip() or "unknown commit"


def ceilings(table, bin_dir):
    table.section("Ceilings")
    done = subprocess.run([os.path.join(bin_dir, "bench_ceilings")], capture_output=True, text=True)
    if done.returncode != 0:
        table.failed("ceilings", done.stderr.strip())
        return
    for line in done.stdout.splitlines():
        c = json.loads(line)
        name = f"{c['threads']} thread{'s' if c['threads'] > 1 else ''}"

        def product(what, dtype, entry):
            if entry["rate"]:
                table.row(what, name, dtype, rate=f"{entry['rate'] / 1e9:.0f} GFLOP/s", spread=entry["spread"])
        product(c["fma_loop"], "fp32", c["fma"])
        product("vdpbf16ps", "bf16", c["bf16_dot"])
        product("AMX tdpbf16ps", "bf16", c["amx"])
        for key, what in (("copy", "copy"), ("triad", "triad"), ("copy_past_cache", "copy, non-temporal stores"),
                          ("triad_past_cache", "triad, non-temporal stores")):
            table.row(what, name, "fp32", rate=f"{c[key]['rate'] / 1e9:.1f} GB/s", spread=c[key]["spread"])
    if c["amx_state"] != "available":
        table.note(f"no AMX on this machine ({c['amx_state']}): bf16 products are bounded by "
                   + ("vdpbf16ps" if c["bf16_name"] == "dot" else "fp32 FMA"))
    table.note(f"memory: arrays of {c['array_bytes'] >> 20} MiB; bytes are those the loop names (2 or 3 arrays), "
               "without the read that a normal store makes first")


def steps(table, options):
    table.section("Training steps: forward, backward, clipping, AdamW; a fresh process for each case")
    check_idle(table, "before the steps")
    step_rows.run(table, options.bin, options.quick, options.shape, options.torch, bool(options.llmc))
    plait, names = step_rows.Plait(table, options.bin), step_rows.shape_names(options.quick, options.shape)
    if options.by_op:
        table.section("Training steps, op by op")
        check_idle(table, "before the steps op by op")
        by_op_rows.run(table, plait, names, options.quick)
    if options.busy:
        table.section("Training steps beside a busy neighbour")
        check_idle(table, "before the busy neighbour")
        busy_rows.run(table, plait, names, options.quick)
    if options.llmc:
        table.section("Training steps in llm.c")
        check_idle(table, "before llm.c")
        llmc_rows.run(table, plait, options.llmc, options.quick)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", required=True)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--shape", action="append", default=[])
    parser.add_argument("--torch", action="append", default=[])
    parser.add_argument("--llmc")
    parser.add_argument("--by-op", action="store_true")
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--case", action="append", default=[])
    parser.add_argument("--large", action="store_true")
    options = parser.parse_args()
    parts = options.only or ["ceilings", "ops", "steps", "parallel", "collectives", "checkpoint", "hosts"]
    table = Table()
    begin = time.time()
    table.note(f"Plait {commit()}, {processor()}, {len(os.sched_getaffinity(0))} cores, "
               f"{time.strftime('%Y-%m-%d %H:%M')}{', quick' if options.quick else ''}")
    if "ceilings" in parts:
        check_idle(table, "before the ceilings")
        ceilings(table, options.bin)
    if "ops" in parts:
        table.section("Ops: checked against the reference, then timed on operands that have left the caches")
        check_idle(table, "before the ops")
        op_rows.run(table, options.bin, options.quick)
    if "steps" in parts:
        steps(table, options)
    if "parallel" in parts:
        table.section("Parallel layouts: the same steps by several ranks")
        check_idle(table, "before the layouts")
        parallel_rows.run(table, options.bin, options.quick, options.large, options.case)
    if "collectives" in parts:
        table.section("Messages between ranks")
        check_idle(table, "before the messages")
        collective_rows.run(table, options.bin, options.quick)
    if "checkpoint" in parts:
        table.section("Checkpoints")
        check_idle(table, "before the checkpoints")
        checkpoint_rows.run(table, options.bin, options.quick)
    if "hosts" in parts:
        table.section("Host languages")
        check_idle(table, "before the hosts")
        host_rows.run(table, options.quick)
    table.end(time.time() - begin)
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())

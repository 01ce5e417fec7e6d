"""Rows of collectives and small messages between ranks, beside their ceiling and Open MPI."""
import json
import os
import shutil
import statistics
import subprocess

import parallel_cases as cases
from machine import check_idle
from step_rows import cores, quartile_spread

ROUNDS, QUICK_ROUNDS = 3, 1
# Shared memory is "vader" in Open MPI 4 and "sm" in 5; ob1 with these transports alone, a core for each process.
MPI_TRANSPORTS = {"shm": ("self,vader", "self,sm"), "tcp": ("self,tcp",)}
MPI_LIMIT = 120  # seconds


def size_name(count):
    return f"{count >> 20} MiB" if count >= 1 << 20 else f"{count >> 10} KiB" if count >= 1 << 10 else f"{count} B"


class Timings:
    """(kind, way, ranks, bytes) → seconds of all rounds."""

    def __init__(self):
        self.seconds = {}

    def add(self, text):
        for line in text.splitlines():
            if not line.startswith("{"):
                continue
            entry = json.loads(line)
            key = entry["kind"], entry["way"], entry["ranks"], entry["bytes"]
            self.seconds.setdefault(key, []).extend(entry["seconds"])

    def get(self, *key):
        return self.seconds.get(key)


def mpi_command(bin_dir, way, transports):
    command = ["mpirun", "-n", "2", "--mca", "pml", "ob1", "--mca", "btl", transports]
    if way == "tcp":
        command += ["--mca", "btl_tcp_if_include", "lo"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        command.append("--allow-run-as-root")
    return command + ["--use-hwthread-cpus", "--bind-to", "hwthread", os.path.join(bin_dir, "bench_mpi_peer"), f"mpi-{way}"]


class Mpi:
    """Open MPI, where it is there."""

    def __init__(self, bin_dir):
        self.bin_dir, self.why_not = bin_dir, None
        if not shutil.which("mpirun"):
            self.why_not = "no mpirun"
        elif not os.path.exists(os.path.join(bin_dir, "bench_mpi_peer")):
            self.why_not = "built without MPI"

    def run(self, way, timings):
        if self.why_not:
            return
        error = ""
        for transports in MPI_TRANSPORTS[way]:
            try:
                done = subprocess.run(mpi_command(self.bin_dir, way, transports), capture_output=True, text=True,
                                      timeout=MPI_LIMIT)
            except subprocess.TimeoutExpired:
                error = f"no end within {MPI_LIMIT} s"
                continue
            if done.returncode == 0:
                timings.add(done.stdout)
                return
            error = (done.stderr.strip().splitlines() or [f"code {done.returncode}"])[-1]
        self.why_not = error


def run_plait(table, bin_dir, way, timings):
    done = subprocess.run([os.path.join(bin_dir, "bench_collectives"), way], capture_output=True, text=True)
    if done.returncode == 0:
        timings.add(done.stdout)
        return True
    table.failed(f"collectives, {way}", done.stderr.strip() or f"code {done.returncode}")
    return False


def rate(count, seconds):
    return f"{count / seconds / 1e9:.2f} GB/s"


def stall(seconds):
    """ms of the longest over the median."""
    return 1e3 * (max(seconds) - statistics.median(seconds))


def add_all_reduce(table, timings, way, ranks, count):
    mine = timings.get("all_reduce", way, ranks, count)
    seconds = statistics.median(mine)
    what = f"all-reduce {size_name(count)}, {ranks} ranks, {way}"
    is_large = count >= cases.LARGE
    share, target, note = None, None, ""
    if way == "threads":
        ceiling = statistics.median(timings.get("ceiling", way, ranks, count))
        share, target = 100 * ceiling / seconds, cases.THREADS_SHARE if is_large and ranks <= cores() else None
        note = f"of the threads' ceiling, {rate(count, ceiling)}"
    table.row(what, "Plait", "fp32", seconds, rate(count, seconds), share, target, quartile_spread(mine), note)
    mpi_way = "shm" if way == "threads" else way
    peer = timings.get("all_reduce", f"mpi-{mpi_way}", 2, count)
    if peer is None or ranks != 2:
        return
    theirs = statistics.median(peer)
    target = None
    if is_large:
        target = {"threads": cases.THREADS_OVER_MPI, "tcp": cases.TCP_OVER_MPI}.get(way)
    table.row(what, "Open MPI", "fp32", theirs, rate(count, theirs), theirs / seconds, target,
              quartile_spread(peer), f"speed of Plait over Open MPI's by {mpi_way}", unit="x")


def add_stall(table, timings, way, target):
    """Of messages that take less than a few ms themselves."""
    sizes = [key for key in timings.seconds if key[1] == way and key[3] <= cases.LARGE and key[0] != "ceiling"
             and key[2] == 2 and key[0] != "raw_round_trip"]
    if not sizes:
        return
    longest = max(sizes, key=lambda key: stall(timings.seconds[key]))
    table.row(f"longest stall, up to 1 MiB, {way}", "", "", share=stall(timings.seconds[longest]), target=target, unit="ms",
              is_at_most=True, note=f"over the median, {longest[0].replace('_', ' ')} of {size_name(longest[3])}")


def add_round_trip(table, timings, way, ranks):
    mine = timings.get("round_trip", way, ranks, 8)
    seconds = statistics.median(mine)
    target = (cases.ROUND_TRIP, None) if way == "tcp" else None
    others = []
    for name, kind, other in (("bare blocking sockets", "raw_round_trip", "tcp"), ("Open MPI", "round_trip", f"mpi-{way}")):
        theirs = timings.get(kind, other, 2, 8)
        if theirs and (kind != "raw_round_trip" or way == "tcp"):
            others.append(f"{name} {1e6 * statistics.median(theirs):.1f} µs")
    slow = sorted(mine)[int(len(mine) * 0.99)]
    table.row(f"round trip of 8 bytes, {ranks} ranks, {way}", "", "", seconds, share=1e6 * seconds, target=target, unit="µs",
              is_at_most=True, spread=quartile_spread(mine), note=", ".join(others + [f"99 % within {1e6 * slow:.0f} µs"]))


def run(table, bin_dir, is_quick):
    check_idle(table, "before the collectives", 0.4, is_quiet=True)
    timings, mpi = Timings(), Mpi(bin_dir)
    ways = ["threads", "shm", "tcp"]
    for _ in range(QUICK_ROUNDS if is_quick else ROUNDS):
        for way in list(ways):
            if not run_plait(table, bin_dir, way, timings):
                ways.remove(way)
            if way != "threads":
                mpi.run(way, timings)
    for way in ways:
        for ranks in (2, 4) if way == "threads" else (2,):
            for count in sorted({key[3] for key in timings.seconds if key[0] == "all_reduce"}):
                add_all_reduce(table, timings, way, ranks, count)
            add_round_trip(table, timings, way, ranks)
        add_stall(table, timings, way, cases.LONGEST_STALL if way == "tcp" else None)
    for way in ("shm", "tcp"):
        add_stall(table, timings, f"mpi-{way}", None)
    table.note("sums are checked before and after they are timed; GB/s: bytes of a rank's buffer over time; the ceiling is "
               "the same sum in place by all cores at once, without messages; Plait and Open MPI in turns of processes")
    if mpi.why_not:
        table.note(f"left out: Open MPI ({mpi.why_not})")

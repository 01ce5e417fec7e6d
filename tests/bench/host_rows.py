"""Rows of host languages: what a call that does nothing costs, what feeding a batch copies, and training beside C."""
import collections
import json
import os
import re
import statistics
import subprocess
import tempfile
import time

from machine import check_idle
from shapes import GPT2, Shape
from step_rows import cores, last_json, quartile_spread

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
CALL, CALL_OF_C = (1, None), (0.2, None)  # µs, at most
COPIED = (0, None)  # bytes of a batch, at most
SPEED = (98, None)  # percent of C

CALLS, QUICK_CALLS = 200000, 20000  # of a turn
CALL_TURNS = 9
FED = 8  # batches
TURNS, QUICK_TURNS = 6, 2  # even: each comes first as often as the other
STEPS, QUICK_STEPS = 14, 4  # of a turn
WARM = 2  # of them
PROGRESS = re.compile(r"step \d+/\d+ loss \S+ \| (\d+) tokens/s$")

# Small enough for calls, large enough for training: the language must not matter there.
TINY = Shape("2x32", GPT2, 2, 32, 2, 32, 256, 4)
TRAINED = Shape("4x256 S256", GPT2, 4, 256, 4, 256, 256, 2)

# Commands of the two programs; `calls` is None where the language calls C as C does.
Host = collections.namedtuple("Host", "name calls train environment")
# What a sample printed: the time of each line and the rate in it, and the line of losses.
Run = collections.namedtuple("Run", "times rates losses")


def hosts(built):
    """C comes first."""
    def of(*path):
        return os.path.join(built, *path)
    java = ["java", "--enable-native-access=ALL-UNNAMED", "-cp"]
    return [
        Host("C", [of("bench", "c", "calls")], [of("c", "train")], {}),
        Host("C++", None, [of("cpp", "train")], {}),
        Host("Go", [of("bench", "go", "calls")], [of("go", "train")], {}),
        Host("Rust", [of("bench", "rust", "calls")], [of("rust", "debug", "train")], {}),
        Host("Java", [*java, f"{of('java', 'plait.jar')}:{of('bench', 'java')}", "Calls"],
             [*java, f"{of('java', 'plait.jar')}:{of('java', 'tests')}", "Train"], {}),
        Host("C#", ["mono", of("bench", "csharp", "calls.exe")], ["mono", of("csharp", "train.exe")],
             {"MONO_PATH": of("csharp")}),
        Host("Python", ["python3", os.path.join(ROOT, "tests", "bench", "hosts", "calls.py")],
             ["python3", os.path.join(ROOT, "samples", "host", "python", "train.py")], {"PYTHONPATH": of("python")}),
    ]


class Bench:
    """Runs programs of hosts; what fails becomes a line of the table."""

    def __init__(self, table, built, directory):
        self.table, self.built, self.directory = table, built, directory

    def environment(self, host, more):
        path = [os.path.join(self.built, "prefix", "lib"), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {**os.environ, "LD_LIBRARY_PATH": ":".join(path), **host.environment, **more}

    def config(self, name, shape, threads):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            json.dump(shape.plait_keys("fp32", threads), file)
        return path

    def failed(self, host, what, text, code):
        lines = [line for line in text.splitlines() if line.strip()]
        self.table.failed(f"{host.name}, {what}", lines[-1][:200] if lines else f"code {code}")

    def calls(self, host, *arguments, **more):
        """What `calls` prints, or None."""
        done = subprocess.run([*host.calls, self.config("tiny.json", TINY, 1), *map(str, arguments)], capture_output=True,
                              text=True, env=self.environment(host, more))
        out = last_json(done.stdout) if done.returncode == 0 else None
        if out is None:
            self.failed(host, f"calls {arguments[0]}", done.stderr, done.returncode)
        return out

    def train(self, host, config, steps):
        """A Run of the sample, or None. A line of progress is stamped as it comes: the rate in it is that of the call
        alone, what the host does between two calls is seen by this clock only."""
        text = os.path.join(ROOT, "README.md")
        with subprocess.Popen([*host.train, config, text, "--steps", str(steps)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                              env=self.environment(host, {})) as process:
            lines = [(time.perf_counter(), line) for line in process.stderr]
            losses = process.stdout.read()
        seen = [(at, PROGRESS.match(line.strip())) for at, line in lines]
        seen = [(at, float(match[1])) for at, match in seen if match]
        if process.returncode != 0 or len(seen) != steps:
            self.failed(host, "training", "".join(line for _, line in lines), process.returncode)
            return None
        return Run([at for at, _ in seen], [rate for _, rate in seen], losses.strip())


def add_calls(table, host, out):
    target = CALL_OF_C if host.name == "C" else CALL
    for key, what in (("state", "call: state of an engine"), ("version", "call: version")):
        ns = statistics.median(out[key])
        table.row(what, host.name, "", rate=f"{ns:.0f} ns", share=ns / 1e3, target=target, spread=quartile_spread(out[key]),
                  unit="µs", is_at_most=True)


def add_feed(table, host, out, counts):
    """`counts`: one of each call of map and of the set at the end, by which copies.so proves that it sees them."""
    size, maps = out["bytes"], [count for count in counts if count["call"] == "map"]
    sets = [count for count in counts if count["call"] == "set"]
    if not maps or not sets or not out["addresses"]:
        table.failed(f"{host.name}, calls feed", "no call was counted")
        return
    if sets[-1]["copied"] < size:
        table.failed(f"{host.name}, calls feed", f"set of {size} bytes counts {sets[-1]['copied']}: copies are not seen")
        return
    given = {count["address"] for count in maps}
    elsewhere = sum(address not in given for address in out["addresses"])
    copied = sum(count["copied"] for count in maps + sets[:-1]) + elsewhere * size
    later = sum(count["allocations"] for count in maps[1:])
    table.row("feeding a batch by map", host.name, "int32", share=copied / len(out["addresses"]), target=COPIED, unit="B",
              is_at_most=True, note=f"of {size}; {len(out['addresses'])} batches, {elsewhere} of them filled elsewhere than in the "
              f"library's memory; {later} allocations after the first map")


def step_seconds(run):
    """Mean of a turn, pauses of the host among them."""
    return (run.times[-1] - run.times[WARM - 1]) / (len(run.times) - WARM)


def add_training(table, host, shape, turns):
    """`turns`: pairs of Runs, C's first."""
    ratios = [step_seconds(c) / step_seconds(own) for c, own in turns]
    within = [statistics.median(own.rates[WARM:]) / statistics.median(c.rates[WARM:]) for c, own in turns]
    seconds = statistics.median(step_seconds(own) for _, own in turns)
    table.row(f"training, {shape.name}", host.name, "fp32", seconds, f"{shape.tokens / seconds:.0f} tokens/s",
              100 * statistics.median(ratios), SPEED, quartile_spread(ratios),
              note=f"of C; {len(ratios)} turns; within the call {statistics.median(within):.1%}")


def train(bench, all_hosts, is_quick):
    table, steps = bench.table, QUICK_STEPS if is_quick else STEPS
    config, of_c = bench.config("train.json", TRAINED, cores()), []
    for host in all_hosts[1:]:
        turns = []
        for turn in range(QUICK_TURNS if is_quick else TURNS):
            order = [all_hosts[0], host] if turn % 2 == 0 else [host, all_hosts[0]]
            runs = {one.name: bench.train(one, config, steps) for one in order}
            if None in runs.values():
                break
            turns.append((runs["C"], runs[host.name]))
        else:
            of_c += [c for c, _ in turns]
            if len({run.losses for pair in turns for run in pair}) != 1:
                table.failed(f"{host.name}, training", "its losses are not those of C")
            else:
                add_training(table, host, TRAINED, turns)
    if of_c:
        each = [step_seconds(run) for run in of_c]
        seconds = statistics.median(each)
        table.row(f"training, {TRAINED.name}", "C", "fp32", seconds, f"{TRAINED.tokens / seconds:.0f} tokens/s",
                  spread=quartile_spread(each), note=f"{len(each)} turns of {steps - WARM} steps")


def run(table, is_quick):
    built = os.path.abspath(os.path.join("build", "hosts"))
    all_hosts = hosts(built)
    with tempfile.TemporaryDirectory(prefix="hosts-") as directory:
        bench = Bench(table, built, directory)
        for host in all_hosts:
            out = host.calls and bench.calls(host, "time", QUICK_CALLS if is_quick else CALLS, CALL_TURNS)
            if out:
                add_calls(table, host, out)
        for number, host in enumerate(all_hosts):
            counts = os.path.join(directory, f"counts.{number}")
            out = host.calls and bench.calls(host, "feed", FED, LD_PRELOAD=os.path.join(built, "bench", "copies.so"),
                                             PLAIT_COPIES=counts)
            if out:
                with open(counts) as lines:
                    add_feed(table, host, out, [json.loads(line) for line in lines])
        check_idle(table, "before training from hosts", 0.4, is_quiet=True)
        train(bench, all_hosts, is_quick)
    table.note("a call is made on the language's own objects, their checks included; copies: bytes of the batch that the library "
               "copies in map, and whole batches that the host fills elsewhere than where map says; the same counter sees all of a "
               "set")
    table.note("training: samples/host in turns with C's, from line to line of their progress, so with all that a host does "
               "between calls; losses are equal to the last bit")

"""Rows of steps beside a busy neighbour process."""
import statistics

import shapes
from step_rows import quartile_spread

LEAST_TURNS, MOST_TURNS = 5, 24
RUNNING = 0.05  # of a core: least that the neighbour must have had
FAIR = 0.3  # of a core: with less of it, others than the step were before it
STOPPED = 0.02  # of a core: most that it may have had while steps ran alone


def wrong(alone, busy, is_gone):
    """What the neighbour did that it was not meant to, or None."""
    if busy["neighbour_cpu_seconds"] < RUNNING * busy["seconds"]:
        return f"the neighbour had {busy['neighbour_cpu_seconds']:.2f} s of processors in {busy['seconds']:.2f} s: not busy"
    if alone["neighbour_cpu_seconds"] > max(0.02, STOPPED * alone["seconds"]):
        return f"the neighbour had {alone['neighbour_cpu_seconds']:.2f} s of processors while steps were to run alone"
    return None if is_gone else "the neighbour was still there afterwards"


def add_row(table, shape, dtype, steps):
    alone, busy = steps["alone"], steps["busy"]
    why = wrong(alone, busy, steps["is_gone"])
    if why:
        table.failed(f"{shape.name} {dtype} beside a busy neighbour", why)
        return
    ratios = [b / a for a, b in zip(alone["steps"], busy["steps"])]
    share = busy["neighbour_cpu_seconds"] / busy["seconds"]
    seconds = statistics.median(busy["steps"])
    table.row(shape.name, "busy neighbour", dtype, seconds, f"{shape.tokens / seconds:.0f} tokens/s",
              statistics.median(ratios), shapes.BUSY_RATIO, quartile_spread(ratios), unit="x", is_at_most=True,
              note=f"over {statistics.median(alone['steps']) * 1e3:.2f} ms alone, median of {len(ratios)} turns; the neighbour "
                   f"had {busy['neighbour_cpu_seconds']:.2f} s of {busy['seconds']:.2f} s (/proc), "
                   f"{alone['neighbour_cpu_seconds']:.2f} s while stopped; it is gone"
                   + ("" if share > FAIR else "; LESS than its share: others were busy too"))


def run(table, plait, names, is_quick):
    for dtype in ("bf16", "fp32"):
        for name in names:
            shape = shapes.SHAPES[name]
            out = plait.turns(shape, dtype, "--busy", 3 if is_quick else 12, 2 if is_quick else LEAST_TURNS, MOST_TURNS)
            if out is not None:
                add_row(table, shape, dtype, out["steps"])
    table.note("busy neighbour: one process of one thread that spins on arithmetic, pinned nowhere, of the same session and "
               "priority; blocks of steps of half a second beside it (SIGCONT) and alone (SIGSTOP) in turns, in one process")

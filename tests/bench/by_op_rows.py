"""Rows of one training step, op by op."""
import statistics

import shapes
from op_rows import better, ceiling

# (op, pass) → what the row says, in the order of rows. Products with the logits' weight are told apart by its size.
LABELS = {
    ("embedding", "forward"): "embedding forward",
    ("residual_norm", "forward"): "residual, norm forward",
    ("linear", "forward"): "product forward",
    ("rotary", "forward"): "rotary forward",
    ("attention", "forward"): "attention forward",
    ("activation", "forward"): "activation forward",
    ("logits", "forward"): "logits forward",
    ("cross_entropy", "statistics"): "cross-entropy statistics",
    ("cross_entropy", "gradient"): "cross-entropy gradient",
    ("logits", "backward input"): "logits input gradient",
    ("logits", "backward weight"): "logits weight gradient",
    ("linear", "backward input"): "product input gradient",
    ("linear", "backward weight"): "product weight gradient",
    ("activation", "backward"): "activation backward",
    ("attention", "backward"): "attention backward",
    ("rotary", "backward"): "rotary backward",
    ("residual_norm", "backward"): "residual, norm backward",
    ("embedding", "backward"): "embedding backward",
    ("span", "add"): "reductions: sums",
    ("span", "sum of squares"): "reductions: squares",
    ("adamw", "update"): "optimizer",
    ("span", "convert"): "conversions",
    ("linear", "pack"): "packing of weights",
    ("logits", "pack"): "packing of logits",
}
LEAST_TURNS, MOST_TURNS = 5, 40


def grouped(ops, shape):
    """(op, pass) → {"seconds", "calls", "flops", "bytes", "bound"} of a step's ops, by the keys of LABELS first."""
    logits = (shape.padded_vocabulary, shape.hidden)
    out = {key: None for key in LABELS}
    for op in ops:
        is_logits = op["op"] == "linear" and (op["n"], op["k"]) == logits
        key = ("logits" if is_logits else op["op"], op["pass"])
        group = out.get(key) or {"seconds": 0, "calls": 0, "flops": 0, "bytes": 0, "bound": op["bound"]}
        for part in ("seconds", "calls", "flops", "bytes"):
            group[part] += op[part]
        out[key] = group
    return {key: group for key, group in out.items() if group}


def add_rows(table, shape, dtype, out):
    steps, ceilings = out["steps"], better(out["ceilings_before"], out["ceilings_after"])
    whole, count = sum(steps["watched"]), len(steps["watched"])
    groups = grouped(steps["ops"], shape)
    rest = whole - sum(group["seconds"] for group in groups.values())
    if rest < 0:
        table.failed(f"{shape.name} {dtype} by op", f"the ops of {count} steps took {-rest:.6f} s more than the steps")
        return
    for key, group in groups.items():
        work, unit = (group["flops"], "GFLOP/s") if group["flops"] else (group["bytes"], "GB/s")
        rate, limit = work / group["seconds"], ceiling(group["bound"], ceilings)
        table.row(f"{shape.name}: {LABELS.get(key, ' '.join(key))}", "by op", dtype, group["seconds"] / count,
                  f"{rate / 1e9:.1f} {unit}", 100 * group["seconds"] / whole,
                  note=f"of the step; {100 * rate / limit:.0f} % of {group['bound']} {limit / 1e9:.0f} {unit}; "
                       f"{group['calls'] / count:g} calls a step")
    table.row(f"{shape.name}: in no op", "by op", dtype, rest / count, share=100 * rest / whole,
              note="of the step: the call's handing over to the rank's thread and back, the batch, passes between ops")
    watched, plain = statistics.median(steps["watched"]), statistics.median(steps["plain"])
    table.row(f"{shape.name}: sum of these", "step", dtype, whole / count, share=watched / plain, unit="x",
              note=f"mean of {count} steps with the clock; share: their median {watched * 1e3:.2f} ms over the median "
                   f"{plain * 1e3:.2f} ms of as many without, in turns")


def run(table, plait, names, is_quick):
    for dtype in ("bf16", "fp32"):
        for name in names:
            shape = shapes.SHAPES[name]
            out = plait.turns(shape, dtype, "--by-op", 2 if is_quick else 8, 2 if is_quick else LEAST_TURNS, MOST_TURNS)
            if out is not None:
                add_rows(table, shape, dtype, out)
    table.note("by op: a monotonic clock read before and after each implementation, on the rank's thread, whose pool has joined "
               "by then; ms are the mean of the steps with the clock, shares of their whole time as the caller sees it; FLOPs "
               "and bytes come from the arguments of each call, as for single ops; ceilings are of the same process")

"""Rows of single ops."""
import json
import os
import subprocess

import shapes


def better(a, b):
    """The higher of two measurements of each product ceiling; memory as it was measured."""
    if a is None:
        return b
    out = dict(a)
    for key in ("fma", "bf16_dot", "amx"):
        if b[key]["rate"] > out[key]["rate"]:
            out[key] = b[key]
    out["bf16"] = out[out["bf16_name"] if out["bf16_name"] != "dot" else "bf16_dot"]["rate"]
    return out


def ceiling(bound, c):
    return {"fp32 product": c["fma"]["rate"], "bf16 product": c["bf16"], "fma": c["fma"]["rate"],
            "triad": c["triad"]["rate"], "triad past cache": c["triad_past_cache"]["rate"]}[bound]


def target(case, c):
    if "product" in case["bound"]:
        table = shapes.PRODUCT_SHARE["amx" if case["dtype"] == "bf16" and c["amx"]["rate"] else "fma"]
        return table["logits" if case["op"] == "logits" else case["pass"]]
    if case["op"] == "adamw":
        return shapes.ADAMW_SHARE
    return None if case["op"] == "attention" else shapes.FUSED_SHARE


def add_row(table, case, c):
    if case["wrong"]:
        table.failed(f"{case['shape']} {case['op']} {case['what']} {case['pass']} {case['dtype']}", case["wrong"])
        return
    work, unit = (case["flops"], "GFLOP/s") if case["flops"] else (case["bytes"], "GB/s")
    rate = work / case["seconds"]
    share = 100 * rate / ceiling(case["bound"], c)
    name = "" if case["op"] in ("linear", "logits") else f"{case['op']}: "
    what = f"{case['shape']} {name}{case['what']}"
    note = f"of {case['bound']}; {case['kernel']}; {case['runs']} runs"
    table.row(what, case["pass"], case["dtype"], case["seconds"], f"{rate / 1e9:.1f} {unit}", share, target(case, c),
              case["spread"], note)


def add_sums(table, group, c):
    """The body's products of a shape together, weighted by their work."""
    for shape in ("b4", "c"):
        for dtype in ("bf16", "fp32"):
            for step in ("forward", "backward input", "backward weight"):
                wanted = ("linear", shape, dtype, step)
                cases = [g for g in group if (g["op"], g["shape"], g["dtype"], g["pass"]) == wanted]
                if not cases or any(g["wrong"] for g in cases):
                    continue
                flops, seconds = sum(g["flops"] for g in cases), sum(g["seconds"] for g in cases)
                rate = flops / seconds
                table.row(f"{shape} body, all four", step, dtype, seconds, f"{rate / 1e9:.1f} GFLOP/s",
                          100 * rate / ceiling(cases[0]["bound"], c), target(cases[0], c), None,
                          f"of {cases[0]['bound']}")


def run(table, bin_dir, is_quick):
    command = [os.path.join(bin_dir, "bench_ops")] + (["--quick"] if is_quick else [])
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    before, group, memory = None, [], {}
    for line in process.stdout:
        entry = json.loads(line)
        if "ceilings" not in entry:
            group.append(entry)
            continue
        if "triad" in entry["ceilings"]:
            memory = {key: entry["ceilings"][key] for key in ("triad", "triad_past_cache")}
        now = {**entry["ceilings"], **memory}
        c = better(before, now)
        before = now
        for case in group:
            add_row(table, case, c)
        add_sums(table, group, c)
        group = []
    error = process.stderr.read().strip()
    if process.wait() not in (0, 3):
        table.failed("ops", error or f"bench_ops ended with code {process.returncode}")
    table.note("products and attention: FLOPs over the ceiling measured before and after the group (the higher); "
               "attention counts the causal half, backward twice forward")
    table.note("bytes are those an op cannot do without; in-place and read-only ops compare with triad past the cache, "
               "which, as they, reads nothing before it writes. Above 100 %: operands were still in a shared L3 cache")

#!/usr/bin/env python3
"""I5 and A6 in a process that was not made for Plait: Python, with NumPy where it is installed and with the other
OpenMP runtime where one is. Prints TAP.

  embedding.py [LIBRARY]      default: build/release/lib/libplait.so"""
import ctypes
import ctypes.util
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUNTIMES = re.compile(r"(libgomp|libomp|libiomp5)\S*\.so\S*")
MODEL = b"""{"model":{"family":"gpt2","layers":2,"hidden":64,"heads":4,"vocab_size":200,"sequence_length":32},
  "train":{"global_batch":4},"optimizer":{"lr":0.01},"threads":2,"seed":3,"precision":{"compute":"%s"}}"""


class Metrics(ctypes.Structure):
    _fields_ = ([(n, ctypes.c_int64) for n in ("struct_size", "valid", "step", "samples", "tokens_total", "skipped_total",
                                               "tokens", "targets", "skipped")]
                + [(n, ctypes.c_double) for n in ("loss", "grad_norm", "lr", "loss_scale")]
                + [("rest", ctypes.c_int64 * 12)])


def must(code):
    if code != 0:
        sys.exit(f"code {code}")


def train(library, compute, steps=10):
    """Losses of `steps` steps; the handles stay alive until the process ends."""
    plait = ctypes.CDLL(library)
    plait.plait_version.restype = ctypes.c_int32
    context, config, group, engine, batch = (ctypes.c_void_p() for _ in range(5))
    text = MODEL.replace(b"%s", compute.encode())
    must(plait.plait_context_create(plait.plait_version() // 1000 * 1000, None, ctypes.byref(context), None))
    must(plait.plait_config_create(context, ctypes.byref(config), None))
    must(plait.plait_config_load(config, text, ctypes.c_int64(len(text)), None))
    must(plait.plait_group_create(context, config, 0, 1, 1, ctypes.byref(group), None))
    must(plait.plait_engine_create(group, config, ctypes.c_int64(60000), ctypes.byref(engine), None))
    must(plait.plait_batch_create(engine, 1, ctypes.byref(batch), None))
    rows = (ctypes.c_int32 * (4 * 33))(*[(i * 7) % 200 for i in range(4 * 33)])
    must(plait.plait_batch_set(batch, b"tokens", rows, ctypes.c_int64(4), ctypes.c_int64(33), None))
    metrics = Metrics(struct_size=ctypes.sizeof(Metrics))
    losses = []
    for _ in range(steps):
        must(plait.plait_engine_step(engine, batch, ctypes.c_int64(60000), ctypes.byref(metrics), None))
        losses.append(metrics.loss)
    return plait, losses


def guest(library, compute, neighbour):
    """Body of a child process: a neighbour uses its threads before, between and after ten steps."""
    work = lambda: None
    if neighbour == "numpy":
        import numpy
        work = lambda: numpy.dot(numpy.ones((600, 600)), numpy.ones((600, 600)))
    elif neighbour:
        other = ctypes.CDLL(neighbour, mode=ctypes.RTLD_GLOBAL)
        other.omp_set_num_threads(2)
        work = lambda: other.omp_get_max_threads()
    work()
    plait, losses = train(library, compute)
    work()
    print(" ".join(x.hex() for x in losses))
    import _ctypes
    _ctypes.dlclose(plait._handle)  # with everything alive; the library stays, and the process ends


def run(library, compute, neighbour=""):
    done = subprocess.run([sys.executable, os.path.abspath(__file__), "--guest", library, compute, neighbour],
                          capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def main():
    if sys.argv[1:2] == ["--guest"]:
        return guest(*sys.argv[2:5])
    library = os.path.abspath(sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/lib/libplait.so"))
    if not os.path.exists(library):
        print(f"not ok - {library} is not built")
        return 1
    bad = 0

    def judge(is_good, what, detail=""):
        nonlocal bad
        bad |= not is_good
        print(f"{'ok' if is_good else 'not ok'} - {what}")
        if not is_good:
            print("# " + detail.replace("\n", "\n# "))

    linked = subprocess.check_output(["ldd", library], text=True)
    runtimes = sorted({m.group(1) for m in RUNTIMES.finditer(linked)})
    judge(runtimes == ["libgomp"], "one OpenMP runtime is linked: libgomp", linked)
    neighbours = [("", "Python alone")]
    try:
        import numpy  # noqa: F401
        neighbours.append(("numpy", "Python with NumPy"))
    except ImportError:
        print("ok - Python with NumPy # SKIP NumPy is not installed")
    other = next((name for name in (ctypes.util.find_library("omp"), ctypes.util.find_library("omp5"),
                                    ctypes.util.find_library("iomp5")) if name), None)
    if other:
        neighbours.append((other, f"Python with {other}"))
    else:
        print("ok - Python with the other OpenMP runtime # SKIP none is installed")
    for compute in ("fp32", "bf16"):
        _, want, _ = run(library, compute)
        values = [float.fromhex(x) for x in want.split()]
        judge(len(values) == 10 and values[-1] < values[0], f"ten {compute} steps from Python lower the loss", want)
        for neighbour, name in neighbours:
            code, losses, errors = run(library, compute, neighbour)
            judge(code == 0 and losses == want and not errors, f"ten {compute} steps and an unload with live handles in {name}",
                  f"exit {code}\n{losses}\n{errors}")
    return bad


if __name__ == "__main__":
    sys.exit(main())

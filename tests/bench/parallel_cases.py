"""Which layouts are compared, on which models, and what is to be reached: floor, aim."""
from shapes import GPT2, SHAPES, Shape


class Case:
    """Layouts of one model and global batch. `layouts`: (name, keys); losses of all must equal those of the first, which
    has micro-batches of `micro_batch`; speed of the last is compared with that of number `base`. `tolerance`: of bf16
    losses; those of fp32 are equal within 1e-5."""

    def __init__(self, shape, micro_batch, layouts, tolerance=1e-5, base=0):
        self.shape, self.micro_batch, self.layouts = shape, micro_batch, layouts
        self.tolerance, self.base, self.is_large = tolerance, base, False

    def keys(self, layout, compute, threads):
        keys = self.shape.plait_keys(compute, threads)
        keys["layout.micro_batch"] = self.micro_batch
        keys.update(layout)
        return keys


def layout(**keys):
    return {f"layout.{name}": value for name, value in keys.items()}


ONE = ("one rank", {})
# Tensor ranks round their parts of a sum to bfloat16: another rounding of the same model.
BF16_TENSOR = 1e-3


def cases(is_large):
    """With `is_large` the models of the targets, else ones that share their widths and take about a second a step on
    two cores without AMX."""
    def pick(small, large):
        return large if is_large else small
    body = pick(Shape("4x512 V256", GPT2, 4, 512, 8, 256, 256, 8), Shape("12x768 V256", GPT2, 12, 768, 12, 1024, 256, 8))
    half = pick(Shape("4x512 V256", GPT2, 4, 512, 8, 512, 256, 4), Shape("12x768 V256", GPT2, 12, 768, 12, 1024, 256, 4))
    sixth = Shape("2x768 V8448", GPT2, 2, 768, 12, 1024, 8448, 1)
    wide = Shape("2x1024 V25152", GPT2, 2, 1024, 16, 512, 25152, 1)
    small_wide = Shape("2x1024 V12576", GPT2, 2, 1024, 16, 512, 12576, 2)
    many = pick(Shape("4x512 V1024", GPT2, 4, 512, 8, 256, 1024, 8), Shape("8x768 V8192", GPT2, 8, 768, 12, 512, 8192, 16))
    tensor_2 = ("tensor 2", layout(tensor=2))
    b, c = pick(sixth, SHAPES["b4"]), pick(wide, SHAPES["c"])
    data = pick(small_wide, SHAPES["c"])
    made = {
        "tensor-b": Case(b, b.batch, [ONE, tensor_2], BF16_TENSOR),
        "tensor-c": Case(c, c.batch, [ONE, tensor_2], BF16_TENSOR),
        "pipeline": Case(body, 1, [ONE, ("pipeline 2", layout(pipeline=2))]),
        "interleave": Case(half, 1, [ONE, ("pipeline 2", layout(pipeline=2)),
                                  ("interleave 2", layout(pipeline=2, interleave=2))], base=1),
        "data": Case(data, data.batch,
                     [ONE, ("data 2, ZeRO 1", layout(data=2, zero=1, micro_batch=data.batch // 2))]),
        "ranks": Case(many, 1, [ONE, ("16 ranks: 2·4·2", layout(tensor=2, pipeline=4, data=2))], BF16_TENSOR),
    }
    for case in made.values():
        case.is_large = is_large
    return made


TENSOR_SPEED = (0.85, 0.95)
PIPELINE_SPEED = (0.90, 0.97)  # over one rank and over m / (m + p - 1)
INTERLEAVE_FLOOR, INTERLEAVE_AIM = 1.01, 0.97  # faster; the aim is a share of the formula's gain
DATA_SPEED = (0.90, 0.97)
RANKS_SPEED = (0.75, 0.85)
MEMORY = (1.10, 1.03)  # over the formula, at most

# All-reduces in a process: share of the threads' ceiling, from 1 MiB on; over Open MPI on shared memory.
THREADS_SHARE = (80, 95)
THREADS_OVER_MPI = (2.0, None)
TCP_OVER_MPI = (1.0, 1.5)  # from 1 MiB on
LONGEST_STALL = (1.0, None)  # ms, at most
LARGE = 1 << 20  # bytes
ROUND_TRIP = 60.0  # µs, of a small message over TCP, at most

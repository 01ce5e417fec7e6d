#!/usr/bin/env python3
"""One training step of a shape in PyTorch, timed: `torch_step.py SHAPE fp32|bf16 eager|chunked|compile --seconds S`.

Prints one JSON line. Runs under the Python that has torch; needs nothing else. The step is forward, backward,
clipping by the global norm and AdamW on fp32 weights; bf16 means autocast. The whole batch goes through at once.
`chunked` is eager with torch's own cross entropy that never holds all logits (torch 2.14 and later)."""
import argparse
import functools
import json
import math
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import shapes  # noqa: E402


class RootMeanSquareNorm(nn.Module):
    """nn.RMSNorm, for versions before 2.4."""

    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps) * self.weight


RMSNorm = getattr(nn, "RMSNorm", RootMeanSquareNorm)


@functools.lru_cache(maxsize=1)
def hidden_keys(length):
    return torch.ones(length, length, dtype=torch.bool).triu(1)


def attend(q, k, v):
    """Causal. Versions before 2 have no attention in one call."""
    group = q.size(1) // k.size(1)
    if hasattr(F, "scaled_dot_product_attention"):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True, **({"enable_gqa": True} if group > 1 else {}))
    k, v = (t if group == 1 else t.repeat_interleave(group, dim=1) for t in (k, v))
    scores = q @ k.transpose(2, 3) * (1.0 / math.sqrt(q.size(3)))
    return F.softmax(scores.masked_fill(hidden_keys(q.size(2)), -math.inf), dim=-1) @ v


class Gpt2Block(nn.Module):
    def __init__(self, shape):
        super().__init__()
        h = shape.hidden
        self.heads = shape.heads
        self.norm1, self.norm2 = nn.LayerNorm(h), nn.LayerNorm(h)
        self.projection, self.output = nn.Linear(h, 3 * h), nn.Linear(h, h)
        self.up, self.down = nn.Linear(h, shape.feed_forward), nn.Linear(shape.feed_forward, h)

    def forward(self, x, _):
        b, s, h = x.shape
        q, k, v = (t.view(b, s, self.heads, h // self.heads).transpose(1, 2)
                   for t in self.projection(self.norm1(x)).split(h, dim=2))
        y = attend(q, k, v)
        x = x + self.output(y.transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


def rotate(x, cosine, sine):
    """Pairs are (j, j + D/2)."""
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cosine - b * sine, b * cosine + a * sine), dim=-1).to(x.dtype)


class LlamaBlock(nn.Module):
    def __init__(self, shape):
        super().__init__()
        h, self.heads, self.groups = shape.hidden, shape.heads, shape.key_value_heads
        self.head = h // self.heads
        self.norm1, self.norm2 = RMSNorm(h, eps=1e-5), RMSNorm(h, eps=1e-5)
        self.projection = nn.Linear(h, (self.heads + 2 * self.groups) * self.head, bias=False)
        self.output = nn.Linear(h, h, bias=False)
        self.up = nn.Linear(h, 2 * shape.feed_forward, bias=False)
        self.down = nn.Linear(shape.feed_forward, h, bias=False)

    def forward(self, x, rotary):
        b, s, h = x.shape
        sizes = [self.heads * self.head, self.groups * self.head, self.groups * self.head]
        q, k, v = (t.view(b, s, -1, self.head).transpose(1, 2) for t in self.projection(self.norm1(x)).split(sizes, 2))
        y = attend(rotate(q, *rotary), rotate(k, *rotary), v)
        x = x + self.output(y.transpose(1, 2).reshape(b, s, h))
        gate, up = self.up(self.norm2(x)).chunk(2, dim=-1)
        return x + self.down(F.silu(gate) * up)


class Model(nn.Module):
    def __init__(self, shape, is_chunked):
        super().__init__()
        self.is_chunked = is_chunked
        is_gpt2 = shape.family == shapes.GPT2
        h, v, s = shape.hidden, shape.torch_vocabulary, shape.sequence
        self.token = nn.Embedding(v, h)
        self.position = nn.Embedding(s, h) if is_gpt2 else None
        self.blocks = nn.ModuleList((Gpt2Block if is_gpt2 else LlamaBlock)(shape) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(h) if is_gpt2 else RMSNorm(h, eps=1e-5)
        self.head = nn.Linear(h, v, bias=False)
        if shape.tied:
            self.head.weight = self.token.weight
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                small = name.endswith(("output.weight", "down.weight"))
                nn.init.normal_(parameter, std=0.02 / (math.sqrt(2 * shape.layers) if small else 1.0))
            elif name.endswith("bias"):
                nn.init.zeros_(parameter)
        if not is_gpt2:
            half = h // shape.heads // 2
            angles = torch.outer(torch.arange(s), 10000.0 ** (-torch.arange(half) / half))
            self.register_buffer("cosine", angles.cos())
            self.register_buffer("sine", angles.sin())

    def forward(self, tokens, targets):
        x = self.token(tokens)
        rotary = None
        if self.position is not None:
            x = x + self.position.weight
        else:
            rotary = (self.cosine, self.sine)
        for block in self.blocks:
            x = block(x, rotary)
        x = self.norm(x)
        if self.is_chunked:
            dtype = torch.get_autocast_dtype("cpu") if torch.is_autocast_enabled("cpu") else x.dtype
            weight = self.head.weight.to(dtype)
            return F.linear_cross_entropy(x.flatten(0, 1).to(weight.dtype), weight, targets.view(-1),
                                          options=nn.LinearCrossEntropyOptions())
        logits = self.head(x)
        return F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1))


def make_optimizer(model):
    matrices = [p for p in model.parameters() if p.dim() == 2]
    vectors = [p for p in model.parameters() if p.dim() != 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    options = {"lr": 1e-4, "betas": (0.9, 0.95), "eps": 1e-8}
    try:
        return torch.optim.AdamW(groups, fused=True, **options), "fused"
    except (RuntimeError, TypeError):  # versions that have it for other devices alone, or not at all
        return torch.optim.AdamW(groups, foreach=True, **options), "foreach"


def peak_bytes():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) * 1024 for line in status if line.startswith("VmHWM"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("shape", choices=shapes.SHAPES)
    parser.add_argument("dtype", choices=("fp32", "bf16"))
    parser.add_argument("mode", choices=("eager", "chunked", "compile"))
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--warm", type=int, default=1, help="untimed steps after the first")
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--most", type=int, default=20, help="timed steps at most")
    parser.add_argument("--least", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(1)
    torch.set_num_threads(options.threads)
    shape = shapes.SHAPES[options.shape]
    begin = time.perf_counter()
    model = Model(shape, options.mode == "chunked")
    optimizer, kind = make_optimizer(model)
    rows = torch.randint(shape.vocabulary, (shape.batch, shape.sequence + 1))
    tokens, targets = rows[:, :-1].contiguous(), rows[:, 1:].contiguous()
    run = torch.compile(model) if options.mode == "compile" else model

    def step():
        with torch.autocast("cpu", torch.bfloat16, enabled=options.dtype == "bf16"):
            loss = run(tokens, targets)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return loss.item()

    created = time.perf_counter()
    losses = [step()]
    first = time.perf_counter() - created
    for _ in range(options.warm):
        losses.append(step())
    times, begin_timed = [], time.perf_counter()
    while len(times) < options.most and (len(times) < options.least
                                         or time.perf_counter() - begin_timed < options.seconds):
        start = time.perf_counter()
        losses.append(step())
        times.append(time.perf_counter() - start)
    parameters = sum(p.numel() for p in model.parameters())
    print(json.dumps({
        "seconds": times, "first_seconds": first, "creation_seconds": created - begin, "peak_bytes": peak_bytes(),
        "loss_first": losses[0], "loss_last": losses[-1], "parameters": parameters, "optimizer": kind,
        "version": torch.__version__, "mode": options.mode}))


if __name__ == "__main__":
    main()

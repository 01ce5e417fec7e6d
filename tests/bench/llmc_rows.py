"""Rows of steps in llm.c (CPU, fp32) and the same steps in Plait, in turns.

llm.c's program has its batch and sequence as constants in train_gpt2.c; as published they are those of the first shape. For the
second, its source is built anew by its own Makefile in a directory of ours, with these two lines changed."""
import math
import os
import pty
import re
import select
import statistics
import struct
import subprocess
import sys
import time

import shapes
from step_rows import cores, quartile_spread

MODEL_FILE = "gpt2_124M.bin"
SOURCE, PROGRAM = "train_gpt2.c", "train_gpt2"
TOKENS = "dev/data/tinyshakespeare/tiny_shakespeare_train.bin"
NEEDED = (PROGRAM, SOURCE, "Makefile", "llmc", MODEL_FILE, TOKENS, TOKENS.replace("train", "val"))
MODEL = {"max_seq_len": 1024, "vocab_size": 50257, "num_layers": 12, "num_heads": 12, "channels": 768}
CASES = ("T64", "b1")
PUBLISHED = "T64"  # the case whose sizes the program has without a change
STEP_LINE = re.compile(r"^step (\d+): train loss (\S+) \(took (\d+\.\d+) ms\)$")
HEADER_LINE = re.compile(r"^(\w+|train dataset num_batches): (\d+)$")
LIMIT = 600  # seconds of one process of llm.c
SHAPES = {"T64": shapes.Shape("124M B4 T64", shapes.GPT2, 12, 768, 12, 64, 50257, 4), "b1": shapes.SHAPES["b1"]}


class Refused(Exception):
    """What is wrong with an llm.c."""


def missing(directory):
    return [name for name in NEEDED if not os.path.exists(os.path.join(directory, name))]


class Parser:
    """Of the lines that train_gpt2 prints."""

    def __init__(self):
        self.header, self.losses, self.seconds = {}, [], []

    def line(self, text):
        step, header = STEP_LINE.match(text), HEADER_LINE.match(text)
        if header:
            self.header[header[1]] = int(header[2])
        elif step:
            if int(step[1]) != len(self.seconds) or not math.isfinite(float(step[2])):
                raise Refused(f"an unexpected line: {text}")
            self.losses.append(float(step[2]))
            self.seconds.append(float(step[3]) / 1e3)

    def check(self, shape, tokens):
        """That the model and the batch are those of the shape."""
        for name, want in {**MODEL, "train dataset num_batches": tokens // shape.tokens}.items():
            if self.header.get(name) != want:
                raise Refused(f"{name} is {self.header.get(name)}, not {want}")


def token_count(path):
    with open(path, "rb") as file:
        return struct.unpack("<3i", file.read(12))[2]


def run_program(program, directory, count, limit):
    """A Parser that has seen `count` steps; the program, which would go on, is ended. On a terminal of its own it prints line
    by line."""
    ours, its = pty.openpty()
    process = subprocess.Popen([os.path.abspath(program)], cwd=directory, stdin=subprocess.DEVNULL, stdout=its,
                               stderr=its, env={**os.environ, "OMP_NUM_THREADS": str(cores())})
    os.close(its)
    parser, text, said, end = Parser(), "", "", time.time() + limit
    try:
        while len(parser.seconds) < count:
            if not select.select([ours], [], [], max(0, end - time.time()))[0]:
                raise Refused(f"no {count} steps within {limit} s")
            try:
                piece = os.read(ours, 65536)
            except OSError:  # how a terminal says that nobody is at its other end
                piece = b""
            if not piece:
                raise Refused(f"it ended after {len(parser.seconds)} steps; its last words: {(text or said)[-300:]}")
            *lines, text = (text + piece.decode(errors="replace").replace("\r", "")).split("\n")
            for line in lines:
                parser.line(line)
                said = line or said
    finally:
        process.kill()
        process.wait()
        os.close(ours)
    return parser


def with_sizes(source, shape):
    """The text of train_gpt2.c with batch and sequence of the shape."""
    for letter, value in (("B", shape.batch), ("T", shape.sequence)):
        source, count = re.subn(rf"(?m)^(\s*int {letter} = )\d+;", rf"\g<1>{value};", source)
        if count != 1:
            raise Refused(f"{SOURCE} has {count} lines `int {letter} = …;`, not one")
    return source


def build(directory, shape):
    """The program with the sizes of the shape, made by llm.c's own Makefile."""
    place = os.path.join(os.path.abspath("build"), "bench", f"llmc-{shape.batch}x{shape.sequence}")
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(directory, SOURCE)) as file:
        source = with_sizes(file.read(), shape)
    with open(os.path.join(place, SOURCE), "w") as file:
        file.write(source)
    done = subprocess.run(["make", "-s", "-B", "-f", os.path.join(directory, "Makefile"), f"INCLUDES=-I{directory}", PROGRAM],
                          cwd=place, capture_output=True, text=True)
    if done.returncode != 0:
        raise Refused(f"make of its program with other sizes: {done.stderr.strip()[-300:]}")
    return os.path.join(place, PROGRAM)


def run_case(table, plait, directory, case, is_quick):
    shape = SHAPES[case]
    count = 2 if is_quick else 4  # steps of a process, of which the first allocates and does not count
    program = os.path.join(directory, PROGRAM) if case == PUBLISHED else build(directory, shape)
    tokens = token_count(os.path.join(directory, TOKENS))
    ours, theirs = [], []
    for _ in range(1 if is_quick else 2):
        out = plait.steps(shape, "fp32", 1 if is_quick else 4, 2)
        if out is None:
            return
        ours += out["seconds"]
        parser = run_program(program, directory, count, LIMIT)
        parser.check(shape, tokens)
        theirs += parser.seconds[1:]
    seconds, rival = statistics.median(ours), statistics.median(theirs)
    table.row(shape.name, "llm.c", "fp32", rival, f"{shape.tokens / rival:.0f} tokens/s", spread=quartile_spread(theirs),
              note=f"its own ms, {len(theirs)} steps after the first of a process; OMP_NUM_THREADS={cores()}")
    table.row(shape.name, "speed / llm.c", "fp32", seconds, f"{shape.tokens / seconds:.0f} tokens/s", rival / seconds,
              shapes.LLMC_SPEED[case], quartile_spread(ours), unit="x", note=f"Plait's ms, {len(ours)} steps, in turns with llm.c")


def run(table, plait, directory, is_quick):
    for case in CASES:
        try:
            run_case(table, plait, directory, case, is_quick)
        except Refused as why:
            table.failed(f"{SHAPES[case].name} in llm.c", str(why))
    table.note("llm.c: 124M in fp32 as its own program trains it (forward, backward, AdamW, no clipping), no more of it "
               "than these steps; Plait clips too, and has as many positions as the sequence is long")


if __name__ == "__main__":
    names = missing(sys.argv[1])
    print("\n".join(names))
    sys.exit(1 if names else 0)

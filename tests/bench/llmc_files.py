#!/usr/bin/env python3
"""Files that llm.c's train_gpt2 reads, for machines where they cannot be fetched: `llmc_files.py DIR`.

A model of GPT-2's 124M sizes with random weights and two files of random tokens, in llm.c's own formats. A step takes as long as with
real ones; what it learns means nothing. Files that are there stay."""
import array
import os
import random
import struct
import sys

from llmc_rows import MODEL, MODEL_FILE, TOKENS

MODEL_MAGIC, MODEL_VERSION = 20240326, 3
TOKENS_MAGIC, TOKENS_VERSION = 20240520, 1
HEADER = 256  # integers of 32 bits
PADDED_VOCABULARY = 50304
TOKEN_COUNT = 1 << 17
PATTERN = 1 << 20  # random numbers, which are repeated


def header(*values):
    return struct.pack(f"<{HEADER}i", *values, *[0] * (HEADER - len(values)))


def parameter_sizes():
    """(elements, a value or None for random ones) in the order of the file: scales of norms are 1, biases 0."""
    h, layers, positions = MODEL["channels"], MODEL["num_layers"], MODEL["max_seq_len"]
    one, zero, normal = 1.0, 0.0, None
    return [(PADDED_VOCABULARY * h, normal), (positions * h, normal), (layers * h, one), (layers * h, zero),
            (layers * 3 * h * h, normal), (layers * 3 * h, zero), (layers * h * h, normal), (layers * h, zero),
            (layers * h, one), (layers * h, zero), (layers * 4 * h * h, normal), (layers * 4 * h, zero),
            (layers * 4 * h * h, normal), (layers * h, zero), (h, one), (h, zero)]


def write_model(file):
    generator = random.Random(1)
    pattern = array.array("f", (generator.gauss(0, 0.02) for _ in range(PATTERN)))
    file.write(header(MODEL_MAGIC, MODEL_VERSION, MODEL["max_seq_len"], MODEL["vocab_size"], MODEL["num_layers"],
                      MODEL["num_heads"], MODEL["channels"], PADDED_VOCABULARY))
    for elements, value in parameter_sizes():
        part = pattern if value is None else array.array("f", [value]) * PATTERN
        for first in range(0, elements, PATTERN):
            part[:min(PATTERN, elements - first)].tofile(file)


def write_tokens(file):
    generator = random.Random(2)
    file.write(header(TOKENS_MAGIC, TOKENS_VERSION, TOKEN_COUNT))
    array.array("H", (generator.randrange(MODEL["vocab_size"]) for _ in range(TOKEN_COUNT))).tofile(file)


def main(directory):
    for name, write in ((MODEL_FILE, write_model), (TOKENS, write_tokens), (TOKENS.replace("train", "val"), write_tokens)):
        path = os.path.join(directory, name)
        if os.path.exists(path):
            continue
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path + ".new", "wb") as file:
            write(file)
        os.rename(path + ".new", path)
        print(f"{path}: random")


if __name__ == "__main__":
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    main(sys.argv[1])

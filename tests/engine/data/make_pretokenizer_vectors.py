#!/usr/bin/env python3
"""Writes pretokenizer_vectors.json: random texts cut into words by the pattern as written, with the
`regex` module of PyPI. Usage: make_pretokenizer_vectors.py > pretokenizer_vectors.json"""
import json
import random

import regex

PATTERN = regex.compile(
    r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+""")
# Letters, numbers, white space and others of one to four bytes.
PIECES = list("aZ sStTrRevVmMlLdD'''''    \n\t\r019.,!-_<|>") + [
    "\u00e9", "\u00df", "\u0416", "\u05d0", "\u0e01", "\u4e2d", "\u3042", "\U00010400", "\u02b0",
    "\u0661", "\u00b2", "\u2167", "\u3007", "\U0001d7d8", "\u00bd",
    "\u00a0", "\u0085", "\u1680", "\u2003", "\u2028", "\u3000", "\u202f", "\x0b", "\x0c", "\x1c",
    "\x1f", "\u200b", "\u0301", "\u20ac", "\u2014", "\U0001f600", "\u00ad", "\ufeff", "\x00",
    "'re", "'ve", "'ll", "'s", "  ", "   ", " \n", "\n\n", " '"]


def main():
    source = random.Random(1)
    texts = ["".join(source.choices(PIECES, k=source.randint(1, 14))) for _ in range(1500)]
    rows = [json.dumps([match.group() for match in PATTERN.finditer(text)]) for text in texts]
    print("[\n" + ",\n".join(rows) + "\n]")


main()

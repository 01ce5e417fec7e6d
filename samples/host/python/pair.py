#!/usr/bin/env python3
"""Two processes train one model together; they meet by cards, which they leave in a directory.

  pair CONFIG TEXT RANK DIRECTORY [--steps N]

RANK is 0 or 1. Each process drives one rank of a data-parallel pair (layout.data is set to 2) and
prints what train prints: progress to stderr, the losses to stdout, the same line in both."""
import argparse
import os
import sys
import time

import plait
from train import train

LIMIT = 30  # seconds that the other process may be late


def exchange_cards(group, rank, directory):
    """Leaves the own card under its name when it is whole, and adds the other's."""
    path = os.path.join(directory, f"card.{rank}")
    with open(path + ".part", "wb") as file:
        file.write(group.card())
    os.rename(path + ".part", path)
    group.add_card(group.card())
    other = os.path.join(directory, f"card.{1 - rank}")
    end = time.monotonic() + LIMIT
    while not os.path.exists(other):
        if time.monotonic() > end:
            raise FileNotFoundError(2, "no card", other)
        time.sleep(0.02)
    with open(other, "rb") as file:
        group.add_card(file.read())


def run(given):
    losses = []
    with plait.Context() as context, plait.Config(context) as config:
        config.load_file(given.config)
        config["layout.data"] = 2
        config["layout.tensor"] = config["layout.pipeline"] = 1
        steps = given.steps or int(config["run.steps"])
        with open(given.text, "rb") as file, plait.Tokenizer(context, "byte") as bytes_as_ids:
            text = bytes_as_ids.encode(file.read())
        with plait.Group(context, config, given.rank, 1, 2) as group:
            exchange_cards(group, given.rank, given.directory)
            group.commit(timeout=LIMIT)
            with plait.Engine(group, config) as engine:
                is_stopped = train(engine, text, steps, losses)
    print(*("%.17g" % loss for loss in losses))
    return 3 if is_stopped else 0


def main():
    parser = argparse.ArgumentParser(prog="pair")
    parser.add_argument("config", metavar="CONFIG")
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("rank", metavar="RANK", type=int, choices=(0, 1))
    parser.add_argument("directory", metavar="DIRECTORY")
    parser.add_argument("--steps", metavar="N", type=int)
    given = parser.parse_args()
    if given.steps is not None and given.steps <= 0:
        parser.error("--steps takes a number above 0")
    try:
        return run(given)
    except plait.PlaitError as error:
        print(f"pair: {error}", file=sys.stderr)
    except OSError as error:
        print(f"pair: cannot read {error.filename}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

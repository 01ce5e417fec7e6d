#!/usr/bin/env python3
"""Trains on the bytes of a file, which it holds in memory. The same program stands in every host
language under samples/host, and all of them print the same line.

  train CONFIG TEXT [--steps N] [--checkpoint ROOT] [--resume]

Progress goes to stderr; the losses go to stdout, in one line. SIGINT and SIGTERM end the run after the
step in progress; with --checkpoint the state is saved then, as it is at the end. Exit codes: 0 done,
1 an error, 2 usage, 3 stopped."""
import argparse
import sys

import plait


def arguments():
    parser = argparse.ArgumentParser(prog="train")
    parser.add_argument("config", metavar="CONFIG")
    parser.add_argument("text", metavar="TEXT")
    parser.add_argument("--steps", metavar="N", type=int)
    parser.add_argument("--checkpoint", metavar="ROOT")
    parser.add_argument("--resume", action="store_true")
    given = parser.parse_args()
    if given.steps is not None and given.steps <= 0:
        parser.error("--steps takes a number above 0")
    if given.resume and given.checkpoint is None:
        parser.error("--resume needs --checkpoint")
    return given


def fill(batch, spec, text):
    """Fills the batch's own memory: sequence j of the run begins at byte j * s, round and round."""
    length = spec.sequence_length
    memory = batch.map("tokens", spec.global_rows, length + 1).cast("B").cast("i")
    for row in range(spec.global_rows):
        first = (spec.first_sample + row) * length % (len(text) - length)
        begin = row * (length + 1)
        memory[begin:begin + length + 1] = text[first:first + length + 1]


def train(engine, text, steps, losses):
    """Trains up to the last step; true where a signal ended the run before."""
    batch = engine.batch()
    with engine.stop_on_signals():
        while True:
            spec = engine.batch_spec()
            if spec.first_sample // spec.global_rows >= steps:
                return False
            fill(batch, spec, text)
            result = engine.step(batch)
            is_stopped = isinstance(result, plait.Stopped)
            metrics = result.metrics if is_stopped else result
            losses.append(metrics.loss)
            print(f"step {metrics.step}/{steps} loss {metrics.loss:.4f} | "
                  f"{metrics.tokens_per_second:.0f} tokens/s", file=sys.stderr)
            if is_stopped:
                return True


def run(given):
    losses = []
    with plait.Context() as context, plait.Config(context) as config:
        config.load_file(given.config)
        steps = given.steps or int(config["run.steps"])
        world = (int(config["layout.tensor"]) * int(config["layout.pipeline"])
                 * int(config["layout.data"]))
        with open(given.text, "rb") as file, plait.Tokenizer(context, "byte") as bytes_as_ids:
            text = bytes_as_ids.encode(file.read())
        with plait.Group(context, config, world=world) as group, \
                plait.Engine(group, config) as engine:
            length = engine.batch_spec().sequence_length
            if len(text) < length + 1:
                sys.exit(f"train: {given.text} holds fewer than {length + 1} bytes")
            if given.resume:
                engine.load(given.checkpoint)
            is_stopped = train(engine, text, steps, losses)
            if given.checkpoint is not None:
                engine.save(given.checkpoint).wait()
    print(*("%.17g" % loss for loss in losses))
    return 3 if is_stopped else 0


def main():
    given = arguments()
    try:
        return run(given)
    except plait.PlaitError as error:
        print(f"train: {error}", file=sys.stderr)
    except OSError as error:
        print(f"train: cannot read {error.filename}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())

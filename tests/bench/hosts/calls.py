#!/usr/bin/env python3
"""What a call costs in Python, and where a batch is filled; see calls.c.

  calls CONFIG time CALLS TURNS
  calls CONFIG feed STEPS"""
import ctypes
import json
import sys
import time

import plait


def state_ns(engine, calls):
    right, ready = 0, plait.EngineState.READY
    begin = time.perf_counter_ns()
    for _ in range(calls):
        if engine.state is ready:
            right += 1
    took = time.perf_counter_ns() - begin
    if right != calls:
        sys.exit("calls: the engine is not ready")
    return took / calls


def version_ns(calls):
    right, wanted, version = 0, plait.version(), plait.version
    begin = time.perf_counter_ns()
    for _ in range(calls):
        if version() == wanted:
            right += 1
    took = time.perf_counter_ns() - begin
    if right != calls:
        sys.exit("calls: the version changes")
    return took / calls


def tokens_of(step, count):
    return [(step + i) % 256 for i in range(count)]


def feed(engine, steps):
    spec = engine.batch_spec()
    rows, columns = spec.global_rows, spec.sequence_length + 1
    batch, addresses = engine.batch(), []
    for step in range(steps):
        memory = batch.map("tokens", rows, columns).cast("B").cast("i")
        for i, token in enumerate(tokens_of(step, rows * columns)):
            memory[i] = token
        engine.step(batch)
        addresses.append(ctypes.addressof(ctypes.c_int.from_buffer(memory)))
    own = tokens_of(steps, rows * columns)
    batch.set("tokens", [own[row * columns:(row + 1) * columns] for row in range(rows)])
    engine.step(batch)
    return {"bytes": 4 * rows * columns, "addresses": addresses}


def main():
    is_time = len(sys.argv) == 5 and sys.argv[2] == "time"
    if not is_time and not (len(sys.argv) == 4 and sys.argv[2] == "feed"):
        print("usage: calls CONFIG time CALLS TURNS | calls CONFIG feed STEPS", file=sys.stderr)
        return 2
    with plait.Context() as context, plait.Config(context) as config:
        config.load_file(sys.argv[1])
        with plait.Group(context, config) as group, plait.Engine(group, config) as engine:
            number = int(sys.argv[3])
            if is_time:
                turns = int(sys.argv[4])
                print(json.dumps({"state": [state_ns(engine, number) for _ in range(turns)],
                                  "version": [version_ns(number) for _ in range(turns)]}))
            else:
                print(json.dumps(feed(engine, number)))
    return 0


if __name__ == "__main__":
    sys.exit(main())

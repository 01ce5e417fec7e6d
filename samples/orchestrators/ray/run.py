#!/usr/bin/env python3
"""Trains on a Ray cluster, one rank a process, and starts again when a process or a machine is lost.

usage: run.py PROCESSES CONFIG ROOT [OPTION …]      options of `plait train`

`plait` is on the path of every machine; CONFIG, data and ROOT are on a file system that all share. Ray places
the processes (PLAIT_CPUS each, 1 where it is not set) and sets nothing else: ranks and the address of rank 0
are given as options.

SIGTERM or SIGINT to this program stop the run: the processes finish the step, save and end with code 3, which
is then the code of this program. Start it again to go on. `ray job stop` sends SIGTERM, too; it waits for as
many seconds as RAY_JOB_STOP_WAIT_TIME_S on the head node says, 3 by default: more is needed.
"""
import ctypes
import glob
import os
import signal
import socket
import subprocess
import sys

import ray
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

TRIES = 20
STOPPED, LOST = 3, 4
PR_SET_PDEATHSIG = 1


def die_with_parent():
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


@ray.remote(max_concurrency=2)
class Process:
    """One process of the run, on the machine where Ray put it."""

    def __init__(self):
        self.child = None
        self.is_stopped = False

    def survey(self, root):
        """An address for rank 0, and whether there is a step to go on from."""
        with socket.socket() as one:
            one.bind(("", 0))
            port = one.getsockname()[1]
        return f"{ray.util.get_node_ip_address()}:{port}", bool(glob.glob(os.path.join(root, "step-*")))

    def run(self, command):
        self.child = subprocess.Popen(command, preexec_fn=die_with_parent)
        if self.is_stopped:
            self.child.send_signal(signal.SIGTERM)
        return self.child.wait()

    def stop(self):
        self.is_stopped = True
        if self.child is not None:
            self.child.send_signal(signal.SIGTERM)


class Run:
    def __init__(self, processes, config, root, options):
        self.processes, self.root = processes, root
        self.command = ["plait", "train", config, "--set", f"run.checkpoint={root}", *options]
        self.cpus = float(os.environ.get("PLAIT_CPUS", "1"))
        self.is_stopped = False
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self.on_signal)

    def on_signal(self, number, frame):
        self.is_stopped = True

    def try_once(self):
        """The exit codes of the processes; LOST for one whose machine is gone."""
        group = placement_group([{"CPU": self.cpus}] * self.processes, strategy="PACK")
        try:
            ray.get(group.ready())
            workers = [Process.options(num_cpus=self.cpus, scheduling_strategy=PlacementGroupSchedulingStrategy(
                placement_group=group, placement_group_bundle_index=i)).remote() for i in range(self.processes)]
            address, has_step = ray.get(workers[0].survey.remote(self.root))
            command = self.command + ["--resume"] * has_step + ["--world", str(self.processes), "--join", address]
            running = [workers[i].run.remote(command + ["--rank", str(i), "--local-ranks", "1"])
                       for i in range(self.processes)]
            return self.wait(workers, running)
        finally:
            remove_placement_group(group)

    def wait(self, workers, running):
        codes, is_told = [], False
        while running:
            if self.is_stopped and not is_told:
                workers[0].stop.remote()  # one that is told is enough
                is_told = True
            ended, running = ray.wait(running, num_returns=1, timeout=0.5)
            for one in ended:
                try:
                    codes.append(ray.get(one))
                except ray.exceptions.RayError as error:
                    print(f"run.py: {error}", file=sys.stderr)
                    codes.append(LOST)
        return codes

    def live(self):
        for _ in range(TRIES):
            codes = self.try_once()
            failed = [code for code in codes if code not in (0, STOPPED)]
            if not failed:
                return max(codes)
            real = [code for code in failed if 0 < code < 128 and code != LOST]
            if real or self.is_stopped:
                return real[0] if real else LOST
            print(f"run.py: lost a process (codes {codes}), starting again", file=sys.stderr)
        return LOST


def main():
    if len(sys.argv) < 4 or not sys.argv[1].isdigit():
        print(__doc__.split("\n")[2], file=sys.stderr)
        return 2
    ray.init()
    return Run(int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4:]).live()


if __name__ == "__main__":
    sys.exit(main())

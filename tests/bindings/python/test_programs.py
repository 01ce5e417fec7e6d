"""The samples of samples/host, as programs."""
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import unittest

from support import TINY

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(
    os.path.abspath(__file__)))))
SAMPLES = os.path.join(ROOT, "samples", "host", "python")
TEXT = os.path.join(ROOT, "README.md")


class Programs(unittest.TestCase):
    def setUp(self):
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = directory.name
        self.config = self.write_config()

    def write_config(self, name="config.json", **keys):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            json.dump({**TINY, "run.steps": 30, **keys}, file)
        return path

    def start(self, program, *arguments):
        return subprocess.Popen([sys.executable, os.path.join(SAMPLES, program), *arguments],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def finish(self, process, code=0):
        out, err = process.communicate(timeout=100)
        self.assertEqual(process.returncode, code, err)
        return out, err

    def test_same_losses(self):
        """30 losses are those of the C program, to the last bit"""
        out, err = self.finish(self.start("train.py", self.config, TEXT))
        other = subprocess.run([os.environ["C_TRAIN"], self.config, TEXT], stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL, text=True, check=True)
        self.assertEqual(out, other.stdout)
        self.assertEqual(len(out.split()), 30)
        self.assertRegex(err, r"\Astep 1/30 loss \d\.\d{4} \| \d+ tokens/s\n")

    def test_resume(self):
        """a stopped run is saved, and goes on to the same losses"""
        whole, _ = self.finish(self.start("train.py", self.config, TEXT, "--steps", "1000"))
        save = "--steps", "1000", "--checkpoint", os.path.join(self.directory, "steps")
        first = self.start("train.py", self.config, TEXT, *save)
        first.stderr.readline()
        first.send_signal(signal.SIGTERM)
        begin, _ = self.finish(first, code=3)
        rest, _ = self.finish(self.start("train.py", self.config, TEXT, *save, "--resume"))
        self.assertGreater(len(rest.split()), 0)
        self.assertEqual(begin.split() + rest.split(), whole.split())

    def test_errors(self):
        """errors are one line and exit code 1, wrong usage is 2"""
        bad = self.write_config("bad.json", **{"model.laers": 2})
        _, err = self.finish(self.start("train.py", bad, TEXT), code=1)
        self.assertRegex(err, r"\Atrain: INVALID_ARGUMENT: argument: .*nearest=model.layers\n\Z")
        _, err = self.finish(self.start("train.py", self.config, "/nowhere"), code=1)
        self.assertEqual(err, "train: cannot read /nowhere\n")
        self.finish(self.start("train.py", self.config, TEXT, "--resume"), code=2)

    def test_readme(self):
        """the loop of the README runs"""
        with open(os.path.join(ROOT, "bindings", "python", "README.md")) as file:
            lines = file.read().split("## The smallest training loop")[1].split("\n\n")[1:]
        code = "\n\n".join(itertools.takewhile(lambda part: part.startswith("    "), lines))
        done = subprocess.run([sys.executable, "-W", "error", "-"], input=textwrap.dedent(code),
                              stdout=subprocess.PIPE, text=True, check=True)
        losses = [float(line.split()[-1]) for line in done.stdout.splitlines()]
        self.assertEqual(len(losses), 5)
        self.assertLess(losses[-1], losses[0])

    def test_pair(self):
        """two processes that exchange cards train as one process does"""
        pair = [self.start("pair.py", self.config, TEXT, rank, self.directory)
                for rank in ("0", "1")]
        lines = [self.finish(process)[0] for process in pair]
        alone = self.write_config("alone.json", **{"layout.data": 2})
        out, _ = self.finish(self.start("train.py", alone, TEXT))
        self.assertEqual(lines, [out, out])

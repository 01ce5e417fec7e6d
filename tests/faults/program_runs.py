"""Runs of `plait train` for the fault loops: a small model on this repository's own text, and what its
metrics and checkpoints say."""
import json
import os
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLAIT = os.environ.get("PLAIT", os.path.join(ROOT, "build/release/bin/plait"))
CONFIG = {
    "model": {"family": "gpt2", "layers": 4, "hidden": 32, "heads": 4, "vocab_size": 256, "sequence_length": 32},
    "precision": {"compute": "fp32"},
    "train": {"global_batch": 8},
    "layout": {"micro_batch": 2},
    "optimizer": {"lr": 3e-3},
    "run": {"steps": 60, "save_every": 2, "log_every": 1000000},
    "threads": 1,
}


class Runs:
    """A folder of its own below build/, emptied, with tokens and a configuration."""

    def __init__(self, name, plait=PLAIT, changes=None):
        self.plait = plait
        self.work = os.path.join(ROOT, "build", name)
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        with open(self.path("text"), "wb") as out:
            for part in ("README.md", "ARCHITECTURE.md"):
                with open(os.path.join(ROOT, part), "rb") as text:
                    out.write(text.read())
        self.call("tokenize", self.path("text"), self.path("tokens.bin"), "--quiet")
        config = {**CONFIG, **(changes or {}), "data": {"train": self.path("tokens.bin"), "token_type": "uint16"}}
        with open(self.path("config.json"), "w") as out:
            json.dump(config, out)

    def path(self, *parts):
        return os.path.join(self.work, *parts)

    def command(self, root, metrics, settings=(), resume=False):
        """Of a training run that saves under `root`."""
        line = [self.plait, "train", self.path("config.json"), "--metrics", metrics, "--set", f"run.checkpoint={root}"]
        for key, value in dict(settings).items():
            line += ["--set", f"{key}={value}"]
        return line + (["--resume"] if resume else [])

    def run(self, *arguments):
        """Exit code and both outputs of the program."""
        done = subprocess.run([self.plait, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace")
        return done.returncode, done.stdout, done.stderr

    def call(self, *arguments):
        code, out, err = self.run(*arguments)
        if code != 0:
            raise SystemExit(f"plait {' '.join(arguments)} ended with {code}: {err}")
        return out

    def train(self, root, metrics, settings=(), resume=False):
        return self.run(*self.command(root, metrics, settings, resume)[1:])


def step_lines(path):
    """[step, (loss, grad_norm, lr)] in the order of the file; a last line that is cut is left out."""
    lines = []
    if not os.path.exists(path):
        return lines
    with open(path) as file:
        for line in file:
            try:
                values = json.loads(line)
            except ValueError:
                continue
            if "loss" in values:
                lines.append((values["step"], tuple(values[key] for key in ("loss", "grad_norm", "lr"))))
    return lines


def saved_steps(root):
    if not os.path.isdir(root):
        return []
    return sorted(int(name[5:]) for name in os.listdir(root) if re.fullmatch(r"step-\d{12}", name))


def step_path(root, step):
    return os.path.join(root, f"step-{step:012d}")

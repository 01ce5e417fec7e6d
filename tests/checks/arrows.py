#!/usr/bin/env python3
"""The structure of the sources against ARCHITECTURE.md: allowed includes, existing paths, third-party
headers in their rooms, lengths of files and functions, no two-way includes between folders. Prints TAP."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
TEXT = open("ARCHITECTURE.md").read()
SOURCES = [f for f in subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], text=True).split("\n")
           if re.search(r"\.(h|cc|c|inc)$", f) and os.path.isfile(f)]
THIRD_PARTY = {
    "oneapi/dnnl": ("kernels/cpu/",), "hwy/": ("kernels/cpu/",), "CLI/": ("bindings/cli/",),
    "nlohmann/": ("engine/config/", "engine/data/", "checkpoint/", "bindings/cli/"),
    "flatbuffers/": ("checkpoint/",), "nccl": ("kernels/cuda/",), "mpi.h": ("engine/comm/",), "cuda": ("kernels/cuda/",),
    "cudnn": ("kernels/cuda/",), "cublas": ("kernels/cuda/",),
}
failures = {}


def fail(check, text):
    failures.setdefault(check, []).append(text)


def arrow_table():
    table = {}
    section = TEXT.split("## Arrows")[1].split("##")[0]
    for line in section.split("\n"):
        cells = [c.strip() for c in line.strip("|").split("|")]
        if not line.startswith("| `"):
            continue
        for room in re.findall(r"`([^`]+)`", cells[0]):
            table[room] = set(re.findall(r"`([^`]+)`", cells[1] if len(cells) > 1 else ""))
    return table


def room_of(path, table):
    best = ""
    for room in list(table) + ["capi/include"]:
        if path.startswith(room + "/") and len(room) > len(best):
            best = room
    return best


def check_includes(table):
    pairs = set()
    for path in SOURCES:
        if path.startswith("tests/"):
            continue
        room = room_of(path, table)
        if not room:
            fail("rooms", f"{path} stands in no room of the arrow table")
            continue
        for number, line in enumerate(open(path, errors="replace"), 1):
            match = re.match(r'\s*#\s*include\s+([<"])([^>"]+)[>"]', line)
            if not match:
                continue
            target = match.group(2)
            for prefix, owners in THIRD_PARTY.items():
                if match.group(1) == "<" and target.startswith(prefix) and not path.startswith(owners):
                    fail("third party", f"{path}:{number} includes {target}")
            if match.group(1) == "<" and not target.startswith("plait/"):
                continue
            full = "capi/include/" + target if target.startswith("plait/") else target
            if not os.path.exists(full):
                continue
            other = room_of(full, table)
            if other in ("", room) or (room == "capi/include"):
                continue
            if other not in table.get(room, set()):
                fail("arrows", f"{path}:{number} includes {target}, which {room} may not")
            pairs.add((room, other))
    for a, b in sorted(pairs):
        if (b, a) in pairs and a < b:
            fail("two-way", f"{a} and {b} include each other")


def check_paths():
    for path in re.findall(r"`([a-z_]+(?:/[a-z_.0-9]+)+)`", TEXT):
        if path.startswith(("oneapi/",)):
            continue
        if not os.path.exists(path) and path not in ("engine/tensor_parallel", "engine/comm", "engine/planner"):
            fail("paths", f"ARCHITECTURE.md names {path}, which does not exist")


def ratchet(name):
    return int(re.search(r"\| lines of a " + name + r" \| (\d+) \|", TEXT).group(1))


def check_lengths():
    longest_file, longest_function = ratchet("file"), ratchet("function")
    for path in SOURCES:
        if path.startswith("tests/") or path.endswith(".inc") or path == "capi/include/plait/plait.h":
            continue
        lines = open(path, errors="replace").read().split("\n")
        if len(lines) > longest_file:
            fail("file length", f"{path} has {len(lines)} lines, more than {longest_file}")
        start = None
        for number, line in enumerate(lines, 1):
            if re.match(r"[A-Za-z].*\)\s*(const|noexcept|override)*\s*\{$", line) or (
                    start is None and re.match(r"\s{2,}[^ ].*\)\s*(const|noexcept|override)*\s*(:.*)?\{$", line) and
                    number > 1 and lines[number - 2].startswith(tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"))):
                start = number
            if line == "}" and start is not None:
                if number - start > longest_function:
                    fail("function length", f"{path}:{start} has {number - start} lines, more than {longest_function}")
                start = None


def check_headers_guarded():
    for path in SOURCES:
        if path.endswith("-inl.h") or path.startswith(("capi/include", "tests/")):
            continue
        if path.endswith(".h") and "#pragma once" not in open(path).read():
            fail("guards", f"{path} has no #pragma once")


def check_marks():
    for path in SOURCES:
        if path == "tests/checks/arrows.py":
            continue
        for number, line in enumerate(open(path, errors="replace"), 1):
            if re.search(r"\b(TODO|FIXME|XXX)\b", line):
                fail("marks", f"{path}:{number} {line.strip()}")


def main():
    table = arrow_table()
    check_includes(table)
    check_paths()
    check_lengths()
    check_headers_guarded()
    check_marks()
    checks = ["rooms", "arrows", "two-way", "third party", "paths", "file length", "function length", "guards", "marks"]
    for number, check in enumerate(checks, 1):
        print(f"{'not ok' if check in failures else 'ok'} {number} - {check}")
        for text in failures.get(check, []):
            print("# " + text)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

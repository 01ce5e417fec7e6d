#!/usr/bin/env python3
"""Calls that the library must not make: it is a guest in somebody's process. Prints TAP.

The library neither ends the process nor prints, touches the environment, signals or the locale, forks,
or waits without a limit; system headers for files, clocks and sockets stand in kernels/base and
kernels/device alone."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
os.chdir(ROOT)
SOURCES = [f for f in subprocess.check_output(["git", "ls-files", "-co", "--exclude-standard"], text=True).split("\n")
           if re.match(r"(capi|engine|kernels|checkpoint)/.*\.(h|cc|inc)$", f) and os.path.isfile(f)]
BANS = [
    ("ends no process", r"(?<![\w.>:])(?<!void )(std::)?(abort|exit|_exit|quick_exit|terminate|raise|kill)\s*\("),
    ("prints nothing", r"\b(printf|puts|putchar|perror|std::cout|std::cerr|stdout|stderr|std::clog)\b"),
    ("reads and sets no environment variable", r"\b(getenv|secure_getenv|setenv|putenv|unsetenv)\s*\("),
    ("installs no signal handler", r"\b(sigaction|std::signal|signal)\s*\("),
    ("forks nothing", r"\b(fork|vfork|system|popen|execv\w*|posix_spawn\w*)\s*\("),
    ("leaves directory and locale alone", r"\b(chdir|setlocale|std::locale::global)\s*\("),
    ("waits with a limit", r"(\.|->)wait\s*\(\s*(lock|guard|\))|pthread_cond_wait|sem_wait\s*\(|\.get\(\)\s*;\s*//\s*future|sigwait\s*\("),
    ("asserts nothing at run time", r"(?<![\w_])assert\s*\("),
]
SYSTEM = r'#\s*include\s*<(unistd\.h|fcntl\.h|sys/\w+\.h|time\.h|dirent\.h|netdb\.h|poll\.h|fstream|iostream|filesystem)>'
SYSTEM_ROOMS = ("kernels/base/", "kernels/device/")
# Where the guard looks for a forked child and a thread blocks its signals.
SYSTEM_ALLOWED = {"capi/src/thread.cc", "capi/src/guard.cc", "capi/src/handle.cc"}

# A CPU stream of oneDNN has nothing to wait for: its primitives return when they are done.
EXCEPTIONS = {("kernels/cpu/linear_onednn.cc", "stream.wait();")}


def code_lines(path):
    inside = False
    for number, line in enumerate(open(path, errors="replace"), 1):
        text = line
        if inside:
            if "*/" not in text:
                continue
            text, inside = text.split("*/", 1)[1], False
        text = re.sub(r'"(\\.|[^"\\])*"', '""', text)
        text = re.sub(r"//.*", "", re.sub(r"/\*.*?\*/", "", text))
        if "/*" in text:
            text, inside = text.split("/*", 1)[0], True
        yield number, text


def main():
    found = {name: [] for name, _ in BANS}
    found["system headers stay below"] = []
    for path in SOURCES:
        for number, text in code_lines(path):
            for name, pattern in BANS:
                if (path, text.strip()) in EXCEPTIONS:
                    continue
                if re.search(pattern, text):
                    found[name].append(f"{path}:{number} {text.strip()}")
            if re.search(SYSTEM, text) and not path.startswith(SYSTEM_ROOMS) and path not in SYSTEM_ALLOWED:
                found["system headers stay below"].append(f"{path}:{number} {text.strip()}")
    for name, hits in found.items():
        print(f"{'not ok' if hits else 'ok'} - the library {name}" if name[0] != "s" else
              f"{'not ok' if hits else 'ok'} - {name}")
        for hit in hits:
            print("# " + hit)
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())

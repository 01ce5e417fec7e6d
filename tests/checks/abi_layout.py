#!/usr/bin/env python3
"""Size and every offset of every public struct, and the value of every constant, as compilers see them in
plait.h, against tests/goldens/layout.txt: part 3 of the ABI gate. Prints TAP.

    abi_layout.py            checks
    abi_layout.py --write    writes the golden anew from what gcc says, then checks
"""
import os
import subprocess
import sys
import tempfile

import abi_header

GOLDEN = "tests/goldens/layout.txt"
COMPILERS = ("gcc -std=c99 -xc", "g++ -std=c++98 -xc++", "clang -std=c17 -xc")


def program(header):
    """C that prints a line for each size, offset and constant."""
    lines = ["#include <plait/plait.h>", "#include <stddef.h>", "#include <stdio.h>", "int main(void) {"]
    for struct, fields in header.structs.items():
        lines.append(f'  printf("{struct} %d\\n", (int)sizeof({struct}));')
        lines += [f'  printf("{struct}.{name} %d\\n", (int)offsetof({struct}, {name}));' for _, name in fields]
    lines += [f'  printf("{name} %d\\n", {name});' for name in header.constants]
    return "\n".join(lines + ["  return 0;", "}", ""])


def layout(compiler, source, folder):
    include = os.path.join(abi_header.ROOT, "capi/include")
    binary = os.path.join(folder, "layout")
    done = subprocess.run([*compiler.split(), "-I" + include, "-o", binary, "-"], input=source, text=True,
                          stderr=subprocess.PIPE)
    if done.returncode != 0:
        return done.stderr
    return subprocess.check_output([binary], text=True)


def differences(got, golden):
    got, golden = dict.fromkeys(got.splitlines()), dict.fromkeys(golden.splitlines())
    values = {line.split(" ")[0]: line.partition(" ")[2] for line in got}
    for line in golden:
        name, _, value = line.partition(" ")
        if line not in got:
            yield f"{name} was {value}, " + (f"is {values[name]}" if name in values else "is gone")
    for line in got:
        if line.split(" ")[0] not in {known.split(" ")[0] for known in golden}:
            yield f"new: {line}"
    if set(got) == set(golden) and list(got) != list(golden):
        yield "the order is another"


def main():
    header = abi_header.Header(os.path.join(abi_header.ROOT, "capi/include/plait"))
    source, failed = program(header), 0
    with tempfile.TemporaryDirectory() as folder:
        if "--write" in sys.argv:
            with open(os.path.join(abi_header.ROOT, GOLDEN), "w", encoding="utf-8") as file:
                file.write(layout(COMPILERS[0], source, folder))
        golden = abi_header.read(GOLDEN)
        for number, compiler in enumerate(COMPILERS, 1):
            got = layout(compiler, source, folder)
            failed += got != golden
            print(f"{'ok' if got == golden else 'not ok'} {number} - sizes, offsets and constants are those of {GOLDEN}: "
                  f"{compiler.rpartition(' ')[0]}")
            if got != golden:
                for line in differences(got, golden):
                    print("# " + line)
                print("# refresh, if that is meant: tests/checks/abi_layout.py --write")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())

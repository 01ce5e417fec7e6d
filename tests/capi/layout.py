#!/usr/bin/env python3
"""Writes a C++ source that prints size and offsets of every public struct and every constant.

usage: layout.py plait.h OUT.cc
"""
import re
import sys

header = re.sub(r"/\*.*?\*/", "", open(sys.argv[1], encoding="utf-8").read(), flags=re.S)
lines = ['#include "tests/capi/layout.h"', "", "#include <plait/plait.h>", "",
         "#include <cstddef>", "", "std::string host::layout_text() {", "  std::string text;",
         "  const auto line = [&](const char* name, long long value) {",
         '    text += std::string(name) + " " + std::to_string(value) + "\\n";', "  };"]
structs = re.findall(r"typedef struct (\w+) \{(.*?)\} \1;", header, flags=re.S)
assert len(structs) == 11, [name for name, _ in structs]
for name, body in structs:
    lines.append(f'  line("{name}", sizeof({name}));')
    for declaration in body.split(";"):
        declaration = declaration.strip()
        if not declaration:
            continue
        callback = re.search(r"\(PLAIT_CALL\s*\*\s*(\w+)\)", declaration)
        fields = [callback.group(1)] if callback else [
            re.sub(r"[*\s]", "", part.split()[-1]) for part in declaration.split(",")]
        for field in fields:
            lines.append(f'  line("{name}.{field}", offsetof({name}, {field}));')
for body in re.findall(r"enum\s*\{(.*?)\}", header, flags=re.S):
    for constant in re.findall(r"(PLAIT_\w+)\s*=", body):
        lines.append(f'  line("{constant}", {constant});')
lines += ["  return text;", "}", ""]
open(sys.argv[2], "w", encoding="utf-8").write("\n".join(lines))

#!/usr/bin/env python3
"""Writes calls of every function of the public headers with each parameter in turn made wrong.

usage: abuse.py FOLDER OUT.cc

A handle is null, freed, of another kind, misaligned; an output null or misaligned; text null or
invalid UTF-8; a number 0, -1, and the smallest and largest of its type; the struct_size of a struct
none that any version has. Every call must return; a wrong handle must be
INVALID_ARGUMENT/bad_handle, and whatever fails must say why. A free leaves alone what is wrong.
"""
import re
import sys

HANDLES = ("context config plan group engine batch dataset tokenizer checkpoint op reply bytes "
           "error").split()
# Values under which a call gets as far as the parameter in question.
TEXTS = {"key": "seed", "value": "1", "role": "train", "name": "tokens", "what": "links",
         "kind": "byte", "address": "host:1", "directory": "/nonexistent", "path": "/nonexistent",
         "root": "/nonexistent/root", "input": "/nonexistent", "output": "/nonexistent", "text": "t"}
NUMBERS = {"api_version": "PLAIT_API_VERSION", "level": "3", "world": "1", "local_ranks": "1",
           "rank": "0", "index": "0", "scope": "1", "timeout_ms": "1000", "type": "1",
           "is_complete": "0", "is_full": "0", "kind": "1", "dtype": "1", "max_records": "1",
           "rows": "1", "columns": "1", "count": "1", "prompt_count": "1", "max_tokens": "1",
           "first_sample": "0", "global_rows": "1", "bytes": "0", "integer": "0", "code": "0"}
PAYLOAD_LENGTHS = {"bytes", "prompt_count"}  # the library cannot know how long a buffer is
NULL_IS_LEGAL = {("plait_engine_attach_dataset", "dataset"), ("plait_engine_step", "batch"),
                 ("plait_engine_evaluate", "batch"), ("plait_checkpoint_export_hf", "options"),
                 ("plait_tokenizer_encode_file", "options")}


def functions(folder):
    text = "".join(open(f"{folder}/{name}", encoding="utf-8").read()
                   for name in ("plait.h", "plait_experimental.h"))
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    for result, name, arguments in re.findall(
            r"PLAIT_API\s+(.*?)\s*PLAIT_CALL\s+(\w+)\(([^;]*)\);", text, flags=re.S):
        parameters = []
        for part in re.sub(r"\s+", " ", arguments).split(","):
            part = part.strip()
            if part != "void":
                kind, parameter = re.match(r"(.*?)\s*(\w+)$", part).groups()
                parameters.append((kind.strip(), parameter))
        yield result.strip(), name, parameters


def handle_of(kind):
    match = re.fullmatch(r"(?:const )?plait_(\w+)\*", kind)
    return match.group(1) if match and match.group(1) in HANDLES else None


def good(function, kind, name):
    handle = handle_of(kind)
    if handle:
        return f"world.{handle}"
    if kind == "const char*":
        value = "nonsense" if (function, name) == ("plait_engine_counter", "name") else TEXTS[name]
        if name == "kind" and "tokenizer" not in function:
            value = "memory"
        return f'"{value}"'
    if kind in ("int32_t", "int64_t"):
        if function == "plait_op_wait":
            return "0"
        return NUMBERS[name]
    if kind == "double":
        return "0.5"
    if kind == "const int32_t*":
        return "world.integers"
    if kind in ("void*", "const void*"):
        return "world.memory"
    if kind == "plait_error**":
        return "&err"
    if kind.endswith("**"):
        return f"&{name}_out"
    if kind == "const plait_host*":
        return "&world.callbacks"
    if kind == "const plait_kv*":
        return "&world.kv"
    if kind in ("int64_t*", "double*"):
        return f"&{name}_out"
    return f"&{name}_out"  # sized structs


def bad(function, kind, name):
    """(label, expression, expectation): expectation is bad_handle, fails or returns."""
    handle = handle_of(kind)
    if handle:
        cast = f"static_cast<plait_{handle}*>"
        null = "returns" if (function, name) in NULL_IS_LEGAL else "bad_handle"
        yield "null", f"{cast}(nullptr)", null
        yield "freed", f"world.freed<plait_{handle}>()", "bad_handle"
        yield "other kind", f"world.other_kind<plait_{handle}>()", "bad_handle"
        yield "misaligned", f"world.misaligned<plait_{handle}>()", "bad_handle"
    elif kind == "const char*":
        null = "returns" if name in ("value", "text", "directory") else "fails"
        yield "null", "static_cast<const char*>(nullptr)", null
        yield "no UTF-8", '"\\xff\\xfe"', "returns" if name == "text" else "fails"
        yield "empty", '""', "returns"
    elif kind in ("int32_t", "int64_t"):
        top = "INT32" if kind == "int32_t" else "INT64"
        for label in ("0", "-1", f"{top}_MIN") + (() if name in PAYLOAD_LENGTHS else (f"{top}_MAX",)):
            yield label, label, "returns"
    elif kind.endswith("**") and kind != "plait_error**":
        is_bytes = kind == "plait_bytes**" or kind == "const void**"
        yield "null", f"static_cast<{kind}>(nullptr)", "returns" if is_bytes else "fails"
        yield "misaligned", f"world.odd<{kind}>()", "fails"
    elif kind == "plait_error**":
        yield "null", "static_cast<plait_error**>(nullptr)", "returns"
    elif kind.endswith("*") and kind not in ("const void*", "void*"):
        yield "null", f"static_cast<{kind}>(nullptr)", "returns"
        if kind != "const int32_t*" or "batch" not in function:
            yield "misaligned", f"world.odd<{kind}>()", "fails"
        struct = re.fullmatch(r"(?:const )?(plait_\w+)\*", kind)
        for size in ("0", "-1", "8", "41", "INT64_MAX", "INT64_MIN") if struct else ():
            yield f"struct_size {size}", f"world.sized<{struct.group(1)}>({size})", "fails"
    elif kind in ("const void*", "void*"):
        yield "null", f"static_cast<{kind}>(nullptr)", "returns"


def locals_of(parameters):
    for kind, name in parameters:
        if kind == "plait_error**":
            continue
        if kind.endswith("**"):
            yield f"[[maybe_unused]] {kind[:-1]} {name}_out = nullptr;"
        elif kind in ("int64_t*", "double*"):
            yield f"[[maybe_unused]] {kind[:-1]} {name}_out = 0;"
        elif kind.startswith("plait_") and kind.endswith("*") and not handle_of(kind):
            yield f"{kind[:-1]} {name}_out{{}}; {name}_out.struct_size = sizeof {name}_out;"


def frees(parameters):
    for kind, name in parameters:
        match = re.fullmatch(r"plait_(\w+)\*\*", kind)
        if match and match.group(1) in HANDLES and match.group(1) != "error":
            yield f"plait_{match.group(1)}_free({name}_out);"


def call(result, name, parameters, which, expression):
    arguments = ", ".join(expression if i == which else good(name, kind, parameter)
                          for i, (kind, parameter) in enumerate(parameters))
    return f"{name}({arguments})"


def main():
    out = ["// Generated from the public headers by abuse.py.", '#include "tests/capi/abuse.h"', "",
           "#include <plait/plait_experimental.h>", "", "#include <catch2/catch.hpp>", "#include <cstdint>", ""]
    count = 0
    for result, name, parameters in functions(sys.argv[1]):
        if not parameters:
            continue
        out.append(f'TEST_CASE("Abuse of {name}", "[capi][abuse]") {{')
        out.append("  abuse::World& world = abuse::World::get();")
        out.append("  (void)world;")
        for which, (kind, parameter) in enumerate(parameters):
            for label, expression, expectation in bad(name, kind, parameter):
                text = call(result, name, parameters, which, expression)
                has_code = parameters[-1][0] == "plait_error**"
                guard = "if (world.has_freed()) " if label == "freed" else ""
                out.append(f"  {guard}{{")
                out += [f"    {line}" for line in locals_of(parameters)]
                where = f'"{name}: {parameter} {label}"'
                if has_code:
                    out.append("    plait_error* err = nullptr;")
                    out.append(f"    const int32_t code = {text};")
                    is_told = "false" if kind == "plait_error**" else "true"
                    out.append(f"    abuse::judge({where}, code, err, abuse::Expect::{expectation}, "
                               f"{is_told});")
                    out.append("    plait_error_free(err);")
                else:
                    out.append(f"    INFO({where});")
                    out.append(f"    {'' if result == 'void' else '(void)'}{text};")
                    out.append("    CHECK(world.is_intact());")
                out += [f"    {line}" for line in frees(parameters)]
                out.append("  }")
                count += 1
        out.append("}\n")
    assert count > 500, count
    open(sys.argv[2], "w", encoding="utf-8").write("\n".join(out))


main()

#!/usr/bin/env python3
"""The public headers, read once for every use: parts 1 and 2 of the ABI gate, and what is emitted from them.

Every declaration must be understood, every function must carry complete and legal tags, types and names must
be those that all host languages can express, and nothing that the last release promised may get stricter.
Emitted are the version script, the list of symbols, the list for SWIG and the index of functions; all of them
are committed, and a copy that is out of date fails. Prints TAP.

    abi_header.py             checks
    abi_header.py --write     emits anew, then checks
    abi_header.py --release   prints the folder of the release that this tree must be compatible with
"""
import os
import re
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
HEADERS = ("plait.h", "plait_experimental.h")
TAGS = ("since", "threads", "collective", "owns", "lifecycle")
WORDS = {"threads": ("A", "1", "C"), "collective": ("yes", "no"), "lifecycle": ("experimental", "stable", "deprecated")}
HANDLE = r"plait_[a-z]+"
NUMBERS = ("int32_t", "int64_t", "double")
RESULTS = ("void", "int32_t", "int64_t", "const char*", "const void*")
INPUTS = NUMBERS + ("const char*", "const void*", "const int32_t*")
OUTPUTS = ("int64_t*", "double*", "void*", "const void**", "int32_t**")
FIELDS = ("int64_t", "double", "const char*")


class Function:
    def __init__(self, header, line, section, comment, result, name, parameters):
        self.header, self.line, self.section, self.result, self.name = header, line, section, result, name
        self.parameters = parameters  # [(type, name)]
        text, at, tail = comment.partition("@")
        self.text = text.strip()
        found = re.findall(r"@(\w+)\s+(\S+)", at + tail)
        self.tag_names = [key for key, _ in found]
        self.tag_rest = re.sub(r"@(\w+)\s+(\S+)", "", at + tail).strip()
        self.tags = dict(found)

    def is_fallible(self):
        return bool(self.parameters) and self.parameters[-1][0] == "plait_error**"

    def is_experimental(self):
        return self.name.startswith("plait_x_")

    def owned(self):
        return [name for kind, name in self.parameters if re.fullmatch(HANDLE + r"\*\*", kind) and name != "err"]


class Header:
    """Functions, structs, handles and constants of the headers in `folder`; `problems` is what was not understood."""

    def __init__(self, folder):
        self.functions, self.structs, self.constants, self.handles, self.problems = [], {}, {}, [], []
        for name in HEADERS:
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                self.read(name, file.read())
        number = dict(re.findall(r"#define PLAIT_VERSION_(MAJOR|MINOR|PATCH) (\d+)", self.text_of_versions))
        self.version = (int(number["MAJOR"]), int(number["MINOR"]))

    def read(self, header, text):
        if header == "plait.h":
            self.text_of_versions = text
        section, comment = "Experimental" if header != "plait.h" else "", ""
        token = re.compile(
            r"(?P<space>\s+)|/\*(?P<comment>.*?)\*/|(?P<directive>#(?:\\\n|[^\n])*)|(?P<open>extern \"C\" \{)|(?P<close>\})|"
            r"(?P<function>\w[^;{}]*\bplait_\w+\([^;{}]*\)\s*;)|typedef struct (?P<handle>\w+) (?P=handle);|"
            r"typedef struct (?P<struct>\w+) \{(?P<fields>.*?)\} (?P=struct);|enum \{(?P<constants>.*?)\};|(?P<other>[^;\n]*[;\n]?)",
            re.S)
        at = 0
        while at < len(text):
            match = token.match(text, at)
            line = text.count("\n", 0, at) + 1
            at = match.end()
            if match["comment"] is not None:
                comment = tidy(match["comment"])
                if re.fullmatch(r"---- .* ----", comment):
                    section, comment = comment[5:-5].split(":")[0], ""
            elif match["function"]:
                self.add_function(header, line, section, comment, match["function"])
            elif match["handle"]:
                self.handles.append(match["handle"])
            elif match["struct"]:
                self.structs[match["struct"]] = self.fields(header, line, match["struct"], match["fields"])
            elif match["constants"]:
                self.add_constants(header, line, match["constants"])
            elif match["other"]:
                self.problems.append(f"{header}:{line} {match['other'].strip()}")
            if match["space"] is None and match["comment"] is None:
                comment = ""

    def add_function(self, header, line, section, comment, text):
        text = re.sub(r"\s+", " ", text)
        match = re.fullmatch(r"PLAIT_API (.+?) ?PLAIT_CALL (\w+)\((.*)\) ?;", text)
        if not match:
            self.problems.append(f"{header}:{line} neither PLAIT_API … PLAIT_CALL nor anything else: {text}")
            return
        parameters = []
        for part in match[3].split(",") if match[3] != "void" else []:
            parameter = re.fullmatch(r" ?(.*?) ?(\w+)", part)
            if not parameter or not parameter[1]:
                self.problems.append(f"{header}:{line} {match[2]}: parameter without a name or type: {part}")
                return
            parameters.append((parameter[1], parameter[2]))
        self.functions.append(Function(header, line, section, comment, match[1], match[2], parameters))

    def fields(self, header, line, struct, text):
        fields = []
        for declaration in re.sub(r"/\*.*?\*/", "", text, flags=re.S).split(";"):
            declaration = re.sub(r"\s+", " ", declaration).strip()
            callback = re.fullmatch(r"(\w+) ?\(PLAIT_CALL ?\* ?(\w+)\)\((.*)\)", declaration)
            plain = re.fullmatch(r"((?:const )?\w+) ?(\*?[\w ,*]*)", declaration)
            if callback:
                fields.append((f"{callback[1]}({callback[3]})", callback[2]))
            elif plain:
                for part in plain[2].split(","):
                    fields.append((plain[1] + "*" * part.count("*"), part.strip(" *")))
            elif declaration:
                self.problems.append(f"{header}:{line} {struct}: {declaration}")
        return fields

    def add_constants(self, header, line, text):
        for part in re.sub(r"/\*.*?\*/", "", text, flags=re.S).split(","):
            match = re.fullmatch(r"\s*(PLAIT_[A-Z0-9_]+) = (-?\d+)\s*", part)
            if match:
                self.constants[match[1]] = int(match[2])
            elif part.strip():
                self.problems.append(f"{header}:{line} a constant without a value of its own: {part.strip()}")

    def node(self, function):
        """Before 1.0 each minor version is an ABI of its own; later a symbol keeps the node that it came with."""
        major, minor = max(version(function.tags.get("since", "0.0")), (self.version[0], 0))
        return f"PLAIT_{major}.{minor}" if self.version[0] else f"PLAIT_0.{self.version[1]}"


def tidy(comment):
    lines = (re.sub(r"^\s*\*? ?", "", line) for line in comment.lstrip("*<").split("\n"))
    return re.sub(r"\s+", " ", " ".join(lines)).strip()


def version(text):
    match = re.fullmatch(r"(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2])) if match else (1 << 30, 0)


def release_folder(header, root=ROOT):
    """The newest release of the same ABI: before 1.0 of the same minor version, later of the same major one."""
    goldens = os.path.join(root, "tests/goldens/abi")
    same = [v for v in map(version, os.listdir(goldens))
            if v == header.version or (v[0] == header.version[0] > 0 and v < header.version)]
    return os.path.join(goldens, "%d.%d" % max(same)) if same else ""


def tag_problems(header):
    for function in header.functions:
        def told(text):
            return f"{function.header}:{function.line} {function.name}: {text}"
        if not function.text:
            yield told("no comment says what it does")
        if function.tag_names != list(TAGS) or function.tag_rest:
            yield told(f"tags are {' '.join('@' + t for t in function.tag_names) or 'missing'} {function.tag_rest}".rstrip() +
                       f", not {' '.join('@' + t for t in TAGS)}")
            continue
        for tag, words in WORDS.items():
            if function.tags[tag] not in words:
                yield told(f"@{tag} {function.tags[tag]} is none of {', '.join(words)}")
        if version(function.tags["since"]) > header.version:
            yield told(f"@since {function.tags['since']} is no version up to {header.version[0]}.{header.version[1]}")
        if (function.tags["threads"] == "C") != (function.tags["collective"] == "yes"):
            yield told("@threads C and @collective yes come together")
        owned = ",".join(function.owned()) or "none"
        if function.tags["owns"] != owned:
            yield told(f"@owns {function.tags['owns']}, but what it hands out is {owned}")
        is_experimental = function.tags["lifecycle"] == "experimental"
        if not is_experimental == function.is_experimental() == (function.header != "plait.h"):
            yield told("plait_x_, plait_experimental.h and @lifecycle experimental come together")


def shape_problems(header):
    structs, handles = set(header.structs), set(header.handles)
    for function in header.functions:
        def told(text):
            return f"{function.header}:{function.line} {function.name}: {text}"
        if not re.fullmatch(r"plait(_[a-z][a-z0-9]*)+", function.name):
            yield told("not named plait_<noun>_<verb>")
        if function.result not in RESULTS:
            yield told(f"result {function.result} is not allowed")
        names = [name for _, name in function.parameters]
        is_output = False
        for position, (kind, name) in enumerate(function.parameters):
            base = re.sub(r"^const |\*+$", "", kind)
            is_pointer = re.fullmatch(rf"(const )?{HANDLE}(_[a-z]+)?\*", kind) and base in structs | handles
            is_out = kind in OUTPUTS or re.fullmatch(HANDLE + r"\*\*", kind) and base in handles
            if not (kind in INPUTS or is_pointer or is_out):
                yield told(f"type {kind} of {name} is not allowed")
            following = function.parameters[position + 1:position + 2]
            if kind in ("const void*", "void*") and following != [("int64_t", "bytes")]:
                yield told(f"{name} has no int64_t bytes after it")
            if is_output and not (is_out or is_pointer or (kind, name) == ("int64_t", "bytes")):
                yield told(f"input {name} stands after outputs or timeout_ms")
            is_output = is_output or bool(is_out) or name == "timeout_ms"
            if name == "timeout_ms" and kind != "int64_t":
                yield told("timeout_ms is an int64_t")
        if "err" in names and (names[-1] != "err" or not function.is_fallible()):
            yield told("err is the last parameter and a plait_error**")
        if function.is_fallible() and function.result != "int32_t":
            yield told("a function that can fail returns an int32_t code")


def struct_problems(header):
    for struct, fields in header.structs.items():
        if not fields or fields[0] != ("int64_t", "struct_size"):
            yield f"{struct}: the first field is int64_t struct_size"
        is_callbacks = fields[-1:] == [("void*", "reserved")]
        if not is_callbacks and fields[1:2] != [("int64_t", "valid")]:
            yield f"{struct}: the second field of an output is int64_t valid"
        for kind, name in fields:
            is_callback = re.match(r"(void|int64_t)\(void\* user[,)]", kind + ")")
            if kind not in FIELDS and not (is_callbacks and (is_callback or (kind, name[:4]) in
                                                            (("void*", "user"), ("void*", "rese")))):
                yield f"{struct}.{name}: type {kind} is not allowed"
        if len({name for _, name in fields}) != len(fields):
            yield f"{struct}: a field stands there twice"


def release_problems(header, release):
    """What the release promised beside types: its functions, their tags, its structs' first fields."""
    now = {function.name: function for function in header.functions}
    before = {function.name: function for function in release.functions if not function.is_experimental()}
    strict = "A1C"
    for name, old in before.items():
        if name not in now:
            yield f"{name} is gone"
            continue
        tags = now[name].tags
        for tag in ("since", "collective", "owns"):
            if tags.get(tag) != old.tags[tag]:
                yield f"{name}: @{tag} was {old.tags[tag]}, is {tags.get(tag)}"
        if strict.find(tags.get("threads", "C")) > strict.index(old.tags["threads"]):
            yield f"{name}: @threads was {old.tags['threads']}, is {tags.get('threads')}, which allows less"
        if tags.get("lifecycle") == "experimental":
            yield f"{name}: a promise is not taken back"
    for name, function in now.items():
        if name not in before and not function.is_experimental() and version(function.tags.get("since", "")) <= release.version:
            yield f"{name}: @since {function.tags['since']}, but that release does not have it"
    for struct, fields in release.structs.items():
        if header.structs.get(struct, [])[:len(fields)] != fields:
            yield f"{struct}: its fields do not begin with those of the release"
    for constant, value in release.constants.items():
        if header.constants.get(constant) != value:
            yield f"{constant}: was {value}, is {header.constants.get(constant)}"


def emit_map(header):
    nodes = {}
    for function in header.functions:
        nodes.setdefault(header.node(function), []).append(function.name)
    text, before = "/* Emitted by tests/checks/abi_header.py from the public headers. */\n", ""
    for node in sorted(nodes, key=lambda name: version(name[6:])):
        names = "".join(f"    {name};\n" for name in sorted(nodes[node]))
        local = "" if before else "  local:\n    *;\n"
        text += f"{node} {{\n  global:\n{names}{local}}}{' ' + before if before else ''};\n"
        before = node
    return text


def emit_symbols(header):
    lines = {f"{f.name}@@{header.node(f)}" for f in header.functions} | {header.node(f) for f in header.functions}
    return "".join(line + "\n" for line in sorted(lines))


def emit_swig(header):
    outputs = {kind.rstrip("*") for f in header.functions for kind, _ in f.parameters if not kind.startswith("const ")}
    return ("// Emitted by tests/checks/abi_header.py from the public headers: the structs that a host makes and the library\n"
            "// fills. Whoever includes it defines PLAIT_SIZED_STRUCT(TYPE).\n" +
            "".join(f"PLAIT_SIZED_STRUCT({name})\n" for name in header.structs if name in outputs))


def emit_index(header):
    text = ("<!-- Emitted by tests/checks/abi_header.py from the public headers. -->\n# Functions of Plait\n\n"
            "The comments of `plait/plait.h` say all about a function; this page says where to look. **Threads**: A, any thread at\n"
            "any time; 1, one call at a time on the handle; C, as 1, and every process of the group makes the same call.\n"
            "**Owns**: the outputs that the caller frees.\n")
    section, summary = None, ""
    for function in header.functions:
        if function.section != section:
            section = function.section
            text += f"\n## {section}\n\n| Function | | Since | Threads | Owns | Lifecycle |\n|---|---|---|---|---|---|\n"
        if not function.text.startswith("As above"):
            summary = re.split(r"(?<=\.) (?=[A-Z`'\"(])", function.text)[0]
            summary = re.sub(r"(`[^`]*`)|([<>*|])", lambda m: m[1] or "\\" + m[2], summary)
        tags = function.tags
        owns = "" if tags.get("owns") == "none" else f"`{tags.get('owns')}`"
        text += (f"| `{function.name}` | {summary} | {tags.get('since')} | {tags.get('threads')} | {owns} | "
                 f"{tags.get('lifecycle')} |\n")
    return text


EMITTED = {"capi/plait.map": emit_map, "tests/goldens/symbols.txt": emit_symbols,
           "bindings/swig/plait_structs.i": emit_swig, "capi/doc/functions.md": emit_index}


def read(path):
    try:
        with open(os.path.join(ROOT, path), encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return None


def first_difference(emitted, stored):
    ours, theirs = emitted.split("\n"), (stored or "").split("\n")
    for line in ours:
        if line not in theirs:
            return f"lacks: {line}"
    for line in theirs:
        if line not in ours:
            return f"has: {line}"
    return "has its lines in another order"


def main():
    header = Header(os.path.join(ROOT, "capi/include/plait"))
    folder = release_folder(header)
    if "--release" in sys.argv:
        print(folder)
        return 0 if folder else 1
    if "--write" in sys.argv:
        for path, emit in EMITTED.items():
            os.makedirs(os.path.dirname(os.path.join(ROOT, path)), exist_ok=True)
            with open(os.path.join(ROOT, path), "w", encoding="utf-8") as file:
                file.write(emit(header))
    checks = [
        ("the headers hold functions, handles, structs and constants alone", header.problems),
        ("every function has its comment and complete, legal tags", list(tag_problems(header))),
        ("names, types and order of arguments can be expressed in every host language", list(shape_problems(header))),
        ("structs are sized and hold fields of 8 bytes alone", list(struct_problems(header))),
        ("nothing is gone or stricter than in the release",
         list(release_problems(header, Header(os.path.join(folder, "include/plait")))) if folder else
         ["no release with this ABI in tests/goldens/abi: tests/checks/abi_release writes it"]),
    ]
    for path, emit in EMITTED.items():
        text, stored = emit(header), read(path)
        checks.append((f"{path} is what the headers say", [] if text == stored else
                       [f"{path} {first_difference(text, stored)}", "refresh: tests/checks/abi_header.py --write"]))
    for number, (what, problems) in enumerate(checks, 1):
        print(f"{'not ok' if problems else 'ok'} {number} - {what}")
        for problem in problems:
            print("# " + problem)
    return 1 if any(problems for _, problems in checks) else 0


if __name__ == "__main__":
    sys.exit(main())

#!/usr/bin/env python3
"""Makes a wheel of the built package, with the library in it.

usage: make_wheel.py [--package DIRECTORY] [--library FILE] [--out DIRECTORY]

The package is what bindings/python/build leaves (build/hosts/python), the library the one that pkg-config finds. The
wheel is for the interpreter that runs this script; it appears in DIRECTORY, by default beside the package, and its
path is printed. The extension module must look for the library in its own folder ($ORIGIN).
"""
import argparse
import base64
import hashlib
import os
import pathlib
import re
import struct
import subprocess
import sys
import sysconfig
import zipfile

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
NEEDED, STRTAB, SONAME, RPATH, RUNPATH = 1, 5, 14, 15, 29
SUMMARY = "Trains GPT-style Transformers inside a Python program"


def dynamic_entries(path):
    """What the dynamic section of a 64-bit little-endian ELF file says: {tag: [text]}."""
    data = pathlib.Path(path).read_bytes()
    if data[:6] != b"\x7fELF\x02\x01":
        sys.exit(f"make_wheel.py: {path} is no 64-bit little-endian ELF file")
    offset, size, count = struct.unpack_from("<Q", data, 32)[0], *struct.unpack_from("<HH", data, 54)
    segments = [struct.unpack_from("<IIQQQQQQ", data, offset + i * size) for i in range(count)]

    def place(address):  # of an address in the file
        for kind, _, start, virtual, _, bytes_in_file, _, _ in segments:
            if kind == 1 and virtual <= address < virtual + bytes_in_file:
                return address - virtual + start
        sys.exit(f"make_wheel.py: {path} is damaged")

    raw = []
    for kind, _, start, _, _, bytes_in_file, _, _ in segments:
        if kind == 2:
            raw = list(struct.iter_unpack("<qQ", data[start:start + bytes_in_file // 16 * 16]))
    strings = next((place(value) for tag, value in raw if tag == STRTAB), 0)
    entries = {}
    for tag, value in raw:
        if tag in (NEEDED, SONAME, RPATH, RUNPATH):
            begin = strings + value
            entries.setdefault(tag, []).append(data[begin:data.index(b"\0", begin)].decode())
    return entries


def library_of(pkg_config="pkg-config"):
    folder = subprocess.check_output([pkg_config, "--variable=libdir", "plait"], text=True).strip()
    return pathlib.Path(folder) / "libplait.so"


def version_of(library):
    match = re.search(r"libplait\.so\.(\d+\.\d+\.\d+)$", str(library.resolve()))
    if not match:
        sys.exit(f"make_wheel.py: the name of {library.resolve()} holds no version")
    return match.group(1)


def collect(package, library):
    """The files of the wheel: {name in the wheel: bytes}."""
    files = {f"plait/{path.relative_to(package)}": path.read_bytes()
             for path in sorted(package.rglob("*"))
             if path.is_file() and "__pycache__" not in path.parts and not path.name.startswith("libplait")}
    modules = [package.parent / name for name in files if name.endswith(sysconfig.get_config_var("EXT_SUFFIX"))]
    if not modules:
        sys.exit(f"make_wheel.py: {package} holds no module for this interpreter: run bindings/python/build")
    soname = dynamic_entries(library)[SONAME][0]
    for module in modules:
        entries = dynamic_entries(module)
        if soname not in entries.get(NEEDED, []):
            sys.exit(f"make_wheel.py: {module} was not built against {soname}")
        if "$ORIGIN" not in ":".join(entries.get(RUNPATH, []) + entries.get(RPATH, [])).split(":"):
            sys.exit(f"make_wheel.py: {module} does not look for {soname} in its own folder")
    files[f"plait/{soname}"] = library.resolve().read_bytes()
    return files


def add_metadata(files, version, tag):
    folder = f"plait-{version}.dist-info"
    readme = ROOT / "bindings" / "python" / "README.md"
    text = readme.read_text(encoding="utf-8") if readme.exists() else SUMMARY + ".\n"
    files[f"{folder}/METADATA"] = (
        f"Metadata-Version: 2.1\nName: plait\nVersion: {version}\nSummary: {SUMMARY}\nHome-page: https://plait.dev/\n"
        "License: Apache-2.0\nRequires-Python: >=3.9\nDescription-Content-Type: text/markdown\n\n" + text).encode()
    files[f"{folder}/WHEEL"] = (
        f"Wheel-Version: 1.0\nGenerator: make_wheel.py\nRoot-Is-Purelib: false\nTag: {tag}\n").encode()
    files[f"{folder}/LICENSE"] = (ROOT / "LICENSE").read_bytes()
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}")
    record = f"{folder}/RECORD"
    files[record] = ("\n".join(lines + [f"{record},,"]) + "\n").encode()


def write(files, path):
    """The same input gives the same bytes. The wheel appears whole or not at all."""
    unfinished = path.with_suffix(".part")
    with zipfile.ZipFile(unfinished, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, data in files.items():
            info = zipfile.ZipInfo(name, (2020, 1, 1, 0, 0, 0))
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = (0o100755 if ".so" in name else 0o100644) << 16
            archive.writestr(info, data)
    os.replace(unfinished, path)


def main():
    parser = argparse.ArgumentParser(description=SUMMARY, usage=__doc__.split("\n")[2][len("usage: "):])
    parser.add_argument("--package", type=pathlib.Path, default=ROOT / "build" / "hosts" / "python" / "plait")
    parser.add_argument("--library", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    library = options.library or library_of()
    version = version_of(library)
    python = f"cp{sys.version_info.major}{sys.version_info.minor}"
    tag = f"{python}-{python}-{sysconfig.get_platform().replace('-', '_').replace('.', '_')}"
    files = collect(options.package, library)
    add_metadata(files, version, tag)
    path = (options.out or options.package.parent) / f"plait-{version}-{tag}.whl"
    write(files, path)
    print(path)


if __name__ == "__main__":
    main()

#!/usr/bin/env python3
"""Writes unicode_tables.inc: ranges of code points whose general category is L* or N*, or that have
the White_Space property. Usage: unicode_tables.py > unicode_tables.inc"""
import sys
import unicodedata

# White_Space beyond the category Zs (Unicode Standard, PropList.txt).
SPACE = {0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x85, 0x2028, 0x2029}


def kind(code):
    category = unicodedata.category(chr(code))
    if code in SPACE or category == "Zs":
        return "kSpace"
    return {"L": "kLetter", "N": "kNumber"}.get(category[0])


def main():
    ranges = []
    for code in range(sys.maxunicode + 1):
        name = kind(code)
        if name is None:
            continue
        if ranges and ranges[-1][1] == code - 1 and ranges[-1][2] == name:
            ranges[-1][1] = code
        else:
            ranges.append([code, code, name])
    print(f"// Written by unicode_tables.py from Unicode {unicodedata.unidata_version}.")
    for first, last, name in ranges:
        print(f"{{0x{first:X}, 0x{last:X}, CharacterKind::{name}}},")


main()

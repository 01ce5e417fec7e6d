#!/usr/bin/env python3
"""Wide instructions stand in dispatched functions alone: scans the disassembly of libplait. Prints TAP.

  instructions.py [LIBRARY]      default: build/release/lib/libplait.so

Code outside the per-target namespaces of Highway runs on any x86-64 and may hold SSE2 at most; code
inside one may hold what its target has, so that an engine limited to a level never meets more."""
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# What an instruction needs, lowest first.
BASELINE, SSSE3, SSE4, AVX2, AVX512, AMX = range(6)
NAMES = ["baseline", "SSSE3", "SSE4", "AVX2", "AVX-512", "AMX"]
TARGETS = {"N_SSSE3": SSSE3, "N_SSE4": SSE4, "N_AVX2": AVX2, "N_AVX3": AVX512, "N_AVX3_DL": AVX512,
           "N_AVX3_ZEN4": AVX512, "N_AVX3_SPR": AMX, "N_AVX10_2": AMX}
SSE3_AND_SSSE3 = re.compile(r"^(addsubp[sd]|haddp[sd]|hsubp[sd]|lddqu|movddup|movs[hl]dup|pabs[bwd]|palignr|phadd\w+|"
                            r"phsub\w+|pmaddubsw|pmulhrsw|pshufb|psign[bwd])$")
SSE4_AND_POPCNT = re.compile(r"^(blend\w+|crc32\w*|dpp[sd]|extractps|insertps|movntdqa|mpsadbw|packusdw|pblend\w+|pcmpeqq|"
                             r"pcmpgtq|pcmp[ei]str[im]|pextr[bdq]|phminposuw|pinsr[bdq]|pm(ax|in)(sb|sd|ud|uw)|"
                             r"pmov[sz]x\w+|pmuldq|pmulld|popcnt\w*|ptest|rounds?[sp][sd]|aes\w+|pclmul\w+)$")
BMI_AND_F16C = re.compile(r"^(andn|bextr|blsi|blsmsk|blsr|bzhi|mulx|pdep|pext|rorx|sarx|shlx|shrx|lzcnt|tzcnt|movbe|"
                          r"ad[co]x|rdrand|rdseed|xsave\w*)[wlq]?$")
AMX_WORDS = re.compile(r"^(ldtilecfg|sttilecfg|tdp\w+|tileload\w+|tilestored|tilerelease|tilezero)$")
EVEX_ONLY = re.compile(r"%zmm|%[xy]mm(1[6-9]|2\d|3[01])\b|%k[0-7]\b")
# The second operand of these is a mask or an address in EVEX form alone, which %k above shows; what
# names neither is by its own name AVX-512.
EVEX_NAMES = re.compile(r"^(valign[dq]|vcvt\w*(bf16|uqq|udq|qq)\w*|vdpbf16ps|vperm[it]2\w+|vpermw|vpermb|vpabsq|vpm(ax|in)[su]q|"
                        r"vpmullq|vpro[lr]v?[dq]|vpsraq|vpsravq|vps[lr][la]vw|vpternlog[dq]|vrange\w+|vreduce\w+|vrndscale\w+|"
                        r"vscalef\w+|vgetexp\w+|vgetmant\w+|vfixupimm\w+|vpconflict\w+|vplzcnt\w+|vpopcnt\w+|vbroadcast[fi](32|64)x\d|"
                        r"v(extract|insert)[fi](32|64)x\d|vmovdq[au](8|16|32|64)|vpmov(w|d|q)\w+|vshuf[fi](32|64)x\d)$")


def needs(mnemonic, operands):
    if AMX_WORDS.match(mnemonic):
        return AMX
    if mnemonic.startswith("v") and mnemonic not in ("verr", "verw"):
        return AVX512 if EVEX_ONLY.search(operands) or EVEX_NAMES.match(mnemonic) else AVX2
    if mnemonic.startswith("k") and "%k" in operands:
        return AVX512
    if BMI_AND_F16C.match(mnemonic):
        # tzcnt is encoded as rep bsf, which older machines run as bsf; compilers use it where both agree.
        return BASELINE if mnemonic.startswith("tzcnt") else AVX2
    if SSE4_AND_POPCNT.match(mnemonic):
        return SSE4
    return SSSE3 if SSE3_AND_SSSE3.match(mnemonic) else BASELINE


def allowed(symbol):
    found = [level for name, level in TARGETS.items() if re.search(r"::%s::" % name, symbol)]
    return max(found, default=BASELINE)


def scan(library):
    """Highest need of each function: {symbol: (level, line)}, and the levels that each target used."""
    command = ["objdump", "-d", "-C", "--no-show-raw-insn", "-j", ".text", library]
    symbol, worst, used, lines = "", {}, {}, 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as dump:
        for line in dump.stdout:
            start = re.match(r"^[0-9a-f]+ <(.*)>:$", line)
            if start:
                symbol, limit = start.group(1), allowed(start.group(1))
                continue
            part = re.match(r"^\s+[0-9a-f]+:\s+(?:(?:lock|rep\w*|bnd|notrack|data16|cs|ds|\{\w+\})\s+)*(\S+)\s*(.*)$", line)
            if not part or not symbol:
                continue
            lines += 1
            level = needs(part.group(1), part.group(2))
            used[limit] = max(used.get(limit, 0), level)
            if level > limit and symbol not in worst:
                worst[symbol] = (level, line.strip())
        if dump.wait() != 0:
            sys.exit("objdump failed")
    return worst, used, lines


def main():
    library = sys.argv[1] if len(sys.argv) > 1 else os.path.join(ROOT, "build/release/lib/libplait.so")
    if not os.path.exists(library):
        print(f"not ok - {library} is not built")
        return 1
    worst, used, lines = scan(library)
    bad = False

    def judge(is_good, what):
        nonlocal bad
        bad |= not is_good
        print(f"{'ok' if is_good else 'not ok'} - {what}")

    # The scan sees what it must see: a library of some size, and wide code where it belongs.
    judge(lines > 50000, f"{lines} instructions were read")
    for target, level in (("N_SSSE3", SSSE3), ("N_AVX2", AVX2), ("N_AVX3", AVX512)):
        judge(used.get(level) == level, f"functions of {target} use {NAMES[level]}")
    for level in range(AMX):
        hits = {s: w for s, w in worst.items() if allowed(s) == level}
        judge(not hits, f"functions for {NAMES[level]} hold nothing above it")
        for symbol, (need, line) in sorted(hits.items())[:20]:
            print(f"# {symbol[:120]}: {NAMES[need]}: {line}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())

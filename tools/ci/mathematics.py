#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that the mathematics of each family of kernels is in a single file.

  tools/ci/mathematics.py

Prints the file of each family. Exit code 1 if a family's pattern also matches another
file of lib/Target. The reference interpreter is exempt.
"""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNEL = "lib/Target/Kernel"
# Family: the file, and a pattern that no other file in the directories may match.
FAMILIES = {
    "softmax, log-softmax": (f"{KERNEL}/RowMath.cpp", r"emitSoftmax\(Operation|\blogOfSum\b"),
    "layer norm, RMS norm": (f"{KERNEL}/RowMath.cpp", r'emitNorm\(Operation|"variance"'),
    "sums and extremes along axes": (f"{KERNEL}/Reducers.cpp", r"reductionStep\("),
    "positions of extremes": (f"{KERNEL}/Reducers.cpp", r"\bselectLast\b"),
    "attention and its gradient": (f"{KERNEL}/AttentionMath.cpp", r'"exp2Fast"|exp\w*\(\w+\.sub\('),
    "functions of numbers": ("lib/Target/Math", r"\bhorner\((?:F )?\w+, (?:const )?\{"),
}
# Softmax of rows computes powers as attention does.
ALSO = {
    "attention and its gradient": {f"{KERNEL}/RowMath.cpp"},
}


def main():
    files = [path for path in (ROOT / "lib/Target").rglob("*") if path.suffix in (".cpp", ".h")]
    texts = {path.relative_to(ROOT).as_posix(): path.read_text() for path in files}
    status = 0
    for family, (home, mark) in FAMILIES.items():
        found = {name for name, text in texts.items() if re.search(mark, text)}
        stem = home.removesuffix(".cpp")
        own = {name for name in found if name.startswith((stem + ".", home + "/"))}
        others = found - own - ALSO.get(family, set())
        print(f"{family}: {home}")
        if not own:
            sys.exit(f"{home}: has nothing of what marks {family}: {mark}")
        for name in sorted(others):
            print(f"{name}: has a part of {family}, which stands in {home}", file=sys.stderr)
            status = 1
    sys.exit(status)


main()

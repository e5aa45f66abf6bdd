# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Prints step, epoch and fields of the JSON lines of mpc train."""
import json
import sys

for line in sys.stdin:
    entry = json.loads(line)
    fields = "[" + ", ".join(sorted(entry)) + "]"
    if entry.get("final"):
        print("final", entry["steps"], fields)
    else:
        print(entry["step"], entry["epoch"], entry["loss"] > 0, fields)

# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""Checks that `mpc explain --json` on stdin has at most N kernels."""
import json
import sys

count = len(json.load(sys.stdin)["kernels"])
if count > int(sys.argv[1]):
    sys.exit(f"{count} kernels, expected at most {sys.argv[1]}")
